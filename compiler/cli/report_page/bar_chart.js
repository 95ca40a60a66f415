// Horizontal bars of one measure.

// rows: {label, value, text, color, rows, floor?, spread?: [low, high]}; bars of one unit, longest first or in the given order.
function barChart(rows, {labelWidth = 330, width = 1160} = {}) {
  const height = rows.length * 24 + 6, right = width - 110;
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img"});
  const longest = Math.max(...rows.map((r) => Math.max(r.value || 0, r.spread?.[1] ?? 0)), 1e-300), fits = Math.floor((labelWidth - 14) / 6.3);
  rows.forEach((r, i) => {
    const lengthOf = (value) => (value / longest) * (right - labelWidth), y = i * 24 + 4, w = lengthOf(r.value || 0);
    const label = r.label.length > fits ? `${r.label.slice(0, fits - 1)}…` : r.label;
    svg.append(shape("text", {class: "strong", x: labelWidth - 10, y: y + 13, "text-anchor": "end"}, label));
    if (r.value > 0) {
      svg.append(tipped(
          shape("rect", {
            class: "mark bar",
            x: labelWidth,
            y,
            width: Math.max(w, 1),
            height: 17,
            rx: 2,
            style: `fill:${r.color}`
          }),
          r.label, r.rows));
      if (r.floor > 0) {
        const at = labelWidth + lengthOf(r.floor);
        svg.append(shape("line", {x1: at, x2: at, y1: y - 2, y2: y + 19, stroke: "var(--ink)", "stroke-width": 1.5}));
      }
    }
    const [low, high] = (r.spread ?? [r.value || 0, r.value || 0]).map((value) => labelWidth + lengthOf(value));
    if (high > low)
      svg.append(shape(
          "path",
          {class: "spread", d: `M${low} ${y + 4}v9M${low} ${y + 8.5}H${high}M${high} ${y + 4}v9`, stroke: "var(--ink)"}));
    svg.append(shape("text", {x: Math.max(labelWidth + w, high) + 8, y: y + 13}, r.text));
  });
  return svg;
}
