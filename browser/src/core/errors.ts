/** What the core or a checkpoint refused: the sentence names the value, the limit and the way out. */
export class TabgptError extends Error {
  override name = "TabgptError";
}

/** The text of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
