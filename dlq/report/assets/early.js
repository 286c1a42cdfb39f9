// In the head, before anything is drawn: the theme chosen last, and room for what scripts add.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const theme = localStorage.getItem("report-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch {
    // Storage may be denied to files: then the system's theme it is.
  }
})();
