#include <algorithm>

#include "ir/words.h"
#include "ops/op.h"
#include "ops/shapes.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

// Operands are called what they are in the op's formula, so that a kernel reads the same wherever it is used.
void name_operands(const ops::OpInfo& op, const Node& node, ir::Body& body, std::string& formula) {
  std::map<std::string, std::string, std::less<>> renamed;
  for (ir::Operand& operand : body.operands) {
    const bool is_input = operand.input >= 0;
    const int position = is_input ? operand.input : operand.output;
    operand.name = (is_input ? op.inputs : op.outputs).at(position);
    std::string name = operand.name;
    const auto own = node.attributes.find(is_input ? "input_name" : "output_name");
    if (position == 0 && own != node.attributes.end()) name = std::get<std::string>(own->second);
    if (node.optional_flag("of_gradients")) name = "d_" + name;
    renamed[operand.name] = name;
    operand.name = std::move(name);
  }
  formula = ir::with_words(formula, renamed);
}

void make_fused(const ir::Graph& graph, Node& node) {
  const ops::OpInfo& op = ops::op_info(node.op);
  ir::Body body = op.body(graph, node);
  std::string formula = op.formula_of ? op.formula_of(node) : std::string(op.formula);
  name_operands(op, node, body, formula);
  node.body = std::make_shared<const ir::Body>(std::move(body));
  const bool is_alone = node.optional_flag("alone");
  node.attributes = {{"name", op.kernel ? op.kernel(node) : to_string(node.op)}, {"formula", formula}};
  if (is_alone) node.attributes["alone"] = true;
  node.op = ir::Op::fused;
}

// y = x W^T + b, or p = x W^T and y = p + b.
std::vector<Node> expand_linear(ir::Graph& graph, const MatmulEpilogues& epilogues, const Node& linear) {
  Node gemm = linear;
  gemm.op = ir::Op::gemm;
  gemm.inputs = {linear.inputs[0], linear.inputs[1]};
  gemm.attributes = {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}};
  const Use bias = linear.inputs[2];
  if (bias.value == ir::kNoValue) return {gemm};
  if (epilogues.bias) {
    gemm.inputs.push_back(bias);
    return {gemm};
  }
  ir::Value matmul = graph.value(linear.outputs[0]);
  matmul.name += ".matmul";
  matmul.role = ir::Role::activation;
  gemm.outputs = {{graph.add(std::move(matmul)), linear.outputs[0].slot}};
  Node add = linear;
  add.op = ir::Op::bias_add;
  add.inputs = {gemm.outputs[0], bias};
  make_fused(graph, add);
  return {gemm, add};
}

}  // namespace

void unify_operands(Node& node) {
  ir::Body body = *node.body;
  for (ir::Operand& out : body.operands) {
    if (out.output < 0 || out.input >= 0) continue;
    for (size_t i = 0; i < body.operands.size(); ++i) {
      ir::Operand& in = body.operands[i];
      if (in.output >= 0 || in.input < 0 || node.inputs[in.input] != node.outputs[out.output]) continue;
      in.output = out.output;
      const int from = static_cast<int>(&out - body.operands.data());
      for (ir::Store& store : body.stores) {
        if (store.operand == from) store.operand = static_cast<int>(i);
      }
      out.output = -1;
      break;
    }
  }
  node.body = std::make_shared<const ir::Body>(std::move(body));
}

void expand(ir::Graph& graph, const MatmulEpilogues& epilogues, Log&) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      std::vector<Node> expanded;
      for (Node& node : region.nodes) {
        if (node.op == ir::Op::linear) {
          std::ranges::move(expand_linear(graph, epilogues, node), std::back_inserter(expanded));
          continue;
        }
        if (node.op != ir::Op::fused && ops::op_info(node.op).body) make_fused(graph, node);
        expanded.push_back(std::move(node));
      }
      for (Node& node : expanded) {
        if (node.op == ir::Op::fused) unify_operands(node);
      }
      region.nodes = std::move(expanded);
    }
  }
}

}  // namespace hydrac::passes
