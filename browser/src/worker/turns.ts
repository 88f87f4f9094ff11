/**
 * @file Sharing the worker's one thread between training and commands.
 */

const channel = new MessageChannel();
const waiting: (() => void)[] = [];
channel.port1.onmessage = () => waiting.shift()?.();

/**
 * Lets queued messages in. A port's message is a task of its own, unlike a promise, and is not
 * clamped to 4 ms as nested timers are, nor to a second in a hidden tab.
 */
export function breathe(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });
}

/** Runs tasks one after the other, in the order in which they asked. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(task: () => T | Promise<T>): Promise<T> {
    const turn = this.#last.then(task);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
