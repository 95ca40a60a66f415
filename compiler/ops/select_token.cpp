// The hidden state of one token of a single sequence, for generation.
#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use select_token(RegionBuilder& b, Use x, Use position, const std::string& name) {
  return b.emit("select_token", {x, position}, name, {{1, "1"}, b.shape(x)[2]});
}

namespace {

ir::Body select_token_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;  // [1,T,C]
  ir::BodyBuilder k(graph, node, {{1, "1"}});
  k.columns(last(shape));
  k.store(0, k.gather(0, k.scalar(1), {{}}, {k.column(0)}));
  return k.take();
}

void select_token_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape[2];
  const auto position = static_cast<int64_t>(in[1].data[0]);
  for (int64_t i = 0; i < c; ++i) out[0].data[i] = in[0].data[position * c + i];
}

}  // namespace

extern const OpInfo kSelectToken{.name = "select_token",
                                 .formula = "y = x[0, position]",
                                 .inputs = {"x", "position"},
                                 .outputs = {"y"},
                                 .body = select_token_body,
                                 .reference = select_token_reference};

}  // namespace hydrac::ops
