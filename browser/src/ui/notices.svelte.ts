/**
 * @file What the page tells the person about what just happened.
 */
import { messageOf } from "../core/index.ts";

export class Notices {
  error = $state("");
  notice = $state("");
  /** For screen readers: what just happened, politely. */
  announcement = $state("");

  clear(): void {
    this.error = "";
    this.notice = "";
  }

  /** Work whose failure is shown, not thrown. */
  async guard(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.error = messageOf(error);
    }
  }
}
