// Dropout with counter-based random bits: whether an element is kept is a function of the seed, the random
// step, the place in the model (site, layer) and the element's number. Nothing is stored for the backward
// pass, and every target drops the same elements.
#include "ops/dropout.h"

#include <cmath>

#include "hydrac/random.h"
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use dropout(RegionBuilder& b, Use x, double p, const Randomness& random, int64_t site,
            const std::string& name) {
  std::vector<Use> inputs = {x, random.step, random.seed};
  if (random.first_row.value != ir::kNoValue) inputs.push_back(random.first_row);
  return b.emit(ir::Op::dropout, std::move(inputs), name, b.shape(x), {{"p", p}, {"site", site}});
}

uint32_t dropout_threshold(double p) {
  return static_cast<uint32_t>(std::ldexp(p, 16));
}

ir::Number drop_below(const ir::Number& p) {
  return truncated(p * 65536);
}

ir::Number keep_scale(const ir::Number& p) {
  return 1 / (1 - p);
}

ir::Number attention_dropout(const ir::Node& attention) {
  const double p = attention.number("dropout");
  return p == 0 ? ir::Number(0) : ir::spec_number("attention_dropout", p, "model.attention_dropout");
}

namespace {

ir::Number probability(const ir::Node& node) {
  const bool of_adapter = node.origin.starts_with("adapter.");
  return ir::spec_number(of_adapter ? "adapter_dropout" : "dropout", node.number("p"),
                         of_adapter ? "adapter.dropout" : "model.dropout");
}

ir::Body dropout_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Number p = probability(node);
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;
  std::vector<ir::Affine> index;
  for (size_t i = 0; i + 1 < shape.size(); ++i) index.push_back(k.row(static_cast<int>(i)));
  index.push_back(k.column(0));
  const ir::Term site =
      k.constant(static_cast<double>(node.integer("site") * kSiteStride), ir::ExprType::i32, "kSite") +
      k.layer();
  const ir::Term key = random_key(k.scalar(2), k.scalar(1), site);
  ir::Term element = k.flat_position(shape, index);
  if (node.inputs.size() > 3) {
    const auto columns = static_cast<double>(shape.back().size);
    element = element + k.named("elements_before", convert(k.scalar(3), ir::ExprType::i64) *
                                                       k.constant(columns, ir::ExprType::i64));
  }
  const ir::Term bits = random_16_bits(key, element);
  const ir::Term dropped = bits < k.constant(drop_below(p), ir::ExprType::u32, "kDropBelow");
  const ir::Term scale = k.constant(keep_scale(p), ir::ExprType::f32, "kKeepScale");
  k.store(0, select(dropped, k.constant(0), k.full(0) * scale));
  return k.take();
}

void dropout_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  ir::Attributes attributes = node.attributes;
  attributes["input_name"] = "d_y";
  attributes["output_name"] = "d_x";
  std::vector<Use> inputs = node.inputs;
  inputs[0] = dy;
  g.contribute_op(node.inputs[0], ir::Op::dropout, std::move(inputs), std::move(attributes));
}

void dropout_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const double p = node.number("p");
  const auto step = static_cast<uint32_t>(in[1].data[0]), seed = static_cast<uint32_t>(in[2].data[0]);
  const uint32_t key = random_key(seed, step, static_cast<uint32_t>(node.integer("site") * kSiteStride));
  const uint64_t first =
      in.size() > 3 ? static_cast<uint64_t>(in[3].data[0]) * static_cast<uint64_t>(in[0].shape.back()) : 0;
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = random_16_bits(key, first + i) < dropout_threshold(p) ? 0 : in[0].data[i] / (1 - p);
  }
}

}  // namespace

extern const OpInfo kDropout{.op = ir::Op::dropout,
                             .formula = "y = keep(seed, step, site, i) ? x / (1 - p) : 0",
                             .inputs = {"x", "rng_step", "rng_seed", "first_row"},
                             .outputs = {"y"},
                             .body = dropout_body,
                             .gradient = dropout_gradient,
                             .reference = dropout_reference};

}  // namespace hydrac::ops
