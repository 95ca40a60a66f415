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

Term reaches(ir::BodyBuilder& k, const ir::Node& node, Term depth) {
  const auto pass = static_cast<double>(node.integer("pass"));
  return k.named("reaches", !(depth < k.constant(pass, ir::ExprType::f32, "kPass")));
}

ir::Body masked_add_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) + select(reaches(k, node, k.per_row(2)), k.full(1), k.constant(0)));
  return k.take();
}

ir::Body masked_add_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, select(reaches(k, node, k.per_row(1)), k.full(0), k.constant(0)));
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
                               .formula = "sum = residual + (depth >= pass ? x : 0)",
                               .inputs = {"residual", "x", "depth"},
                               .outputs = {"sum"},
                               .body = masked_add_body,
                               .gradient = masked_add_gradient,
                               .reference = masked_add_reference};
extern const OpInfo kMaskedAddBackward{.op = ir::Op::masked_add_backward,
                                       .formula = "d_x = depth >= pass ? d_sum : 0",
                                       .inputs = {"d_sum", "depth"},
                                       .outputs = {"d_x"},
                                       .body = masked_add_backward_body};

}  // namespace hydrac::ops
