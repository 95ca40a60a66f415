// The page begins here: which kind of report its data is.

function start() {
  const report = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.getElementById("theme").addEventListener("click", toggleTheme);
  const pages = {run: runPage, spec: specPage, ablation: ablationPage, bench: benchPage};
  pages[report.kind](document.getElementById("page"), report);
  document.title = `${document.getElementById("title").textContent} · hydrac`;
}

start();
