// y = x W^T + b, and the matmul (gemm) that it and its gradients become.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use linear(RegionBuilder& b, Use x, Use weight, Use bias, const std::string& name, int64_t ranks) {
  ir::Attributes attributes;
  if (ranks > 1) attributes["ranks"] = ranks;
  return b.emit(ir::Op::linear, {x, weight, bias}, name, with_last(b.shape(x), b.shape(weight)[0]),
                std::move(attributes));
}

namespace {

// Contributes the gradient of a computed weight, such as a grouped map's whole matrix; f32, as a parameter's.
void contribute_weight(Gradient& g, Use dy, Use x, Use weight) {
  const Use dw = g.exact(g.fresh(g.name_of(weight), g.shape(weight)));
  g.emit_node(ir::Op::gemm, {dy, x}, {dw},
              {{"transpose_a", true}, {"transpose_b", false}, {"accumulate", false}});
  g.contribute(weight, dw);
}

// The rank's term of d_x, then the sum over ranks.
void contribute_sum(Gradient& g, Use x, Use dy, Use weight, int64_t ranks) {
  const Use part = g.emit(ir::Op::gemm, {dy, weight}, g.name_of(x) + ".part", g.shape(x),
                          {{"transpose_a", false}, {"transpose_b", false}, {"accumulate", false}});
  g.contribute_op(x, ir::Op::sum_over_ranks, {part}, {{"ranks", ranks}});
}

// d_x = d_y W;  d_W = d_y^T x;  d_b = sum_rows(d_y)
void linear_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  const Use x = node.inputs[0], weight = node.inputs[1], bias = node.inputs[2];
  if (node.attributes.contains("ranks")) {
    if (g.wanted(x)) contribute_sum(g, x, dy, weight, node.integer("ranks"));
  } else {
    g.contribute_op(x, ir::Op::gemm, {dy, weight},
                    {{"transpose_a", false}, {"transpose_b", false}, {"accumulate", false}});
  }
  if (g.wanted(weight) && g.value(weight).role != ir::Role::parameter) {
    contribute_weight(g, dy, x, weight);
  } else if (g.wanted(weight)) {
    const ParameterGradient dw = g.parameter(weight);
    g.emit_node(ir::Op::gemm, {dy, x}, {dw.target},
                {{"transpose_a", true}, {"transpose_b", false}, {"accumulate", dw.accumulate}});
  }
  if (bias.value != ir::kNoValue && g.wanted(bias)) {
    const ParameterGradient db = g.parameter(bias);
    g.emit_node(ir::Op::bias_gradient, {dy}, {db.target}, {{"accumulate", db.accumulate}});
  }
}

void linear_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const Tensor64 &x = in[0], &w = in[1], &b = in[2];
  const int64_t k = x.shape.back(), n = w.shape[0];
  for (int64_t r = 0; r < row_count(x); ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = b.data.empty() ? 0 : b.data[j];
      for (int64_t i = 0; i < k; ++i) sum += x.data[r * k + i] * w.data[j * k + i];
      out[0].data[r * n + j] = sum;
    }
  }
}

int64_t bytes_of(const ir::Value& value) {
  return element_count(value.shape) * size_of(value.dtype);
}

Cost linear_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value &x = graph.value(node.inputs[0]), &weight = graph.value(node.inputs[1]),
                  &y = graph.value(node.outputs[0]);
  return {2.0 * static_cast<double>(element_count(y.shape) * weight.shape[1].size),
          static_cast<double>(bytes_of(x) + bytes_of(weight) + bytes_of(y))};
}

Cost gemm_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value &a = graph.value(node.inputs[0]), &b = graph.value(node.inputs[1]),
                  &c = graph.value(node.outputs[0]);
  const bool is_batch = node.attributes.contains("batch");
  const int64_t rows = is_batch ? a.shape[1].size : element_count(leading(a.shape));
  const int64_t k = node.flag("transpose_a") ? rows : a.shape.back().size;
  const int64_t touched = bytes_of(a) + bytes_of(b) + bytes_of(c) * (node.flag("accumulate") ? 2 : 1);
  return {2.0 * static_cast<double>(element_count(c.shape) * k), static_cast<double>(touched)};
}

}  // namespace

extern const OpInfo kLinear{.op = ir::Op::linear,
                            .formula = "y = x W^T + b",
                            .gradient = linear_gradient,
                            .cost = linear_cost,
                            .reference = linear_reference};
// C (+)= op(A) op(B) (+ bias), where all dimensions but the last of A, B and C count as rows. A third input
// is the bias, one number a column, or none. Of 8-bit operands a fourth and a fifth are what A's and B's
// elements are multiplied by; attribute fast_sums: their sums keep the few bits that the matrix units add
// with. Attribute tail: a fourth and a fifth are D and E, and C = op(A) op(B) + D op(E) + bias is one sum in
// f32, of which only kernels of ours are capable (passes/matmul_tails). Attribute first_overwrites, beside
// accumulate: in a loop's first iteration C is not read. Attribute batch: so many matmuls of matrices that
// lie side by side; A, B and C are [batch, rows, columns] then, each matrix at a multiple of matmul_stride().
extern const OpInfo kGemm{.op = ir::Op::gemm, .formula = "C = op(A) op(B) + bias", .cost = gemm_cost};

}  // namespace hydrac::ops
