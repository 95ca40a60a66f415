// The arena as a picture: where every tensor lies (upwards) and when it is alive (to the right, the calls of a step).

const roles = [
  ["parameter", colors[0]],
  ["frozen", "var(--soft)"],
  ["working_copy", colors[7]],
  ["gradient", colors[1]],
  ["optimizer_state", colors[3]],
  ["activation", colors[2]],
  ["input", colors[6]],
  ["constant", colors[5]],
  ["state", colors[4]],
];

function roleColor(role) {
  return (roles.find(([name]) => name === role) ?? ["", colors[5]])[1];
}

function memoryMap(tensors, arena) {
  const end = Math.max(1, ...tensors.flatMap((t) => (t.alive ?? []).map(([, last]) => last)));
  const width = 1160, height = 460, box = {left: 84, top: 26, right: width - 14, bottom: height - 40};
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "memory map"});
  const x = linearScale(0, end, box.left, box.right, 8, {grow: false});
  const unit = [1024 ** 3, 1024 ** 2, 1024, 1].find((u) => arena >= u);
  const y = linearScale(0, arena / unit, box.bottom, box.top, 6, {grow: false});
  drawAxes(svg, box, x, y, {
    xLabel: "calls in order: the step, then validation and sampling",
    yLabel: `address, ${{[1024 ** 3]: "GiB", [1024 ** 2]: "MiB", 1024: "KiB", 1: "bytes"}[unit]}`
  });
  for (const tensor of tensors) {
    const top = y((tensor.offset + tensor.bytes) / unit), tall = Math.max(0.5, y(tensor.offset / unit) - top);
    for (const [first, last] of tensor.alive ?? [[0, end]]) {
      const from = x(first), wide = Math.max(0.5, x(last) - from);
      const mark = shape("rect", {
        class: tall > 3 && wide > 3 ? "mark tensor" : "tensor",
        x: from.toFixed(2),
        y: top.toFixed(2),
        width: wide.toFixed(2),
        height: tall.toFixed(2),
        style: `fill:${roleColor(tensor.role)};fill-opacity:0.85;${tall > 3 && wide > 3 ? "stroke-width:0.5" : ""}`
      });
      svg.append(tipped(mark, tensor.name, tensorRows(tensor, first, last)));
      if (tall > 15 && wide > tensor.name.length * 6.4 + 12)
        svg.append(shape(
            "text", {class: "inside", x: from + 6, y: top + Math.min(tall / 2 + 4, 16), "pointer-events": "none"},
            tensor.name));
    }
  }
  return svg;
}

function tensorRows(tensor, first, last) {
  const slots = tensor.slots > 1 ? ` × ${tensor.slots}` : "";
  return [
    ["role", tensor.role.replace("_", " ")], ["shape", `${tensor.dtype} [${tensor.shape.join(", ")}]${slots}`],
    ["size", bytes(tensor.bytes)], ["address", `${tensor.offset}`],
    ["alive", tensor.alive ? `calls ${first} to ${last - 1}` : "always"]
  ];
}

function usedRoles(tensors) {
  return roles.filter(([name]) => tensors.some((t) => t.role === name));
}

function roleBars(memory) {
  const rows = Object.entries(memory.bytes).sort((a, b) => b[1] - a[1]).filter(([, size]) => size > 0);
  return barChart(
      rows.map(([role, size]) => ({
                 label: role.replace("_", " "),
                 value: size,
                 color: roleColor(role),
                 text: `${bytes(size)}, ${percent(size / memory.arena_bytes)}`,
                 rows: [["bytes", size.toLocaleString("en")]]
               })),
      {labelWidth: 140, width: 1160});
}
