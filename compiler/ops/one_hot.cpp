// Ids as rows of zeros and a one: y[.., c] = 1 where the id is c. A negative id has zeros only. Multiplied by
// a batch's tokens, it sums these by segments.
#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use one_hot(RegionBuilder& b, Use ids, ir::Dim classes, const std::string& name) {
  ir::Shape shape = b.shape(ids);
  shape.push_back(std::move(classes));
  return b.emit(ir::Op::one_hot, {ids}, name, std::move(shape));
}

namespace {

ir::Body one_hot_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  k.columns(last(graph.value(node.outputs[0]).shape));
  const ir::Term id = k.named("id", convert(k.per_row(0), ir::ExprType::i64));
  k.store(0, select(id == k.position(k.column(0)), k.constant(1), k.constant(0)));
  return k.take();
}

void one_hot_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t classes = out[0].shape.back();
  for (int64_t i = 0; i < static_cast<int64_t>(out[0].data.size()); ++i)
    out[0].data[i] = static_cast<int64_t>(in[0].data[i / classes]) == i % classes ? 1 : 0;
}

}  // namespace

extern const OpInfo kOneHot{.op = ir::Op::one_hot,
                            .formula = "y[c] = 1 where id = c, else 0",
                            .inputs = {"ids"},
                            .outputs = {"y"},
                            .body = one_hot_body,
                            .reference = one_hot_reference};

}  // namespace hydrac::ops
