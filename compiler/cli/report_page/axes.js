// Scales and axes. A scale maps a number to a place on the picture; its ticks are round numbers.

function niceStep(span, count) {
  const rough = span / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough * 0.999);
}

function linearScale(low, high, from, to, count, {grow = true} = {}) {
  if (!(high > low)) {
    const pad = Math.abs(low) > 0 ? Math.abs(low) * 0.1 : 1;
    [low, high] = [low - pad, high + pad];
  }
  const step = niceStep(high - low, count);
  if (grow) [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  const scale = (value) => from + ((value - low) / (high - low)) * (to - from);
  scale.ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; ++i)
    scale.ticks.push(Number((i * step).toPrecision(12)));
  scale.invert = (place) => low + ((place - from) / (to - from)) * (high - low);
  return scale;
}

// Ticks at powers of ten and, where there are few of those, at 2 and 5 times them.
function logScale(low, high, from, to) {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  const pad = Math.max((b - a) * 0.04, 0.02), start = a - pad, end = b + pad;
  const scale = (value) => from + ((Math.log10(value) - start) / (end - start)) * (to - from);
  const factors = end - start < 0.7 ? [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9] : end - start < 2 ? [1, 2, 5] : [1];
  const skip = Math.max(1, Math.ceil((end - start) / 8));
  scale.ticks = [];
  for (let power = Math.floor(start); power <= Math.ceil(end); ++power) {
    if (factors.length === 1 && power % skip !== 0) continue;
    for (const factor of factors) {
      const tick = Number((factor * 10 ** power).toPrecision(6));
      if (Math.log10(tick) >= start && Math.log10(tick) <= end) scale.ticks.push(tick);
    }
  }
  scale.invert = (place) => 10 ** (start + ((place - from) / (to - from)) * (end - start));
  return scale;
}

// box: {left, top, right, bottom} of the plot inside its svg.
function drawAxes(svg, box, x, y, {xLabel, yLabel, xFormat = short, yFormat = short}) {
  for (const tick of y.ticks) {
    const place = y(tick);
    svg.append(
        shape("line", {class: "grid", x1: box.left, x2: box.right, y1: place, y2: place}),
        shape("text", {x: box.left - 8, y: place + 4, "text-anchor": "end"}, yFormat(tick)));
  }
  let last = -Infinity;
  for (const tick of x.ticks) {
    const place = x(tick), text = xFormat(tick), half = text.length * 3.4;
    svg.append(shape("line", {class: "axis", x1: place, x2: place, y1: box.bottom, y2: box.bottom + 4}));
    if (place - half < last + 8) continue;
    last = place + half;
    svg.append(shape("text", {x: place, y: box.bottom + 17, "text-anchor": "middle"}, text));
  }
  svg.append(
      shape("line", {class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}),
      shape("text", {x: box.right, y: box.bottom + 32, "text-anchor": "end"}, xLabel),
      shape("text", {x: box.left - 8, y: box.top - 10, "text-anchor": "start"}, yLabel));
}
