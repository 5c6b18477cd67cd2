// Brings the page to life: first what is in view, then the rest.

const data = JSON.parse(document.getElementById("data").textContent);
let curve;

/** The theme is the system's until the button is pressed. */
function enableTheme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
}

enableTheme();
enhanceTable(document.getElementById("comparison"));
learnIds();
indexCells();
// A first frame with the comparison comes before the larger parts are built.
requestAnimationFrame(() => setTimeout(() => {
  curve = new TokenCurve();
  fillSessionTable();
  document.documentElement.dataset.ready = "true";
}));
