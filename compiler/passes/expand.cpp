#include <algorithm>

#include "ops/op.h"
#include "ops/shapes.h"
#include "ops/user_function.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

// An operand that is both read and written (an optimizer's parameter) is one operand, not two.
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

void make_fused(const ir::Graph& graph, Node& node) {
  const ops::OpInfo& op = ops::op_info(node.op);
  node.body = std::make_shared<const ir::Body>(op.body(graph, node));
  const functions::Function* function = ops::function_of(node);
  node.attributes = {{"name", function ? node.op + "." + function->name : node.op}};
  node.op = "fused";
}

// y = x W^T + b, or p = x W^T and y = p + b.
std::vector<Node> expand_linear(ir::Graph& graph, const ProductEpilogues& epilogues, const Node& linear) {
  Node gemm = linear;
  gemm.op = "gemm";
  gemm.inputs = {linear.inputs[0], linear.inputs[1]};
  gemm.attributes = {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}};
  const Use bias = linear.inputs[2];
  if (bias.value == ir::kNoValue) return {gemm};
  if (epilogues.bias) {
    gemm.inputs.push_back(bias);
    return {gemm};
  }
  ir::Value product = graph.value(linear.outputs[0]);
  product.name += ".product";
  product.role = ir::Role::activation;
  gemm.outputs = {{graph.add(std::move(product)), linear.outputs[0].slot}};
  Node add = linear;
  add.op = "bias_add";
  add.inputs = {gemm.outputs[0], bias};
  make_fused(graph, add);
  return {gemm, add};
}

}  // namespace

void expand(ir::Graph& graph, const ProductEpilogues& epilogues, Log&) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      std::vector<Node> expanded;
      for (Node& node : region.nodes) {
        if (node.op == "linear") {
          std::ranges::move(expand_linear(graph, epilogues, node), std::back_inserter(expanded));
          continue;
        }
        if (node.op != "fused" && ops::op_info(node.op).body) make_fused(graph, node);
        expanded.push_back(std::move(node));
      }
      for (Node& node : expanded) {
        if (node.op == "fused") unify_operands(node);
      }
      region.nodes = std::move(expanded);
    }
  }
}

}  // namespace hydrac::passes
