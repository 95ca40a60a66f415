#include "passes/elementwise_epilogue.h"

#include <algorithm>

namespace hydrac::passes {

using ir::Affine;
using ir::ExprOp;

namespace {

// Asks which element it is.
bool knows_its_place(ExprOp op) {
  return op == ExprOp::position || op == ExprOp::layer || op == ExprOp::random_16_bits;
}

class Elementwise {
 public:
  Elementwise(const ir::Graph& graph, const ir::Node& node)
      : graph_(graph), node_(node), body_(*node.body), matmul_(graph.value(node.matmul)) {}

  bool takes(const ir::Expr& expr) const {
    if (knows_its_place(expr.op) || is_reduction(expr.op)) return false;
    return expr.op != ExprOp::load || is_matmul(expr.operand) || is_of_columns(expr.index);
  }

  // At the row and column of a tensor that lies in memory as the matmul would.
  bool takes(const ir::Store& store) const {
    const ir::Operand& tensor = body_.operands[store.operand];
    const bool is_in_place = tensor.input >= 0 && !is_matmul(store.operand);
    if (store.kind != ir::StoreKind::store || store.space == ir::kRowSpace || is_in_place) return false;
    if (tensor.dtype != matmul_.dtype || tensor.shape != matmul_.shape) return false;
    if (graph_.value(node_.outputs[tensor.output]).view) return false;
    ir::Index element;
    for (int row = 0; row < body_.row_variables; ++row) element.push_back({Affine::of(row)});
    element.push_back({Affine::of(body_.spaces[store.space][0])});
    return store.index == element;
  }

 private:
  // epilogue_of() puts it behind the node's own inputs.
  bool is_matmul(int operand) const {
    const int input = body_.operands[operand].input;
    const int own = static_cast<int>(node_.inputs.size());
    return input >= 0 && (input >= own || node_.inputs[input] == node_.matmul);
  }

  // A vector of the columns, or a single number.
  bool is_of_columns(const ir::Index& index) const {
    const auto is_fixed = [](const ir::IndexDim& dim) { return dim.gather < 0 && dim.affine.terms.empty(); };
    if (std::ranges::all_of(index, is_fixed)) return true;
    if (index.size() != 1 || index[0].gather >= 0 || index[0].affine.terms.size() != 1) return false;
    const int variable = index[0].affine.terms[0].first;
    return variable >= body_.row_variables && index[0].affine == Affine::of(variable);
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const ir::Body& body_;
  const ir::Value& matmul_;
};

}  // namespace

std::vector<int> elementwise_outputs(const ir::Graph& graph, const ir::Node& node) {
  if (node.flag("paired")) return {};
  const ir::Body& body = *node.body;
  const Elementwise elementwise(graph, node);
  const std::vector<bool> live = live_expressions(body);
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (live[i] && !elementwise.takes(body.exprs[i])) return {};
  }
  std::vector<int> outputs;
  for (const ir::Store& store : body.stores) {
    if (!elementwise.takes(store)) return {};
    outputs.push_back(store.operand);
  }
  return outputs;
}

}  // namespace hydrac::passes
