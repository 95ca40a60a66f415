#include "codegen/build_calls.h"

#include <algorithm>
#include <stdexcept>

#include "program/cost.h"
#include "runtime/parallel/collective.h"

namespace hydrac::codegen {

bool is_grouped(const ir::Node& node) {
  return node.op == ir::Op::grouped_matmul || node.op == ir::Op::grouped_weight_gradient;
}

program::GemmShape matmul_shape(const ir::Graph& graph, const ir::Node& node) {
  const bool is_fused = node.op == ir::Op::fused_matmul;
  const ir::Value &a = graph.value(node.inputs[0]), &b = graph.value(node.inputs[1]),
                  &c = graph.value(is_fused ? node.matmul : node.outputs[0]);
  const int64_t columns = a.shape.back().size;
  const bool sums_rows = node.op == ir::Op::grouped_weight_gradient;
  program::GemmShape shape{.transpose_a = sums_rows || node.optional_flag("transpose_a"),
                           .transpose_b = node.optional_flag("transpose_b"),
                           .a = a.dtype,
                           .b = b.dtype,
                           .c = c.dtype};
  if (node.attributes.contains("batch")) shape.batch = node.integer("batch");
  if (is_grouped(node) || node.optional_flag("experts"))
    shape.groups = graph.value(node.inputs[2]).shape[0].size - 1;
  shape.n = c.shape.back().size;
  shape.m = element_count(c.shape) / shape.n / shape.batch / (sums_rows ? shape.groups : 1);
  shape.k = shape.transpose_a ? element_count(a.shape) / columns / shape.batch : columns;
  return shape;
}

program::Gemm gemm_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.optional_flag("tail")) throw std::logic_error("a library's matmul has no tail");
  program::Gemm gemm{matmul_shape(graph, node)};
  gemm.shape.accumulate = node.optional_flag("accumulate");
  gemm.shape.row_by_row = node.optional_flag("row_by_row");
  if (is_grouped(node)) return gemm;
  gemm.shape.first_overwrites = node.optional_flag("first_overwrites");
  gemm.shape.bias = node.inputs.size() > 2 && node.inputs[2].value != ir::kNoValue;
  gemm.shape.fast_sums = node.optional_flag("fast_sums");
  return gemm;
}

namespace {

using runtime::Collective;

// The one of the op's name, but for sums out of place and for slots, which have two directions.
std::optional<Collective::Kind> collective_of(const ir::Node& node) {
  if (node.op == ir::Op::sum_over_ranks) return Collective::all_reduce;
  if (node.op == ir::Op::all_to_all)
    return node.flag("to_owners") ? Collective::to_owners : Collective::from_owners;
  return runtime::collective_named(to_string(node.op));
}

}  // namespace

std::optional<program::Call> call_of_ranks(const ir::Node& node) {
  const std::optional<Collective::Kind> kind = collective_of(node);
  if (!kind) return std::nullopt;
  program::Collective collective{{.kind = *kind}};
  collective.in_place = node.op == ir::Op::all_reduce;
  if (node.op == ir::Op::sum_over_ranks || node.optional_flag("tensor"))
    collective.group = runtime::RankGroup::tensor;
  if (node.optional_flag("largest")) collective.reduction = runtime::Reduction::max;
  program::Call call{.work = collective};
  if (!collective.in_place) call.arguments = node.inputs;
  call.arguments.insert(call.arguments.end(), node.outputs.begin(), node.outputs.end());
  return call;
}

program::AttentionShape attention_shape(const ir::Graph& graph, const ir::Node& node) {
  program::AttentionShape a;
  a.backward = node.op == ir::Op::attention_backward;
  const size_t q = a.backward ? 3 : 0;  // the backward's inputs begin with d_out, out, lse
  const ir::Value& query = graph.value(node.inputs[q]);
  a.batch = query.shape[0].size;
  a.tokens = query.shape[1].size;
  a.heads = query.shape[2].size;
  a.head_dim = query.shape[3].size;
  a.kv_heads = graph.value(node.inputs[q + 1]).shape[2].size;
  a.scale = node.number("scale");
  a.dropout = node.number("dropout");
  a.rules = ops::attention_rules(node);
  a.dtype = query.dtype;
  a.fp8 = !a.backward && node.optional_flag("fp8");
  auto strides = [&](ir::Use use) {  // [B,T,H,D], or [B,T,HD]
    const std::vector<int64_t> s = resolved_view(graph, use.value).strides;
    return program::AttentionShape::Strides{s[0], s[1], s.size() == 4 ? s[2] : a.head_dim};
  };
  a.q = strides(node.inputs[q]);
  a.k = strides(node.inputs[q + 1]);
  a.v = strides(node.inputs[q + 2]);
  a.out = strides(a.backward ? node.inputs[1] : node.outputs[0]);
  if (!a.backward) return a;
  a.d_out = strides(node.inputs[0]);
  a.d_q = strides(node.outputs[0]);
  a.d_k = strides(node.outputs[1]);
  a.d_v = strides(node.outputs[2]);
  return a;
}

void note_tensors(const ir::Node& node, program::Call& call) {
  for (ir::Use use : call.arguments) {
    if (std::ranges::count(node.inputs, use) > 0) call.operands.push_back(use);
    if (std::ranges::count(node.outputs, use) > 0) call.results.push_back(use);
  }
  call.multiplies_matrices = program::multiplies_matrices(node);
  call.multiplies_fp8 = node.op == ir::Op::attention && node.optional_flag("fp8");
  call.origin = node.origin;
}

ir::Use add_workspace(ir::Graph& graph, const ir::Region& region, ir::Node& node, const std::string& kernel,
                      int64_t bytes) {
  ir::Value value;
  value.name = kernel + ".workspace";
  value.shape = {{(bytes + 3) / 4, ""}};
  value.slots = std::max(region.layers, 1);
  const ir::Use use{graph.add(std::move(value)), {region.layers > 0, 0}};
  node.outputs.push_back(use);
  return use;
}

}  // namespace hydrac::codegen
