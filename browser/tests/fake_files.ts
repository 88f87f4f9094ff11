/**
 * @file An origin's private files in memory, with a disk that can be full: a writable's bytes count
 * when written and take the file's place on close, as in a browser.
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

  createWritable() {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    return Promise.resolve({
      write: async (part: Uint8Array<ArrayBuffer>) => {
        this.disk.spend(part.length);
        parts.push(part);
      },
      close: async () => {
        this.content = new Uint8Array(await new Blob(parts).arrayBuffer());
      },
      abort: () => {
        this.disk.aborted++;
        return Promise.resolve();
      },
    });
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
    return Promise.resolve(this.#child(name, FakeFolder));
  }

  getFileHandle(name: string): Promise<FakeFile> {
    return Promise.resolve(this.#child(name, FakeFile));
  }

  #child<T extends FakeFolder | FakeFile>(name: string, Kind: new (disk: FakeDisk) => T): T {
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

  removeEntry(name: string) {
    const gone = this.children.delete(name);
    return gone ? Promise.resolve() : Promise.reject(new DOMException("not there", "NotFoundError"));
  }
}

export class FakeDisk {
  /** Bytes that may still be written. */
  free = Infinity;
  aborted = 0;
  readonly root = new FakeFolder(this);

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
