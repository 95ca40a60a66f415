// Matmuls of experts: rows offsets[e] to offsets[e + 1] of x are multiplied with matrix e of the weights
// [E*N,K], E matrices one below the other. Their counts are known on the device alone. Rows from offsets[E]
// on belong to nobody: their results are not computed, and nobody reads them.
#include <algorithm>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use grouped_matmul(RegionBuilder& b, Use x, Use weights, const ExpertRows& rows, ir::Dim columns,
                   bool row_by_row, const std::string& name) {
  ir::Attributes attributes = {{"transpose_b", true}};
  if (row_by_row) attributes["row_by_row"] = true;
  return b.emit(ir::Op::grouped_matmul, {x, weights, rows.offsets}, name, {b.shape(x)[0], std::move(columns)},
                std::move(attributes));
}

namespace {

// d_x = d_y W;  d_W = d_y^T x, expert by expert.
void grouped_matmul_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]), x = node.inputs[0], weights = node.inputs[1],
            offsets = node.inputs[2];
  g.contribute_op(x, ir::Op::grouped_matmul, {dy, weights, offsets}, {{"transpose_b", false}});
  if (!g.wanted(weights)) return;
  const ParameterGradient dw = g.parameter(weights);
  g.emit_node(ir::Op::grouped_weight_gradient, {dy, x, offsets}, {dw.target},
              {{"accumulate", dw.accumulate}});
}

Cost cost_of_experts(const ir::Graph& graph, const ir::Node& node, Use rows, Use weights, int times) {
  double bytes =
      static_cast<double>(times - 1) *
      static_cast<double>(element_count(graph.value(weights).shape) * size_of(graph.value(weights).dtype));
  for (const Use use : {node.inputs[0], node.inputs[1], node.outputs[0]})
    bytes += static_cast<double>(element_count(graph.value(use).shape) * size_of(graph.value(use).dtype));
  const int64_t experts = graph.value(node.inputs[2]).shape[0].size - 1;
  const auto matrix = static_cast<double>(element_count(graph.value(weights).shape) / experts);
  return {2 * matrix * static_cast<double>(graph.value(rows).shape[0].size), bytes};
}

Cost grouped_matmul_cost(const ir::Graph& graph, const ir::Node& node) {
  return cost_of_experts(graph, node, node.inputs[0], node.inputs[1], 1);
}

Cost grouped_weight_gradient_cost(const ir::Graph& graph, const ir::Node& node) {
  return cost_of_experts(graph, node, node.inputs[0], node.outputs[0], node.flag("accumulate") ? 2 : 1);
}

// Calls visit(expert, row) for the rows of each expert.
template <typename Visit>
void for_each_expert_row(const Tensor64& offsets, const Visit& visit) {
  for (size_t e = 0; e + 1 < offsets.data.size(); ++e)
    for (auto row = static_cast<int64_t>(offsets.data[e]); row < static_cast<int64_t>(offsets.data[e + 1]);
         ++row)
      visit(static_cast<int64_t>(e), row);
}

void grouped_matmul_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  const int64_t k = in[0].shape[1], n = out[0].shape[1];
  const bool transposed = node.flag("transpose_b");
  for_each_expert_row(in[2], [&](int64_t expert, int64_t row) {
    const double* matrix = &in[1].data[expert * n * k];
    for (int64_t j = 0; j < n; ++j) {
      double& sum = out[0].data[row * n + j] = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += in[0].data[row * k + i] * matrix[transposed ? j * k + i : i * n + j];
    }
  });
}

void grouped_weight_gradient_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                                       std::vector<Tensor64>& out) {
  const int64_t n = in[0].shape[1], k = in[1].shape[1];
  if (!node.flag("accumulate")) std::ranges::fill(out[0].data, 0);
  for_each_expert_row(in[2], [&](int64_t expert, int64_t row) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < k; ++i)
        out[0].data[(expert * n + j) * k + i] += in[0].data[row * n + j] * in[1].data[row * k + i];
  });
}

}  // namespace

// Inputs: x [rows,K], weights, offsets i32 [E + 1]. Attribute transpose_b: the weights are [E*N,K], else
// [E*K,N]. Attribute row_by_row: for libraries, whose results of a row depend on how many there are.
extern const OpInfo kGroupedMatmul{.op = ir::Op::grouped_matmul,
                                   .formula = "y = x W^T, W the matrix of the row's expert",
                                   .gradient = grouped_matmul_gradient,
                                   .cost = grouped_matmul_cost,
                                   .reference = grouped_matmul_reference};
// Inputs: d_y [rows,N], x [rows,K], offsets. An expert without rows has a gradient of zeros.
extern const OpInfo kGroupedWeightGradient{.op = ir::Op::grouped_weight_gradient,
                                           .formula = "d_W = d_y^T x, over the rows of each expert",
                                           .cost = grouped_weight_gradient_cost,
                                           .reference = grouped_weight_gradient_reference};

}  // namespace hydrac::ops
