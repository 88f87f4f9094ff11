import { execFileSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import svelte from "@astrojs/svelte";
import { defineConfig } from "astro/config";

/**
 * Makes every page refer to /_astro/ relative to itself, so that the site works under any path.
 * Astro's own assetsPrefix is one text for all depths.
 */
const relativeAssets = {
  name: "tabgpt:relative-assets",
  hooks: {
    "astro:build:done": async ({ dir }) => {
      const root = fileURLToPath(dir);
      const pages = (await readdir(root, { recursive: true })).filter((path) => path.endsWith(".html"));
      for (const page of pages) {
        const up = relative(dirname(page), ".").split(sep).join("/");
        const html = await readFile(root + page, "utf8");
        await writeFile(root + page, html.replace(/(src|href)="\/_astro\//g, `$1="${up ? `${up}/` : "./"}_astro/`));
      }
    },
  },
};

/** What a record made on the page says of its origin; "unknown" where the source is no git checkout. */
function commit() {
  const git = (...words) => execFileSync("git", words, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    const isDirty = git("status", "--porcelain", "--untracked-files=no", "--", "..", ":!../bench/records") !== "";
    return git("rev-parse", "--short=12", "HEAD") + (isDirty ? "+dirty" : "");
  } catch {
    return "unknown";
  }
}

/**
 * A static site. Scripts and styles are never inlined, so that the CSP needs no hash and no
 * 'unsafe-inline'.
 */
export default defineConfig({
  output: "static",
  integrations: [svelte(), relativeAssets],
  devToolbar: { enabled: false },
  build: { format: "directory", inlineStylesheets: "never" },
  vite: {
    define: { __COMMIT__: JSON.stringify(commit()) },
    // What a script refers to (the worker, a chunk) is found from the script.
    experimental: { renderBuiltUrl: (_file, { hostType }) => (hostType === "js" ? { relative: true } : undefined) },
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
