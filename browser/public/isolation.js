/*
 * A service worker for static hosts that send no headers: it adds the two that make a page cross-origin
 * isolated, and so give it threads. Nobody has it who has not switched it on in the panel "Engine".
 * It fetches, adds, hands on; it keeps nothing.
 */
const HEADERS = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
};

async function isolated(request) {
  const response = await fetch(request);
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (new URL(event.request.url).origin === self.location.origin) event.respondWith(isolated(event.request));
});
