// The matrix of a grouped linear map: group g of the outputs reads group g of the inputs alone. As a whole
// matrix with zeros it is an operand of ordinary matmuls; groups of heads are too narrow for ones of their
// own. The parameter has the blocks only: [parts * groups * d, d] with `parts` such maps one below the other.
#include <algorithm>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use block_diagonal(RegionBuilder& b, Use blocks, int64_t groups, ir::Dim columns, int64_t first_column,
                   const std::string& name) {
  return b.emit(ir::Op::block_diagonal, {blocks}, name, {b.shape(blocks)[0], std::move(columns)},
                {{"groups", groups}, {"first_column", first_column}});
}

namespace {

using ir::Affine;
using ir::ExprType;
using ir::Term;

struct Blocks {
  int64_t parts = 0, groups = 0, size = 0, columns = 0, first_column = 0;
};

Blocks blocks_of(const ir::Node& node, const ir::Shape& blocks, const ir::Shape& matrix) {
  const int64_t groups = node.integer("groups"), size = blocks[1].size;
  return {blocks[0].size / (groups * size), groups, size, matrix[1].size, node.integer("first_column")};
}

// Rows are (part, group, row of a block), columns (group, column of a block); those beside the groups are 0.
ir::Body block_diagonal_body(const ir::Graph& graph, const ir::Node& node) {
  const Blocks m = blocks_of(node, graph.value(node.inputs[0]).shape, graph.value(node.outputs[0]).shape);
  ir::BodyBuilder k(graph, node, {{m.parts, ""}, {m.groups, ""}, {m.size, ""}});
  const Affine row = k.row(0) * (m.groups * m.size) + k.row(1) * m.size + k.row(2);
  k.columns({{m.groups, ""}, {m.size, ""}});
  const Term in_group = k.position(k.row(1)) == k.position(k.column(0));
  k.store_at(0, {row, k.column(0) * m.size + k.column(1) + Affine{m.first_column, {}}},
             select(in_group, k.load(0, {row, k.column(1)}), k.constant(0)));
  const int64_t end = m.first_column + m.groups * m.size;
  for (const auto& [first, width] :
       {std::pair{int64_t{0}, m.first_column}, std::pair{end, m.columns - end}}) {
    if (width == 0) continue;
    k.columns({{width, ""}});
    k.store_at(0, {row, k.column(0) + Affine{first, {}}}, k.constant(0));
  }
  return k.take();
}

// The second input is the gradient so far, where this one is added to it.
ir::Body block_diagonal_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  const Blocks m = blocks_of(node, graph.value(node.outputs[0]).shape, graph.value(node.inputs[0]).shape);
  ir::BodyBuilder k(graph, node, {{m.parts, ""}, {m.groups, ""}, {m.size, ""}});
  k.columns({{m.size, ""}});
  const Affine row = k.row(0) * (m.groups * m.size) + k.row(1) * m.size + k.row(2);
  const Affine column = k.row(1) * m.size + k.column(0) + Affine{m.first_column, {}};
  const Term block = k.load(0, {row, column});
  k.store_at(0, {row, k.column(0)}, node.inputs.size() > 1 ? k.load(1, {row, k.column(0)}) + block : block);
  return k.take();
}

void block_diagonal_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> inputs = {*g.of(node.outputs[0])};
  const ParameterGradient blocks = g.parameter(node.inputs[0]);
  if (blocks.accumulate) inputs.push_back(blocks.target);
  g.emit_node(ir::Op::diagonal_blocks, std::move(inputs), {blocks.target}, node.attributes);
}

void block_diagonal_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  const int64_t groups = node.integer("groups"), size = in[0].shape[1], columns = out[0].shape[1];
  std::ranges::fill(out[0].data, 0);
  for (int64_t row = 0; row < in[0].shape[0]; ++row) {
    const int64_t first = node.integer("first_column") + row / size % groups * size;
    std::copy_n(&in[0].data[row * size], size, &out[0].data[row * columns + first]);
  }
}

}  // namespace

extern const OpInfo kBlockDiagonal{.op = ir::Op::block_diagonal,
                                   .formula = "matrix = the blocks along the diagonal, 0 elsewhere",
                                   .inputs = {"blocks"},
                                   .outputs = {"matrix"},
                                   .body = block_diagonal_body,
                                   .gradient = block_diagonal_gradient,
                                   .reference = block_diagonal_reference};
extern const OpInfo kDiagonalBlocks{.op = ir::Op::diagonal_blocks,
                                    .formula = "d_blocks = the blocks on the diagonal of d_matrix",
                                    .inputs = {"d_matrix", "d_blocks"},
                                    .outputs = {"d_blocks"},
                                    .body = block_diagonal_gradient_body};

}  // namespace hydrac::ops
