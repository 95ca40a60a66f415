// `hydrac bench --ablate --json`: what each optimization is worth.

// `at`: its value at so many milliseconds a step, where it follows from them.
const measures = [
  {
    name: "tokens/s",
    of: (r) => r.tokens_per_second,
    at: (r, ms) => (r.tokens_per_second * r.step_ms) / ms,
    format: short,
    better: "more is better"
  },
  {name: "ms a step", of: (r) => r.step_ms, at: (r, ms) => ms, format: (v) => `${short(v)} ms`, better: "less is better"},
  {name: "memory planned", of: (r) => r.planned_bytes, format: bytes, better: "less is better"},
  {name: "memory measured", of: (r) => r.measured_bytes, format: bytes, better: "less is better"},
  {name: "energy", of: (r) => r.joules_per_token, format: (v) => `${short(v)} J a token`, better: "less is better"},
  {name: "first step", of: (r) => r.first_step_s, format: seconds, better: "less is better"},
  {name: "loss", of: (r) => r.loss, format: (v) => v.toFixed(5), better: "the same is right"},
];
const rowColors = {
  baseline: colors[5],
  with: colors[0],
  spec: colors[2],
  without: colors[1]
};
const rowWords = {
  baseline: "plain fp32",
  with: "plain, with one or a combination",
  spec: "the spec",
  without: "the spec, without one"
};

function ablationBars(report, measure) {
  const plain = measure.of(report.rows[0]);
  return barChart(
      report.rows.map((row) => {
        if (row.impossible)
          return {label: row.name, value: 0, text: `not possible: ${row.impossible}`, color: "none", rows: []};
        const value = measure.of(row);
        const ratio =
            plain > 0 && row.kind !== "baseline" && measure.name !== "loss" ? `  (${(value / plain).toFixed(2)}x)` : "";
        return {
          label: row.name,
          value,
          color: rowColors[row.kind],
          spread: measure.at && row.step_ms_rounds && extent(row.step_ms_rounds.map((ms) => measure.at(row, ms))),
          text: (value === undefined ? "–" : measure.format(value) + ratio) + (measure.at && row.effect?.within_spread ? " ≈" : ""),
          rows: ablationRows(row)
        };
      }),
      {labelWidth: 250});
}

function ablationRows(row) {
  const {against, least, most, within_spread} = row.effect ?? {};
  const effect = within_spread ? "within the spread" : `${least?.toFixed(2)}x to ${most?.toFixed(2)}x`;
  return measures.filter((m) => m.of(row) !== undefined)
      .map((m) => [m.name, m.format(m.of(row))])
      .concat(row.effect ? [[`beside ${against}`, effect]] : [], row.overrides.map((o) => ["", o]));
}

function ablationPage(page, report) {
  document.getElementById("title").textContent = `${report.spec}: what each optimization is worth`;
  document.getElementById("subtitle").textContent =
      `on ${report.target}, ${report.steps} steps from the same weights on the same batches`;
  const buttons = measures.filter((m) => report.rows.some((r) => !r.impossible && m.of(r) !== undefined))
                      .map((measure) => ({measure, button: element("button", {type: "button"}, measure.name)}));
  const {node, body} = card("Optimizations", "", {wide: true, controls: buttons.map((b) => b.button)});
  const text = node.querySelector(".head p");
  const show = (measure) => {
    for (const b of buttons) b.button.setAttribute("aria-pressed", String(b.measure === measure));
    const spread = measure.at ? "; the line over a bar: the spread of several turns; ≈: within that of plain fp32, or of the spec for rows without one" : "";
    text.textContent = `${measure.name}; ${measure.better}; in parentheses against plain fp32${spread}`;
    body.replaceChildren(
        ablationBars(report, measure),
        legend(Object.keys(rowWords).map((k) => ({label: rowWords[k], color: rowColors[k], kind: "block"}))));
  };
  for (const b of buttons) b.button.addEventListener("click", () => show(b.measure));
  if (buttons.length) show(buttons[0].measure);
  const cards = element("div", {class: "cards"}, node);
  const table = card("All figures", "", {wide: true});
  const shown = buttons.map((b) => b.measure);
  table.body.append(keyTable(
      ["", ...shown.map((m) => m.name)],
      report.rows.map(
          (row) =>
              [row.name,
               ...shown.map(
                   (m) =>
                       (row.impossible              ? "not possible" :
                            m.of(row) === undefined ? "–" :
                                                      m.format(m.of(row))))])));
  cards.append(table.node);
  page.append(cards);
}
