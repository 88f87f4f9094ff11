/**
 * @file Threads on a static host that sends no headers: the site's optional service worker adds them. A
 * person switches it on and off; nothing else here registers it.
 */

/** Whether this page could be isolated by the worker, is so by it, or has no use for it. */
export type Isolation = "possible" | "by worker" | "not needed";

const scriptOf = (siteUrl: string): string => new URL("isolation.js", siteUrl).href;

export function isolation(siteUrl: string): Isolation {
  // Absent where the page is not secure.
  const workers = navigator.serviceWorker as ServiceWorkerContainer | undefined;
  if (workers?.controller?.scriptURL === scriptOf(siteUrl)) return "by worker";
  return workers !== undefined && !globalThis.crossOriginIsolated ? "possible" : "not needed";
}

/** Switches it on, and loads the page again under it. */
export async function isolate(siteUrl: string): Promise<void> {
  await navigator.serviceWorker.register(scriptOf(siteUrl));
  await navigator.serviceWorker.ready;
  location.reload();
}

/** Switches it off, and loads the page again without it. */
export async function release(siteUrl: string): Promise<void> {
  const registration = await navigator.serviceWorker.getRegistration(siteUrl);
  await registration?.unregister();
  location.reload();
}
