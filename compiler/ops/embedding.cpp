// Token embedding: a gather of table rows. Its gradient is a scatter, done by the target deterministically.
// Ids are valid: the data pipeline checks them.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use embedding(RegionBuilder& b, Use ids, Use table, const std::string& name) {
  ir::Shape shape = b.shape(ids);
  shape.push_back(b.shape(table)[1]);
  return b.emit(ir::Op::embedding, {ids, table}, name, shape);
}

namespace {

ir::Body embedding_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  k.columns(last(graph.value(node.inputs[1]).shape));
  k.store(0, k.gather(1, k.named("id", k.per_row(0)), {}, {k.column(0)}));
  return k.take();
}

void embedding_gradient(Gradient& g, const ir::Node& node) {
  if (!g.wanted(node.inputs[1])) return;
  const Use dy = *g.of(node.outputs[0]);
  const ParameterGradient dw = g.parameter(node.inputs[1]);
  g.emit_node(ir::Op::embedding_backward, {node.inputs[0], dy}, {dw.target}, {{"accumulate", dw.accumulate}});
}

Cost embedding_backward_cost(const ir::Graph& graph, const ir::Node& node) {
  const double elements = static_cast<double>(element_count(graph.value(node.inputs[1]).shape));
  return {elements, 3 * 4 * elements};
}

void embedding_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t c = in[1].shape[1];
  for (size_t r = 0; r < in[0].data.size(); ++r) {
    const auto id = static_cast<int64_t>(in[0].data[r]);
    for (int64_t i = 0; i < c; ++i) out[0].data[static_cast<int64_t>(r) * c + i] = in[1].data[id * c + i];
  }
}

}  // namespace

extern const OpInfo kEmbedding{.op = ir::Op::embedding,
                               .formula = "embedding = token_table[ids]",
                               .inputs = {"ids", "token_table"},
                               .outputs = {"embedding"},
                               .body = embedding_body,
                               .gradient = embedding_gradient,
                               .reference = embedding_reference};
extern const OpInfo kEmbeddingBackward{.op = ir::Op::embedding_backward,
                                       .formula = "d_table[id] += d_y, in the order of the tokens",
                                       .cost = embedding_backward_cost};

}  // namespace hydrac::ops
