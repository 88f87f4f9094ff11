/**
 * @file Small texts that this browser keeps for the page from visit to visit. Where it keeps none, all
 * works as on a first visit.
 */

export function recall(key: string): string {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function remember(key: string, text: string): void {
  try {
    localStorage.setItem(key, text);
  } catch {
    // A private window or a full store: it is asked for again.
  }
}
