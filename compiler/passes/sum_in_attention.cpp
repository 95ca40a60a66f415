// Lets attention's backward pass sum the bias gradient of the packed qkv matmul. Its kernel for short
// sequences holds a head's gradients of all tokens in one block; a separate kernel would read them again.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/attention/geometry.h"
#include "ops/attention_rules.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

// True if the node does nothing else than to sum its only input over its rows.
bool only_sums_rows(const Node& node) {
  if (node.op != ir::Op::fused || node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const ir::Body& body = *node.body;
  if (body.stores.size() != 1 || !is_sum(body.stores[0].kind)) return false;
  const ir::Store& store = body.stores[0];
  const ir::Expr& value = body.exprs[store.value];
  if (store.space == ir::kRowSpace || body.spaces[store.space].size() != 1) return false;
  const int column = body.spaces[store.space][0];
  ir::Index element;
  for (int r = 0; r < body.row_variables; ++r) element.push_back({ir::Affine::of(r)});
  element.push_back({ir::Affine::of(column)});
  const auto covers = [&](const ir::Operand& operand) {
    ir::Shape shape = body.row_shape();
    shape.push_back(body.variables[column]);
    return operand.shape == shape;
  };
  return value.op == ir::ExprOp::load && value.index == element && covers(body.operands[value.operand]) &&
         store.index == ir::Index{{ir::Affine::of(column)}};
}

// True if d_q, d_k and d_v lie side by side, and are all of `packed` [B,T,3HD].
bool fill(const ir::Graph& graph, const Node& backward, Use packed) {
  int64_t offset = 0;
  for (int i = 0; i < 3; ++i) {
    const Use part = backward.outputs[i];
    const ir::Value& value = graph.value(part);
    if (!value.view || value.view->base != packed.value || value.view->slot_stride != 0 ||
        value.view->offset != offset || part.slot != packed.slot)
      return false;
    offset += value.shape[2].size * value.shape[3].size;
  }
  return offset == graph.value(packed).shape.back().size;
}

// True if the kernel that has whole heads computes the node.
bool owns_heads(const ir::Graph& graph, const Node& backward, cuda::Chip chip) {
  const ir::Value &q = graph.value(backward.inputs[3]), &k = graph.value(backward.inputs[4]);
  const ops::AttentionRules rules = ops::attention_rules(backward);
  return cuda::attention_owns_heads({.capability = chip.capability,
                                     .element_bytes = static_cast<int>(size_of(q.dtype)),
                                     .is_bf16 = q.dtype == ir::DType::bf16,
                                     .has_dropout = backward.number("dropout") > 0,
                                     .batch = q.shape[0].size,
                                     .tokens = q.shape[1].size,
                                     .heads = q.shape[2].size,
                                     .kv_heads = k.shape[2].size,
                                     .head_dim = q.shape[3].size,
                                     .causal = hides_later_keys(rules),
                                     .has_softcap = rules.softcap > 0,
                                     .has_documents = rules.documents,
                                     .multiprocessors = chip.multiprocessors});
}

bool touches(const ir::Graph& graph, const Node& node, Use use) {
  const auto lies_there = [&](Use other) {
    return other.value != ir::kNoValue && may_overlap(graph, other, use);
  };
  return std::ranges::any_of(node.inputs, lies_there) || std::ranges::any_of(node.outputs, lies_there);
}

bool writes(const ir::Graph& graph, const Node& node, Use use) {
  return std::ranges::any_of(node.outputs, [&](Use other) { return may_overlap(graph, other, use); });
}

// The node before `sum` that computes its operand, if that node can sum it, and nothing in between writes the
// operand or uses the sum.
Node* summing(const ir::Graph& graph, std::vector<Node>& nodes, size_t sum, cuda::Chip chip) {
  const Use packed = nodes[sum].inputs[0], total = nodes[sum].outputs[0];
  for (size_t n = sum; n-- > 0;) {
    Node& node = nodes[n];
    if (node.op == ir::Op::attention_backward && fill(graph, node, packed))
      return node.outputs.size() == 3 && owns_heads(graph, node, chip) ? &node : nullptr;
    if (writes(graph, node, packed) || touches(graph, node, total)) return nullptr;
  }
  return nullptr;
}

}  // namespace

void sum_in_attention(ir::Graph& graph, cuda::Chip chip, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      for (size_t n = region.nodes.size(); n-- > 0;) {
        const Node& sum = region.nodes[n];
        if (!only_sums_rows(sum)) continue;
        Node* backward = summing(graph, region.nodes, n, chip);
        if (!backward) continue;
        log.push_back({"sums", fmt::format("{}.{}: {} is summed by attention's backward pass", function.name,
                                           region.name, graph.value(sum.outputs[0]).name)});
        backward->outputs.push_back(sum.outputs[0]);
        backward->attributes["accumulate"] = sum.body->stores[0].kind == ir::StoreKind::add_column_sum;
        region.nodes.erase(region.nodes.begin() + static_cast<std::ptrdiff_t>(n));
      }
    }
  }
}

}  // namespace hydrac::passes
