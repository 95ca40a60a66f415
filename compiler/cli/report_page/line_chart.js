// Lines over steps, with a cross-hair that shows the values next to the pointer.
// series: [{label, color, points: [[x, y], ...], kind: "" | "faint" | "dashed", marks: bool, hidden: bool in the tip}]

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

// A path with a gap where a value is no number.
function linePath(points, x, y) {
  let path = "", drawing = false;
  for (const [px, py] of points) {
    if (!Number.isFinite(py)) {
      drawing = false;
      continue;
    }
    path += `${drawing ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
    drawing = true;
  }
  return path;
}

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x)
      low = middle + 1;
    else
      high = middle;
  }
  if (low > 0 && x - points[low - 1][0] < points[low][0] - x) --low;
  return points[low];
}

function lineChart(series, {yLabel, xLabel = "step", format = short, log = false, zero = false, logX = false}) {
  const width = 560, height = 250, box = {left: 58, top: 26, right: width - 12, bottom: height - 38};
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": yLabel});
  const all = series.flatMap((s) => s.points);
  const [xLow, xHigh] = extent(all.map((p) => p[0]));
  let [yLow, yHigh] = extent(all.map((p) => p[1]));
  if (!Number.isFinite(yLow)) {
    svg.append(shape("text", {x: width / 2, y: height / 2, "text-anchor": "middle"}, "no finite values"));
    return svg;
  }
  if (zero) yLow = Math.min(0, yLow);
  const x = logX && xLow > 0 ? logScale(xLow, xHigh, box.left, box.right) :
                               linearScale(xLow, xHigh, box.left, box.right, 6, {grow: false});
  const y =
      log && yLow > 0 ? logScale(yLow, yHigh, box.bottom, box.top) : linearScale(yLow, yHigh, box.bottom, box.top, 5);
  drawAxes(svg, box, x, y, {xLabel, yLabel, yFormat: format});
  for (const {points, color, kind = "", marks} of series) {
    svg.append(shape("path", {class: `series ${kind}`, d: linePath(points, x, y), style: `stroke:${color}`}));
    const single = points.length === 1;
    if (!marks && !single) continue;
    for (const [px, py] of points) {
      if (Number.isFinite(py) && (points.length <= 60 || single))
        svg.append(shape("circle", {class: "mark", cx: x(px), cy: y(py), r: 3, style: `fill:${color}`}));
    }
  }
  addCrossHair(svg, box, x, y, series, {xLabel, format});
  return svg;
}

function addCrossHair(svg, box, x, y, series, {xLabel, format}) {
  const told = series.filter((s) => s.points.length > 0);
  const line = shape("line", {class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden"});
  const dots =
      told.map((s) => shape("circle", {r: 3.5, class: "mark", style: `fill:${s.color}`, visibility: "hidden"}));
  const area = shape(
      "rect",
      {x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: "transparent"});
  svg.append(line, ...dots, area);
  const hide = () => {
    hideTip();
    for (const node of [line, ...dots]) node.setAttribute("visibility", "hidden");
  };
  area.addEventListener("pointerleave", hide);
  area.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    const at = x.invert(((event.clientX - frame.left) / frame.width) * svg.viewBox.baseVal.width);
    const near = nearest(told.flatMap((s) => [nearest(s.points, at)]).sort((a, b) => a[0] - b[0]), at);
    line.setAttribute("x1", x(near[0]));
    line.setAttribute("x2", x(near[0]));
    line.setAttribute("visibility", "visible");
    const rows = [];
    told.forEach((s, i) => {
      const [px, py] = nearest(s.points, near[0]);
      const shown = Number.isFinite(py);
      dots[i].setAttribute("visibility", shown ? "visible" : "hidden");
      if (!shown) return;
      dots[i].setAttribute("cx", x(px));
      dots[i].setAttribute("cy", y(py));
      if (s.label) rows.push([px === near[0] ? s.label : `${s.label} (at ${px})`, format(py), s.color]);
    });
    showTip(event, `${xLabel} ${near[0]}`, rows);
  });
}
