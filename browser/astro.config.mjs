import svelte from "@astrojs/svelte";
import { defineConfig } from "astro/config";

/**
 * The site is static and works under any path: pages are files side by side, and every URL in them
 * is relative. Scripts and styles are never inlined, so that the CSP needs no hash and no
 * 'unsafe-inline'.
 */
export default defineConfig({
  output: "static",
  integrations: [svelte()],
  devToolbar: { enabled: false },
  build: { format: "file", assetsPrefix: ".", inlineStylesheets: "never" },
  vite: {
    base: "./",
    // Astro would prefix what a script refers to (the worker) as seen from the page; it is seen from the script.
    experimental: { renderBuiltUrl: () => ({ relative: true }) },
    build: { assetsInlineLimit: 0, target: "es2022" },
    worker: { format: "es" },
    server: {
      fs: { allow: [".."] },
      headers: {
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Embedder-Policy": "require-corp",
      },
    },
  },
});
