// Rotary position embedding (Su et al., 2021): the angle t * theta^(-2i/R) turns pair i of each head's
// first R elements, i and i + R/2 as in Llama, or 2i and 2i + 1; the elements behind them stay as they are.
// Angles come as tables cos, sin [T, R/2]. A fourth input gives each token's position where that is not t.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use rope(RegionBuilder& b, Use x, Use cos, Use sin, const RopeForm& form, const std::string& name,
         Use positions) {
  ir::Attributes attributes = form.angles;
  attributes["inverse"] = false;
  if (form.pairs == RopePairs::neighbours) attributes["interleaved"] = true;
  if (form.period > 0) attributes["period"] = form.period;
  std::vector<Use> inputs = {x, cos, sin};
  if (positions.value != ir::kNoValue) inputs.push_back(positions);
  return b.emit(ir::Op::rope, std::move(inputs), name, b.shape(x), std::move(attributes));
}

namespace {

bool rope_has_positions(const ir::Node& node) {
  return node.inputs.size() > 3;
}

// Element `i` of pair p is p * step + i * distance.
struct PairLayout {
  int64_t step, distance;
};

PairLayout pairs_of(const ir::Node& node, int64_t half) {
  return node.optional_flag("interleaved") ? PairLayout{2, 1} : PairLayout{1, half};
}

ir::Body rope_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape &shape = graph.value(node.inputs[0]).shape,  // [B,T,H,D]
      &table = graph.value(node.inputs[1]).shape;
  const int64_t half = table[1].size, rest = shape[3].size - 2 * half;
  const PairLayout pairs = pairs_of(node, half);
  ir::BodyBuilder k(graph, node, leading(shape));
  k.columns({{half, rest > 0 || shape[3].symbol.empty() ? "" : shape[3].symbol + "/2"}});
  auto at = [&](int64_t i) {
    return std::vector<ir::Affine>{k.row(0), k.row(1), k.row(2),
                                   k.column(0) * pairs.step + ir::Affine{i * pairs.distance, {}}};
  };
  const ir::Term x1 = k.named("x1", k.load(0, at(0))), x2 = k.named("x2", k.load(0, at(1)));
  const auto integer = [&](int64_t number) {
    return k.constant(static_cast<double>(number), ir::ExprType::i32);
  };
  const auto position = [&] {
    const ir::Term token = rope_has_positions(node) ? k.load(3, {k.row(0), k.row(1)})
                                                    : convert(k.position(k.row(1)), ir::ExprType::i32);
    if (!node.attributes.contains("period")) return k.named("position", token);
    const ir::Term is_nth = (k.layer() + integer(1)) % integer(node.integer("period")) == integer(0);
    return k.named("position", token + select(is_nth, integer(table[0].size / 2), integer(0)));
  };
  const bool gathers = rope_has_positions(node) || node.attributes.contains("period");
  const auto angle = [&](int input) {
    if (!gathers) return k.load(input, {k.row(1), k.column(0)});
    return k.gather(input, position(), {}, {k.column(0)});
  };
  const ir::Term cos = k.named("cos_t", angle(1));
  ir::Term sin = k.named("sin_t", angle(2));
  if (node.flag("inverse")) sin = -sin;
  k.store_at(0, at(0), x1 * cos - x2 * sin);
  k.store_at(0, at(1), x2 * cos + x1 * sin);
  if (rest > 0) {
    k.columns({{rest, ""}});
    const std::vector<ir::Affine> behind = {k.row(0), k.row(1), k.row(2),
                                            k.column(0) + ir::Affine{2 * half, {}}};
    k.store_at(0, behind, k.load(0, behind));
  }
  return k.take();
}

// A rotation's gradient is the rotation back.
void rope_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  ir::Attributes attributes = node.attributes;
  attributes["inverse"] = true;
  attributes["input_name"] = "d_y";
  attributes["output_name"] = "d_x";
  std::vector<Use> inputs = node.inputs;
  inputs[0] = dy;
  g.contribute_op(node.inputs[0], ir::Op::rope, std::move(inputs), std::move(attributes));
}

std::string rope_kernel(const ir::Node& node) {
  return node.flag("inverse") ? "rope_backward" : "rope";
}

// As layer 0 computes it.
void rope_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t heads = in[0].shape[2], d = in[0].shape[3], half = in[1].shape[1], tokens = in[0].shape[1];
  const double sign = node.flag("inverse") ? -1 : 1;
  const PairLayout pairs = pairs_of(node, half);
  const bool is_second = node.attributes.contains("period") && node.integer("period") == 1;
  out[0].data = in[0].data;
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    int64_t t = rope_has_positions(node) ? static_cast<int64_t>(in[3].data[r / heads]) : r / heads % tokens;
    if (is_second) t += in[1].shape[0] / 2;
    for (int64_t i = 0; i < half; ++i) {
      const double c = in[1].data[t * half + i], s = sign * in[2].data[t * half + i];
      const int64_t first = r * d + i * pairs.step, second = first + pairs.distance;
      const double x1 = in[0].data[first], x2 = in[0].data[second];
      out[0].data[first] = x1 * c - x2 * s;
      out[0].data[second] = x2 * c + x1 * s;
    }
  }
}

}  // namespace

extern const OpInfo kRope{.op = ir::Op::rope,
                          .formula = "(y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin), of each head's pairs",
                          .inputs = {"x", "cos_table", "sin_table", "positions"},
                          .outputs = {"y"},
                          .kernel = rope_kernel,
                          .body = rope_body,
                          .gradient = rope_gradient,
                          .reference = rope_reference};

}  // namespace hydrac::ops
