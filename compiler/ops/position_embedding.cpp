// Learned positions: row t of a table is added to every sequence's token t, or the row of its position where
// tokens have one, as those of packed documents. The table's gradient is then an embedding's.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use position_embedding(RegionBuilder& b, Use x, Use table, const std::string& name, Use positions) {
  std::vector<Use> inputs = {x, table};
  if (positions.value != ir::kNoValue) inputs.push_back(positions);
  return b.emit(ir::Op::position_embedding, std::move(inputs), name, b.shape(x));
}

namespace {

bool position_embedding_has_positions(const ir::Node& node) {
  return node.inputs.size() > 2;
}

ir::Body position_embedding_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);  // rows b, t
  const ir::Term row = position_embedding_has_positions(node)
                           ? k.gather(1, k.named("position", k.per_row(2)), {}, {k.column(0)})
                           : k.load(1, {k.row(1), k.column(0)});
  k.store(0, k.full(0) + row);
  return k.take();
}

// One row a sequence; the columns are tokens and width, so the sum over rows is the sum over the batch.
ir::Body position_embedding_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, {shape[0]});
  k.columns({shape[1], shape[2]});
  k.column_sum(0, k.full(0), node.flag("accumulate"));
  return k.take();
}

void position_embedding_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  if (g.wanted(node.inputs[0])) g.contribute(node.inputs[0], dy);
  if (!g.wanted(node.inputs[1])) return;
  const ParameterGradient dw = g.parameter(node.inputs[1]);
  const ir::Attributes attributes = {{"accumulate", dw.accumulate}};
  if (position_embedding_has_positions(node)) {
    g.emit_node(ir::Op::embedding_backward, {node.inputs[2], dy}, {dw.target}, attributes);
  } else {
    g.emit_node(ir::Op::position_embedding_gradient, {dy}, {dw.target}, attributes);
  }
}

void position_embedding_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                                  std::vector<Tensor64>& out) {
  const auto tokens = static_cast<size_t>(in[0].shape[1]), width = static_cast<size_t>(in[0].shape[2]);
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const size_t token = i / width;
    const size_t position =
        position_embedding_has_positions(node) ? static_cast<size_t>(in[2].data[token]) : token % tokens;
    out[0].data[i] = in[0].data[i] + in[1].data[position * width + i % width];
  }
}

}  // namespace

extern const OpInfo kPositionEmbedding{.op = ir::Op::position_embedding,
                                       .formula = "embedded = x + position_table[t]",
                                       .inputs = {"x", "position_table", "positions"},
                                       .outputs = {"embedded"},
                                       .body = position_embedding_body,
                                       .gradient = position_embedding_gradient,
                                       .reference = position_embedding_reference};
extern const OpInfo kPositionEmbeddingGradient{.op = ir::Op::position_embedding_gradient,
                                               .formula = "d_position_table[t] = sum over b of d_embedded",
                                               .inputs = {"d_embedded"},
                                               .outputs = {"d_position_table"},
                                               .body = position_embedding_gradient_body};

}  // namespace hydrac::ops
