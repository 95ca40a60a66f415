// sum = x + y where a row's depth has reached the pass, else x: y is what the pass makes of all rows.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use masked_add(RegionBuilder& b, Use x, Use y, Use depth, int64_t pass, const std::string& name) {
  return b.emit(ir::Op::masked_add, {x, y, depth}, name, b.shape(x), {{"pass", pass}});
}

namespace {

using ir::Term;

// 1 or 0, of a row. A factor and no choice between two columns: loops over columns are then vectorized as
// those without it are, and add up in the same order.
Term kept(ir::BodyBuilder& k, const ir::Node& node, Term depth) {
  const auto pass = static_cast<double>(node.integer("pass"));
  const Term is_done = depth < k.constant(pass, ir::ExprType::f32, "kPass");
  return k.named("kept", select(is_done, k.constant(0), k.constant(1)));
}

ir::Body masked_add_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) + kept(k, node, k.per_row(2)) * k.full(1));
  return k.take();
}

ir::Body masked_add_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, kept(k, node, k.per_row(1)) * k.full(0));
  return k.take();
}

void masked_add_gradient(Gradient& g, const ir::Node& node) {
  const Use d_sum = *g.of(node.outputs[0]);
  if (g.wanted(node.inputs[0])) g.contribute(node.inputs[0], d_sum);
  g.contribute_op(node.inputs[1], ir::Op::masked_add_backward, {d_sum, node.inputs[2]}, node.attributes);
}

void masked_add_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t columns = static_cast<size_t>(in[0].shape.back());
  const auto pass = static_cast<double>(node.integer("pass"));
  for (size_t i = 0; i < out[0].data.size(); ++i)
    out[0].data[i] = in[0].data[i] + (in[2].data[i / columns] >= pass ? in[1].data[i] : 0);
}

}  // namespace

extern const OpInfo kMaskedAdd{.op = ir::Op::masked_add,
                               .formula = "sum = residual + kept x, kept = depth >= pass",
                               .inputs = {"residual", "x", "depth"},
                               .outputs = {"sum"},
                               .body = masked_add_body,
                               .gradient = masked_add_gradient,
                               .reference = masked_add_reference};
extern const OpInfo kMaskedAddBackward{.op = ir::Op::masked_add_backward,
                                       .formula = "d_x = kept d_sum, kept = depth >= pass",
                                       .inputs = {"d_sum", "depth"},
                                       .outputs = {"d_x"},
                                       .body = masked_add_backward_body};

}  // namespace hydrac::ops
