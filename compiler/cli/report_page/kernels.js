// Time of a step: its calls in order, kernels against the roof of the hardware, and their times when they
// were measured.

const kinds = [
  {name: "matmul", color: colors[0], of: (k) => /gemm|matmul/.test(k)},
  {name: "attention", color: colors[1], of: (k) => /attention/.test(k)},
  {name: "loss and head", color: colors[3], of: (k) => /head|loss|cross_entropy|logits/.test(k)},
  {name: "optimizer", color: colors[2], of: (k) => /adamw|lion|sgd|update|clip|norm_of|grad_norm/.test(k)},
  {name: "everything else", color: colors[7], of: () => true},
];

function kindOf(call) {
  const update = call.function === "update";
  const kind =
      call.matmul ? (kinds[1].of(call.kernel) ? kinds[1] : kinds[0]) : kinds.slice(1).find((k) => k.of(call.kernel));
  return update && !call.matmul ? kinds[3] : kind;
}

// The calls of one optimizer step, in order, once a section's iteration: {function, section, iterations, kernel, ...}.
function stepCalls(report) {
  const accumulated = report.accumulation;
  const calls = [];
  for (const fn of report.functions) {
    if (fn.name !== "micro_step" && fn.name !== "update") continue;
    for (const section of fn.sections) {
      for (const call of section.calls) {
        const times = section.iterations * (fn.name === "micro_step" ? accumulated : 1);
        calls.push({
          ...call,
          function: fn.name,
          section: section.name,
          iterations: section.iterations,
          times,
          matmul: call.multiplies_matrices,
          weight: weightOf(call, report.peaks)
        });
      }
    }
  }
  return calls;
}

// Seconds at best; where the target's peaks are not known, bytes moved or a tenth of the operations.
function weightOf(call, peaks) {
  if (peaks) return call.floor_seconds;
  return Math.max(call.bytes, call.multiplies_matrices ? call.flop / 10 : 0);
}

function callRows(call, peaks, total) {
  const rows = [["makes", call.output], ["flop", short(call.flop)], ["moves", bytes(call.bytes)]];
  if (peaks) rows.push(["at best", seconds(call.floor_seconds)], ["bound by", boundBy(call, peaks)]);
  rows.push(["runs a step", `${call.times} times`], ["share of the step", percent((call.weight * call.times) / total)]);
  return rows;
}

function percent(share) {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
}

function boundBy(call, peaks) {
  return call.matmul && call.flop / peaks.flops > call.bytes / peaks.bytes_per_second ? "operations" : "memory";
}

// One row a section: what its calls take, one behind another; a section that runs once a layer is drawn once.
function timeline(calls, report) {
  const groups = [];
  for (const call of calls) {
    const name = call.section;
    if (!groups.length || groups.at(-1).name !== name)
      groups.push({name, calls: [], iterations: call.iterations, times: call.times, weight: 0});
    groups.at(-1).calls.push(call);
    groups.at(-1).weight += call.weight * call.times;
  }
  const total = groups.reduce((sum, g) => sum + g.weight, 0);
  const width = 1160, row = 30, left = 190, right = width - 128, height = groups.length * row + 8;
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "calls of a step"});
  const longest = Math.max(...groups.map((g) => g.weight));
  groups.forEach((group, i) => {
    const y = i * row + 4, times = group.times / group.iterations;
    const note = (group.iterations > 1 ? ` × ${group.iterations}` : "") + (times > 1 ? ` × ${times}` : "");
    svg.append(shape("text", {class: "strong", x: left - 10, y: y + 16, "text-anchor": "end"}, group.name + note));
    let x = left;
    for (const call of group.calls) {
      const w = (call.weight * call.times / longest) * (right - left);
      const bar = shape("rect", {
        class: "mark call",
        x,
        y,
        width: Math.max(w, 0.6),
        height: 22,
        rx: w > 6 ? 2 : 0,
        style: `fill:${kindOf(call).color}`
      });
      svg.append(tipped(bar, call.kernel, callRows(call, report.peaks, total)));
      if (w > call.output.length * 6.4 + 10)
        svg.append(shape(
            "text", {class: "inside", x: x + w / 2, y: y + 15, "text-anchor": "middle", "pointer-events": "none"},
            call.output));
      x += w;
    }
    const what =
        report.peaks ? `${seconds(group.weight)}, ${percent(group.weight / total)}` : percent(group.weight / total);
    svg.append(shape("text", {x: x + 8, y: y + 15}, what));
  });
  return svg;
}

// points: {label, intensity (flop a byte), tflops, share, color, rows}
function roofline(points, peaks) {
  const width = 1160, height = 380, box = {left: 70, top: 26, right: width - 20, bottom: height - 40};
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "roofline"});
  const ridge = peaks.flops / peaks.bytes_per_second, peak = peaks.flops / 1e12;
  const roof = (intensity) => Math.min(peak, (intensity * peaks.bytes_per_second) / 1e12);
  const known = points.filter((p) => p.intensity > 0 && p.tflops > 0);
  const [low, high] = extent([...known.map((p) => p.intensity), ridge / 30, ridge * 4]);
  const x = logScale(low, high, box.left, box.right);
  const y = logScale(Math.min(roof(low), ...known.map((p) => p.tflops)), peak * 1.2, box.bottom, box.top);
  drawAxes(svg, box, x, y, {xLabel: "flop a byte", yLabel: "TFLOP/s"});
  svg.append(
      shape("path", {
        class: "series",
        style: "stroke:var(--soft)",
        d: linePath([[low, roof(low)], [ridge, peak], [high, peak]], x, y)
      }),
      shape("text", {x: box.right - 4, y: y(peak) - 8, "text-anchor": "end"}, `${short(peak)} TFLOP/s`),
      shape(
          "text", {x: x(Math.sqrt(low * ridge)) - 8, y: y(roof(Math.sqrt(low * ridge))) - 8, "text-anchor": "end"},
          `${short(peaks.bytes_per_second / 1e9)} GB/s`));
  for (const point of [...known].sort((a, b) => b.share - a.share)) {
    const dot = shape("circle", {
      class: "mark kernel",
      cx: x(point.intensity),
      cy: y(point.tflops),
      r: 4 + 14 * Math.sqrt(point.share),
      style: `fill:${point.color};fill-opacity:0.8`
    });
    svg.append(tipped(dot, point.label, point.rows));
  }
  return svg;
}

// Calls of one kernel and output become one entry.
function gathered(calls) {
  const all = new Map();
  for (const call of calls) {
    const key = call.kernel + (call.matmul ? ` ${call.output}` : "");
    const entry = all.get(key) ?? {...call, label: key, times: 0, weight: 0, allFlop: 0, allBytes: 0};
    entry.times += call.times;
    entry.weight += call.weight * call.times;
    entry.allFlop += call.flop * call.times;
    entry.allBytes += call.bytes * call.times;
    all.set(key, entry);
  }
  return [...all.values()].sort((a, b) => b.weight - a.weight);
}

function kernelBars(calls, peaks) {
  const entries = gathered(calls), total = entries.reduce((sum, e) => sum + e.weight, 0);
  return barChart(entries.slice(0, 24).map(
      (e) => ({
        label: e.label,
        value: e.weight,
        color: kindOf(e).color,
        text: peaks ? `${seconds(e.weight)}, ${percent(e.weight / total)}` : percent(e.weight / total),
        rows: [
          ["runs a step", `${e.times} times`], ["flop a step", short(e.allFlop)], ["moves a step", bytes(e.allBytes)]
        ]
      })));
}

function specRoofline(calls, peaks) {
  const entries = gathered(calls), total = entries.reduce((sum, e) => sum + e.weight, 0);
  return roofline(
      entries.map((e) => {
        const intensity = e.allFlop / e.allBytes;
        const tflops = e.allFlop / Math.max(e.weight, 1e-300) / 1e12;
        return {
          label: e.label,
          intensity,
          tflops,
          share: e.weight / total,
          color: kindOf(e).color,
          rows: [
            ["at best", `${short(tflops)} TFLOP/s`], ["flop a byte", short(intensity)], ["bound by", boundBy(e, peaks)],
            ["share of the step", percent(e.weight / total)]
          ]
        };
      }),
      peaks);
}

function kindLegend() {
  return kinds.map((k) => ({label: k.name, color: k.color, kind: "block"}));
}
