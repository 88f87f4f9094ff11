// The theme before the first paint: the visitor's choice, else the system's. A file, since the CSP allows no inline script.
(() => {
  const KEY = "tabgpt-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: light)");
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const apply = () => {
    const theme = read() ?? (system.matches ? "light" : "dark");
    root.dataset.theme = theme;
    const button = document.querySelector("[data-theme-button]");
    if (button) button.textContent = theme === "dark" ? "Light" : "Dark";
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.querySelector("[data-theme-button]")?.addEventListener("click", () => {
      try {
        localStorage.setItem(KEY, root.dataset.theme === "dark" ? "light" : "dark");
      } catch {
        return; // storage is off: the system's theme stays
      }
      apply();
    });
  });
})();
