/**
 * @file An origin's private files in memory, with a disk that can be full and a tab that can be killed: a
 * writable's bytes count when written and take the file's place on close, as in a browser.
 */

class FakeFile {
  readonly kind = "file";
  content = new Uint8Array();
  readonly disk: FakeDisk;

  constructor(disk: FakeDisk) {
    this.disk = disk;
  }

  getFile(): Promise<File> {
    return Promise.resolve(new File([this.content], "f", { lastModified: 1 }));
  }

  async createWritable() {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    await this.disk.act();
    return {
      write: async (part: Uint8Array<ArrayBuffer>) => {
        await this.disk.act();
        this.disk.spend(part.length);
        parts.push(part);
      },
      close: async () => {
        await this.disk.act();
        this.content = new Uint8Array(await new Blob(parts).arrayBuffer());
      },
      abort: () => {
        this.disk.aborted++;
        return Promise.resolve();
      },
    };
  }
}

class FakeFolder {
  readonly kind = "directory";
  readonly children = new Map<string, FakeFolder | FakeFile>();
  readonly disk: FakeDisk;

  constructor(disk: FakeDisk) {
    this.disk = disk;
  }

  getDirectoryHandle(name: string): Promise<FakeFolder> {
    return this.#child(name, FakeFolder);
  }

  getFileHandle(name: string): Promise<FakeFile> {
    return this.#child(name, FakeFile);
  }

  async #child<T extends FakeFolder | FakeFile>(name: string, Kind: new (disk: FakeDisk) => T): Promise<T> {
    if (!this.children.has(name)) await this.disk.act();
    const child = this.children.get(name) ?? new Kind(this.disk);
    if (!(child instanceof Kind)) throw new DOMException(`${name} is of the other kind`, "TypeMismatchError");
    this.children.set(name, child);
    return child;
  }

  async *entries() {
    yield* this.children.entries();
  }

  async *keys() {
    yield* this.children.keys();
  }

  /** A folder file by file, which a kill may cut short. */
  async removeEntry(name: string): Promise<void> {
    const child = this.children.get(name);
    if (!child) throw new DOMException("not there", "NotFoundError");
    if (child instanceof FakeFolder) for (const inner of [...child.children.keys()]) await child.removeEntry(inner);
    await this.disk.act();
    this.children.delete(name);
  }
}

export class FakeDisk {
  /** Bytes that may still be written. */
  free = Infinity;
  aborted = 0;
  readonly root = new FakeFolder(this);
  #actsLeft = Infinity;
  #dead: () => void = () => undefined;
  /** Resolves once the tab has been killed. */
  killed: Promise<void> = new Promise(() => undefined);

  /** The tab is killed in place of the next change but `acts`. */
  killAfter(acts: number): void {
    this.#actsLeft = acts;
    this.killed = new Promise((resolve) => (this.#dead = resolve));
  }

  /** Another tab opens. What the killed one had asked for is never answered. */
  revive(): void {
    this.#actsLeft = Infinity;
  }

  /** Before each change. */
  act(): Promise<void> {
    if (this.#actsLeft-- > 0) return Promise.resolve();
    this.#dead();
    return new Promise(() => undefined);
  }

  spend(bytes: number): void {
    if (bytes > this.free) throw new DOMException("the disk is full", "QuotaExceededError");
    this.free -= bytes;
  }

  /** What `navigator` needs to have. */
  get navigator(): unknown {
    return { storage: { getDirectory: () => Promise.resolve(this.root) } };
  }

  /** Sizes by path. */
  async sizes(folder = this.root, path = ""): Promise<Record<string, number>> {
    const found: Record<string, number> = {};
    for (const [name, child] of folder.children) {
      if (child instanceof FakeFile) found[path + name] = child.content.length;
      else Object.assign(found, await this.sizes(child, `${path}${name}/`));
    }
    return found;
  }
}
