#include "program/cost.h"

#include <algorithm>

namespace hydrac::program {

namespace {

int operations(ir::ExprOp op) {
  switch (op) {
    case ir::ExprOp::constant:
    case ir::ExprOp::load:
    case ir::ExprOp::position:
    case ir::ExprOp::layer:
    case ir::ExprOp::convert:
    case ir::ExprOp::round_to:
    case ir::ExprOp::round_stochastically:
      return 0;
    case ir::ExprOp::fma:
      return 2;
    default:
      return 1;
  }
}

double points(const ir::Body& body, int space) {
  return static_cast<double>(body.row_count() * element_count(body.space_shape(space)));
}

// Elements of an operand that a body moves once: all of it. An operand that is only gathered from, such as a
// table, counts at most one element for each point of the gather.
double elements_moved(const ir::Body& body, const std::vector<ir::Dependence>& deps,
                      const std::vector<bool>& live, size_t operand) {
  const double all = static_cast<double>(element_count(body.operands[operand].shape));
  if (body.operands[operand].output >= 0) return all;
  double gathered = 0;
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    const ir::Expr& load = body.exprs[i];
    if (!live[i] || load.op != ir::ExprOp::load || load.operand != static_cast<int>(operand)) continue;
    if (std::ranges::none_of(load.index, [](const ir::IndexDim& dim) { return dim.gather >= 0; })) return all;
    gathered += deps[i].uniform ? 1 : points(body, deps[i].space);
  }
  return std::min(all, gathered);
}

ops::Cost fused_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Body& body = *node.body;
  const std::vector<ir::Dependence> deps = dependences(body);
  const std::vector<bool> live = live_expressions(body);
  ops::Cost cost;
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (!live[i]) continue;
    const bool reduces = is_reduction(body.exprs[i].op);
    cost.flop += operations(body.exprs[i].op) *
                 (deps[i].uniform ? 1 : points(body, reduces ? body.exprs[i].space : deps[i].space));
  }
  for (const ir::Store& store : body.stores) {
    if (store.kind != ir::StoreKind::store) cost.flop += points(body, store.space);
  }
  for (size_t i = 0; i < body.operands.size(); ++i) {
    const ir::Operand& operand = body.operands[i];
    const double passes = (operand.input >= 0 ? 1 : 0) + (operand.output >= 0 ? 1 : 0);
    if (passes == 0) continue;
    const ir::Use use = operand.output >= 0 ? node.outputs[operand.output] : node.inputs[operand.input];
    if (use.value == ir::kNoValue) continue;
    cost.bytes +=
        passes * elements_moved(body, deps, live, i) * static_cast<double>(size_of(graph.value(use).dtype));
  }
  return cost;
}

// The operands and flop of the matmul and its tail, and the epilogue's work. The matmul itself counts as
// memory traffic only if it is stored.
ops::Cost fused_matmul_cost(const ir::Graph& graph, const ir::Node& node) {
  const auto bytes = [&](ir::Use use) {
    const ir::Value& value = graph.value(use);
    return static_cast<double>(element_count(value.shape) * size_of(value.dtype));
  };
  ops::Cost cost = fused_cost(graph, epilogue_of(node));
  for (size_t i = 0; i < (node.optional_flag("tail") ? 4 : 2); i += 2) {
    const int64_t k = graph.value(node.inputs[i]).shape.back().size;
    cost.flop += 2.0 * static_cast<double>(element_count(graph.value(node.matmul).shape) * k);
    cost.bytes += bytes(node.inputs[i]) + bytes(node.inputs[i + 1]);
  }
  cost.bytes -= bytes(node.matmul);
  return cost;
}

// The cost of the matmuls that it replaces.
ops::Cost weight_gradients_cost(const ir::Graph& graph, const ir::Node& node) {
  ir::Node matmul = node;
  matmul.attributes["transpose_a"] = true;
  ops::Cost cost;
  for (size_t i = 0; i < node.inputs.size() / 2; ++i) {
    matmul.inputs = {node.inputs[2 * i], node.inputs[2 * i + 1]};
    matmul.outputs = {node.outputs[i]};
    const ops::Cost one = ops::op_info(ir::Op::gemm).cost(graph, matmul);
    cost.flop += one.flop;
    cost.bytes += one.bytes;
  }
  return cost;
}

}  // namespace

bool multiplies_matrices(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::linear:
    case ir::Op::gemm:
    case ir::Op::grouped_matmul:
    case ir::Op::grouped_weight_gradient:
    case ir::Op::fused_matmul:
    case ir::Op::weight_gradients:
    case ir::Op::attention:
    case ir::Op::attention_backward:
    case ir::Op::attention_decode:
      return true;
    default:
      return false;
  }
}

ops::Cost cost_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ir::Op::fused_matmul) return fused_matmul_cost(graph, node);
  if (node.op == ir::Op::weight_gradients) return weight_gradients_cost(graph, node);
  return node.op == ir::Op::fused ? fused_cost(graph, node) : ops::op_info(node.op).cost(graph, node);
}

}  // namespace hydrac::program
