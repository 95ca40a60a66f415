// One run, or several beside each other: metrics.jsonl over steps.

const runCharts = [
  {title: "Learning rate", unit: "learning rate", keys: ["learning_rate"]},
  {title: "Sequence length", unit: "tokens", keys: ["sequence_len"], text: "of training, which grows", zero: true},
  {title: "Curriculum", unit: "share of the data", keys: ["curriculum_share"], text: "that sequences are drawn from", zero: true},
  {title: "Throughput", unit: "tokens/s", keys: ["tokens_per_second"], zero: true},
  {
    title: "Time of a step",
    unit: "ms",
    keys: ["step_ms", "step_ms_p50", "step_ms_p95", "step_ms_max"],
    names: ["mean", "median", "95th percentile", "longest"],
    zero: true,
    text: "mean since the last record; median, 95th percentile and longest of a window"
  },
  {title: "Auxiliary loss", unit: "nats", keys: ["aux_loss"], text: "of all blocks' routers, not part of the loss"},
  {title: "Accuracy of routers' predictors", unit: "", keys: ["predictor_accuracy"], text: "of all tokens and routed layers"},
  {title: "Mean depth", unit: "passes", keys: ["mean_depth"], text: "passes of a token after its first"},
  {title: "Gradient norm", unit: "norm", keys: ["grad_norm"], text: "before clipping", log: true},
  {title: "Diversity", unit: "mean cosine distance", keys: ["diversity"], text: "of two replies to a prompt", zero: true},
  {title: "Preferences", unit: "reward", keys: ["rewards/chosen", "rewards/rejected", "rewards/margins"], text: "of pairs, means"},
  {title: "Ranked pairs", unit: "share", keys: ["rewards/accuracies"], text: "of pairs, with the chosen text first", zero: true},
  {title: "Reward", unit: "reward", keys: ["reward"], text: "of a reply, the mean"},
  {title: "Divergence", unit: "nats a token", keys: ["kl"], text: "from the model without its adapter", zero: true},
  {title: "Accuracy", unit: "share of the validation data", keys: ["eval_accuracy"]},
  {title: "Power", unit: "W", keys: ["power_watts"], zero: true},
  {title: "Energy", unit: "J a token", keys: ["joules_per_token"], zero: true},
  {
    title: "GPU utilization",
    unit: "%",
    keys: ["gpu_util"],
    scale: 100,
    zero: true,
    text: "share of time in which a kernel ran"
  },
  {title: "Temperature", unit: "°C", keys: ["temperature_celsius"]},
  {title: "Clock", unit: "MHz", keys: ["sm_clock_mhz"], zero: true, text: "of the multiprocessors"},
  {title: "Memory", unit: "GiB", keys: ["memory_gib"], zero: true},
  {title: "Model flop utilization", unit: "% of the peak", keys: ["mfu"], scale: 100, zero: true},
  {title: "Loss scale", unit: "scale", keys: ["loss_scale"], log: true},
];

// Numbers that the loss card or a tile shows, or that say little as a curve.
const undrawn = [
  "step", "loss", "eval_loss", "eval_perplexity", "samples_per_second", "data_wait_ms", "communication_ms", "skipped_steps",
  "sampling_ms", "reply_tokens", "sampling_gap"
];

const dashes = ["", "dashed", "dashed", "faint"];

function pointsOf(run, key, scale = 1) {
  return run.records.filter((r) => key in r).map((r) => [r.step, r[key] === null ? NaN : r[key] * scale]);
}

// A running mean over a twentieth of the steps so far: it shows where a noisy loss goes. It depends on nothing that comes
// later, so equal losses are one line however long their runs are.
function smoothed(points) {
  let sum = 0, weight = 0, last = 0;
  return points.map(([x, y]) => {
    const kept = Math.exp(-20 * (x - last) / Math.max(x, 1));
    last = x;
    sum *= kept;
    weight *= kept;
    if (Number.isFinite(y)) {
      sum += y;
      weight += 1;
    }
    return [x, weight > 0 ? sum / weight : NaN];
  });
}

// `what` may be empty where a chart has one line a run.
function labelOf(runs, run, what) {
  return runs.length > 1 ? (what ? `${run.name}: ${what}` : run.name) : what;
}

function lossCard(runs) {
  const series = [], losses = runs.map((run) => pointsOf(run, "loss"));
  const noisy = losses.some((points) => points.length > 60);
  runs.forEach((run, i) => {
    const train = losses[i], color = colors[runs.length > 1 ? i : 0];
    if (noisy) series.push({label: "", color, points: train, kind: "faint"});
    series.push({label: labelOf(runs, run, "training"), color, points: noisy ? smoothed(train) : train});
    const held = pointsOf(run, "eval_loss");
    if (held.length) {
      series.push({
        label: labelOf(runs, run, "validation"),
        color: runs.length > 1 ? color : colors[1],
        points: held,
        kind: runs.length > 1 ? "dashed" : "",
        marks: true
      });
    }
  });
  return chartCard(
      "Loss", "nats a token, or the error that the spec names; thin: each record, thick: running mean", series,
      {yLabel: "loss", toggle: true});
}

function chartCard(title, text, series, options) {
  const button = element("button", {type: "button", "aria-pressed": String(Boolean(options.log))}, "log");
  const {node, body} = card(title, text, {controls: options.toggle ? [button] : []});
  const draw = () => body.replaceChildren(
      lineChart(series, options),
      ...(series.filter((s) => s.label).length > 1 ? [legend(series.filter((s) => s.label))] : []));
  button.addEventListener("click", () => {
    options.log = !options.log;
    button.setAttribute("aria-pressed", String(options.log));
    draw();
  });
  draw();
  return node;
}

function metricCard(runs, {title, unit, keys, names, scale, text = "", zero, log}) {
  const series = [];
  const present = keys.filter((key) => runs.some((run) => pointsOf(run, key).length));
  runs.forEach((run, i) => present.forEach((key, k) => {
    const points = pointsOf(run, key, scale);
    if (!points.length) return;
    const what = present.length > 1 ? names[keys.indexOf(key)] : runs.length > 1 ? "" : unit;
    const color = runs.length > 1 ? colors[i] : colors[k];
    series.push({label: labelOf(runs, run, what), color, points, kind: runs.length > 1 ? dashes[k] : ""});
  }));
  if (!series.length) return null;
  return chartCard(title, text, series, {yLabel: unit, zero, log, toggle: Boolean(log)});
}

// A metric that a program reports under a name of its own needs no row above.
function otherCharts(runs) {
  const drawn = new Set([...undrawn, ...runCharts.flatMap((chart) => chart.keys)]);
  const keys = new Set(runs.flatMap((run) => run.records.flatMap(Object.keys)));
  return [...keys].filter((key) => !drawn.has(key)).map((key) => ({title: key.replaceAll("_", " "), unit: "", keys: [key]}));
}

// For runs whose learning rate a range test found.
function rangeTestCard(runs) {
  const tested = runs.filter((run) => run.range_test && run.range_test.points.length);
  if (!tested.length) return null;
  const series = tested.flatMap((run) => {
    const color = colors[runs.length > 1 ? runs.indexOf(run) : 0];
    const points = (key) => run.range_test.points.map((p) => [p.learning_rate, p[key]]);
    return [
      {label: "", color, points: points("loss"), kind: "faint"},
      {label: labelOf(runs, run, "loss"), color, points: points("smoothed")}
    ];
  });
  const chosen = tested.filter((run) => run.range_test.learning_rate)
                     .map((run) => labelOf(runs, run, String(run.range_test.learning_rate)));
  return chartCard(
      "Range test",
      `one step with each learning rate, before training; thick: running mean; chosen: ${chosen.join(", ") || "none"}`,
      series, {yLabel: "loss", xLabel: "learning rate", logX: true, toggle: true});
}

function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
}

// [label, text] of each figure of a run.
function figures(run) {
  const last = run.records.at(-1) ?? {};
  const held = pointsOf(run, "eval_loss").filter((p) => Number.isFinite(p[1]));
  const best = held.reduce((a, b) => (a === null || b[1] < a[1] ? b : a), null);
  const train = pointsOf(run, "loss");
  const speed = median(pointsOf(run, "tokens_per_second").map((p) => p[1]));
  const memory = Math.max(...pointsOf(run, "memory_gib").map((p) => p[1]));
  const watts = median(pointsOf(run, "power_watts").map((p) => p[1]));
  const joules = median(pointsOf(run, "joules_per_token").map((p) => p[1]));
  const entries =
      [["steps", String(last.step)], ["last training loss", train.length ? train.at(-1)[1].toFixed(4) : null]];
  if (best) entries.push([`least validation loss, step ${best[0]}`, best[1].toFixed(4)]);
  if (best && run.perplexity) entries.push(["its perplexity", short(Math.exp(best[1]))]);
  if (Number.isFinite(speed)) entries.push(["tokens/s, median", short(speed)]);
  if (Number.isFinite(memory)) entries.push(["memory", bytes(memory * 2 ** 30)]);
  if (Number.isFinite(watts)) entries.push(["power, median", `${short(watts)} W`]);
  if (Number.isFinite(joules)) entries.push(["energy a token", `${short(joules)} J`]);
  return entries;
}

function figuresTable(runs) {
  const labels = [], rows = new Map();
  runs.forEach((run, i) => {
    for (const [label, value] of figures(run)) {
      const key = label.replace(/, step \d+$/, "");
      if (!rows.has(key)) {
        rows.set(key, []);
        labels.push(key);
      }
      rows.get(key)[i] = label === key ? value : `${value} (step ${label.match(/\d+$/)[0]})`;
    }
  });
  return keyTable(
      ["", ...runs.map((run) => run.name)],
      labels.map((label) => [label, ...runs.map((_, i) => rows.get(label)[i] ?? "–")]));
}

function keyTable(head, rows, code = false) {
  const cell = (tag, text, i) => element(tag, {class: `${i > 0 ? "number" : ""} ${code ? "code" : ""}`}, text);
  return element(
      "div", {class: "scroll"},
      element(
          "table", {}, element("thead", {}, element("tr", {}, ...head.map((t, i) => cell("th", t, i)))),
          element(
              "tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((t, i) => cell("td", t ?? "–", i)))))));
}

function specDifferences(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.keys)))].sort();
  return keys.filter((key) => runs.some((run) => run.keys[key] !== runs[0].keys[key]))
      .map((key) => [key, ...runs.map((run) => run.keys[key])]);
}

function runPage(page, {runs}) {
  document.getElementById("title").textContent = runs.map((run) => run.name).join(" and ");
  document.getElementById("subtitle").textContent = runs.map((run) => run.path).join(" · ");
  if (runs.length === 1) {
    page.append(tiles(figures(runs[0])));
  }
  const cards = element("div", {class: "cards"});
  page.append(cards);
  if (runs.length > 1) {
    const beside = card("Beside each other", "", {wide: true});
    beside.body.append(figuresTable(runs), legend(runs.map((run, i) => ({label: run.name, color: colors[i]}))));
    cards.append(beside.node);
  }
  cards.append(lossCard(runs));
  for (const node of [rangeTestCard(runs), ...[...runCharts, ...otherCharts(runs)].map((chart) => metricCard(runs, chart))])
    if (node) cards.append(node);
  if (runs.length > 1) {
    const rows = specDifferences(runs);
    const differing = card("What the specs differ in", rows.length ? "" : "nothing", {wide: true});
    if (rows.length) differing.body.append(keyTable(["key", ...runs.map((run) => run.name)], rows, true));
    cards.append(differing.node);
  }
  for (const run of runs) {
    const text = card(runs.length > 1 ? `Spec of ${run.name}` : "Spec", "as it was resolved for the run", {wide: true});
    text.body.append(element("details", {}, element("summary", {}, "show"), element("pre", {}, run.spec)));
    cards.append(text.node);
  }
}
