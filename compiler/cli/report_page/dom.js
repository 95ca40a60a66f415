// Elements, numbers as text, and the tip that follows the pointer. Whatever comes from a spec or a run reaches the page
// as text nodes and attribute values only, never as markup.

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function card(title, text, {wide = false, controls = []} = {}) {
  const body = element("div");
  const head = element("div", {class: "head"}, element("div", {}, element("h2", {}, title), element("p", {}, text)));
  if (controls.length) head.append(element("div", {class: "controls"}, ...controls));
  const node = element("section", {class: wide ? "card wide" : "card"}, head, body);
  return {node, body};
}

function tiles(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined);
  return element(
      "div", {class: "tiles"},
      ...known.map(
          ([label, value]) => element("div", {class: "tile"}, element("b", {}, value), element("span", {}, label))));
}

function legend(entries) {
  return element(
      "div", {class: "legend"},
      ...entries.map(
          ({label, color, kind = ""}) => element(
              "span", {}, element("i", {class: kind, style: `background:${color};border-color:${color}`}), label)));
}

// Three digits that count: 0.0123, 1.23, 123, 12.3k.
function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * 0.9995) return trim(value / unit) + name;
  }
  if (size < 1e-4) return value.toExponential(2).replace(/\.?0+e/, "e");
  return trim(value);
}

function trim(value) {
  const digits = Math.abs(value) >= 1000 ? 0 : 3;
  return digits === 0 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [power, name] of [[3, "GiB"], [2, "MiB"], [1, "KiB"]]) {
    const unit = 1024 ** power;
    if (Math.abs(value) >= unit) return `${trim(value / unit)} ${name}`;
  }
  return `${trim(value)} B`;
}

function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value >= 3600) return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
  if (value >= 60) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value >= 1) return `${trim(value)} s`;
  if (value >= 1e-3) return `${trim(value * 1e3)} ms`;
  return `${trim(value * 1e6)} µs`;
}

// rows: [label, value, color?]
function showTip(event, title, rows = []) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(element("b", {}, title), ...rows.map(([label, value, color]) => {
    const name = element("span", {}, label);
    if (color) name.prepend(element("i", {style: `background:${color}`}));
    return element("div", {}, name, element("span", {}, value));
  }));
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), gap = 14;
  const right = event.clientX + gap + box.width > innerWidth;
  tip.style.left = `${Math.max(4, right ? event.clientX - gap - box.width : event.clientX + gap)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + gap, innerHeight - box.height - 4))}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

function tipped(node, title, rows) {
  node.addEventListener("pointermove", (event) => showTip(event, title, rows));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

function toggleTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
}

const colors = Array.from({length: 8}, (_, i) => `var(--c${i})`);
