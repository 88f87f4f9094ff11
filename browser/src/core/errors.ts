/** What the core or a checkpoint refused: the sentence names the value, the limit and the way out. */
export class TabgptError extends Error {
  override name = "TabgptError";
}

/** A weight or moment that is NaN or infinite: no checkpoint holds it. */
export class NotFiniteError extends TabgptError {
  override name = "NotFiniteError";
}

/** The text of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
