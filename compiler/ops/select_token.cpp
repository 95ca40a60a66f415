// The hidden state of one token of each sequence, for generation.
#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use select_token(RegionBuilder& b, Use x, Use positions, const std::string& name) {
  const ir::Shape& shape = b.shape(x);
  return b.emit(ir::Op::select_token, {x, positions}, name, {shape[0], shape[2]});
}

namespace {

// A row a sequence. The position of a single one may be a scalar.
ir::Body select_token_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;  // [B,T,C]
  const bool is_scalar = graph.value(node.inputs[1]).shape.empty();
  ir::BodyBuilder k(graph, node, {shape[0]});
  k.columns(last(shape));
  if (is_scalar) {
    k.store(0, k.gather(0, k.scalar(1), {{}}, {k.column(0)}));
  } else {
    k.store(0, k.gather(0, k.named("token", k.per_row(1)), {k.row(0)}, {k.column(0)}));
  }
  return k.take();
}

void select_token_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t tokens = in[0].shape[1], c = in[0].shape[2];
  for (int64_t i = 0; i < static_cast<int64_t>(out[0].data.size()); ++i) {
    const int64_t sequence = i / c, position = static_cast<int64_t>(in[1].data[sequence]);
    out[0].data[i] = in[0].data[(sequence * tokens + position) * c + i % c];
  }
}

}  // namespace

extern const OpInfo kSelectToken{.op = ir::Op::select_token,
                                 .formula = "y[b] = x[b, position]",
                                 .inputs = {"x", "position"},
                                 .outputs = {"y"},
                                 .body = select_token_body,
                                 .reference = select_token_reference};

}  // namespace hydrac::ops
