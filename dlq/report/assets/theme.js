// Light, dark, or as the system says. Whoever draws colours by hand listens to onTheme.
const onTheme = [];

function startTheme() {
  const button = find("#theme");
  const themes = ["system", "light", "dark"];
  const show = () => {
    button.textContent = `Theme: ${root.dataset.theme ?? "system"}`;
    onTheme.forEach((tell) => tell());
  };
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("report-theme", next);
    } catch {
      // Then it lasts as long as the page does.
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
