// A spec before it runs: the step, the memory, what each pass decided.

function decisionList(decisions) {
  const passes = new Map();
  for (const {pass, text} of decisions) passes.set(pass, [...(passes.get(pass) ?? []), text]);
  return [...passes].map(
      ([pass, texts]) => element(
          "details", {open: ""}, element("summary", {}, pass, element("em", {}, `  ${texts.length}`)),
          element("ul", {}, ...texts.map((text) => element("li", {}, text)))));
}

function specPage(page, report) {
  const {memory, peaks} = report;
  document.getElementById("title").textContent = `${report.spec.name} on ${report.spec.target}`;
  document.getElementById("subtitle").textContent = "what hydrac made of the spec, planned and not yet run";
  const calls = stepCalls(report);
  const flop = calls.reduce((sum, c) => sum + c.flop * c.times, 0),
        best = calls.reduce((sum, c) => sum + c.weight * c.times, 0);
  page.append(tiles([
    ["parameters", short(report.parameters)], ["memory, planned to the byte", bytes(memory.arena_bytes)],
    ["memory it may take", memory.limit_bytes ? bytes(memory.limit_bytes) : null], ["flop a step", short(flop)],
    ["a step at best", peaks ? seconds(best) : null],
    ["tokens/s at best", peaks ? short(report.tokens_a_step / best) : null],
    ["calls a step", short(calls.reduce((sum, c) => sum + c.times, 0))]
  ]));
  const cards = element("div", {class: "cards"});
  page.append(cards);
  const add = (title, text, ...nodes) => {
    const one = card(title, text, {wide: true});
    one.body.append(...nodes);
    cards.append(one.node);
  };
  const unit = peaks ?
      "as wide as the time that the hardware's peaks take for it" :
      "as wide as the bytes that it moves or a tenth of its operations, because this target's peaks are not known";
  add("The step, call by call", `sections in order, each call ${unit}`, timeline(calls, report), legend(kindLegend()));
  add("Kernels", peaks ? "the least time of a step in each, at the hardware's peaks" : "share of the step",
      kernelBars(calls, peaks), legend(kindLegend()));
  if (peaks)
    add("Roofline", "the most that each kernel can reach; size: share of the step", specRoofline(calls, peaks),
        legend(kindLegend()));
  add("Memory", `one arena of ${bytes(memory.arena_bytes)}: every tensor's place, and when it is alive`,
      memoryMap(report.tensors, memory.arena_bytes),
      legend(usedRoles(report.tensors).map(([name, color]) => ({label: name.replace("_", " "), color, kind: "block"}))),
      element("br"), roleBars(memory));
  add("What each pass decided", "", ...decisionList(report.decisions));
  add("Spec", "with every default",
      element("details", {}, element("summary", {}, "show"), element("pre", {}, report.spec_text)));
}
