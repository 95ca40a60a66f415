// `hydrac bench --json`: kernels as they were measured, each alone.
function benchPage(page, report) {
  document.getElementById("title").textContent = `${report.spec}: a step on ${report.target}`;
  document.getElementById("subtitle").textContent = `hydrac bench, ${report.steps} steps timed`;
  page.append(tiles([
    ["a step, median", `${short(report.step_ms)} ms`], ["tokens/s", short(report.tokens_per_second)],
    ["model flop utilization", report.mfu ? percent(report.mfu) : null],
    ["energy a step", report.joules_a_step ? `${short(report.joules_a_step)} J` : null],
    ["power", report.watts ? `${short(report.watts)} W` : null], ["memory planned", bytes(report.planned_bytes)],
    ["first step after", seconds(report.first_step_s)]
  ]));
  const cards = element("div", {class: "cards"});
  page.append(cards);
  const kernels = report.kernels.map(
      (k) => ({...k, kernel: k.name, output: k.label, matmul: /gemm|matmul|attention/.test(k.name)}));
  const bars =
      card("Kernels, each timed alone", "the line in a bar: what the hardware's peaks would take", {wide: true});
  bars.body.append(
      barChart(kernels.slice(0, 40).map((k) => ({
                                          label: `${k.name} ${k.label}`.trim(),
                                          value: k.ms,
                                          floor: k.floor_ms,
                                          color: kindOf(k).color,
                                          text: `${seconds(k.ms / 1e3)}, ${percent(k.share)}`,
                                          rows: [
                                            ["calls a step", String(k.calls)], ["measured", seconds(k.ms / 1e3)],
                                            ["at best", k.floor_ms > 0 ? seconds(k.floor_ms / 1e3) : "not known"],
                                            ["TFLOP/s", short(k.tflops)], ["GB/s", short(k.gbs)]
                                          ]
                                        }))),
      legend(kindLegend()));
  cards.append(bars.node);
  if (report.peak_gflops && report.peak_gbs) {
    const peaks = {flops: report.peak_gflops * 1e9, bytes_per_second: report.peak_gbs * 1e9};
    const roof = card(
        "Roofline", "each kernel as measured under what the hardware can do; size: share of the step", {wide: true});
    roof.body.append(
        roofline(
            kernels.map((k) => ({
                          label: `${k.name} ${k.label}`.trim(),
                          intensity: (k.tflops * 1e3) / k.gbs,
                          tflops: k.tflops,
                          share: k.share,
                          color: kindOf(k).color,
                          rows: [
                            ["measured", `${short(k.tflops)} TFLOP/s, ${short(k.gbs)} GB/s`],
                            ["share of the step", percent(k.share)]
                          ]
                        })),
            peaks),
        legend(kindLegend()));
    cards.append(roof.node);
  }
}
