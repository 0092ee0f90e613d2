// Sets theme and density before the first paint. The settings page writes the same names.
(() => {
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem("trustplane.theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    if (localStorage.getItem("trustplane.density") === "compact") root.dataset.density = "compact";
  } catch {
    // Storage can be switched off: the preference of the system holds.
  }
})();
