// A frozen matrix's matmul and its adapter's, y = x W^T + low B^T, as one kernel: the adapter's operands are
// the tail of the loop over k. So the adapter needs no launch and no round trip through memory, and the sum's
// reader (an activation, its gradient) can become the epilogue.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cuda/matmul/geometry.h"
#include "passes/asked_matmuls.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

// A matmul of one matrix with another that may be transposed, of any types, without a tail.
bool is_plain_matmul(const Node& node) {
  if (node.op == ir::Op::linear) return true;
  return node.op == ir::Op::gemm && !node.flag("transpose_a") && !node.flag("accumulate") &&
         !node.optional_flag("tail") && !node.attributes.contains("batch");
}

bool transposes_b(const Node& matmul) {
  return matmul.op == ir::Op::linear || matmul.flag("transpose_b");
}

Use bias_of(const Node& matmul) {
  return matmul.inputs.size() > 2 ? matmul.inputs[2] : Use{};
}

// y = base + tail, nodes of one region in any order.
struct Sum {
  size_t base, tail, add;
};

class TailFusion {
 public:
  TailFusion(ir::Graph& graph, const FusedMatmuls& options, Log& log)
      : graph_(graph), options_(options), log_(log) {
    for_each_use(graph, [&](const ir::Region&, const Node&, Use use, bool is_output) {
      if (!is_output) ++readers_[storage_of(graph, use.value)];
    });
  }

  MatmulChoices take_choices() { return std::move(choices_); }

  void run(const std::string& function, ir::Region& region) {
    for (size_t n = 0; n < region.nodes.size(); ++n) {
      const std::optional<Sum> sum = sum_at(region.nodes, n);
      if (!sum || !takes(function, region, *sum)) continue;
      join(region.nodes, *sum);
      n -= 2;
    }
  }

 private:
  std::optional<Sum> sum_at(const std::vector<Node>& nodes, size_t n) const {
    if (nodes[n].op != ir::Op::add) return std::nullopt;
    const std::optional<size_t> first = matmul_of(nodes, n, 0), second = matmul_of(nodes, n, 1);
    if (!first || !second || *first == *second) return std::nullopt;
    const Sum sum = depth_of(nodes[*first]) >= depth_of(nodes[*second]) ? Sum{*first, *second, n}
                                                                        : Sum{*second, *first, n};
    const ir::Value& y = graph_.value(nodes[n].outputs[0]);
    const bool fits = transposes_b(nodes[sum.base]) == transposes_b(nodes[sum.tail]) &&
                      bias_of(nodes[sum.tail]).value == ir::kNoValue && !y.view &&
                      y.role == ir::Role::activation &&
                      matmul_supports(problem_of(nodes, sum), cuda::MatmulSchedule::persistent);
    return fits ? std::optional(sum) : std::nullopt;
  }

  // The matmul of 16-bit matrices that computes input `input` of the addition at `n`, if nothing else reads
  // it and its operands are unchanged until there.
  std::optional<size_t> matmul_of(const std::vector<Node>& nodes, size_t n, size_t input) const {
    const Use term = nodes[n].inputs[input];
    for (size_t p = n; p-- > 0;) {
      if (std::ranges::count(nodes[p].outputs, term) == 0) continue;
      const bool fits = is_plain_matmul(nodes[p]) && !graph_.value(term).view &&
                        readers_.at(storage_of(graph_, term.value)) == 1 &&
                        has_one_type(nodes[p], nodes[n].outputs[0]) && keeps_operands(nodes, p, n);
      return fits ? std::optional(p) : std::nullopt;
    }
    return std::nullopt;
  }

  bool has_one_type(const Node& matmul, Use y) const {
    const ir::DType type = graph_.value(y).dtype;
    return size_of(type) == 2 &&
           std::ranges::all_of(
               std::initializer_list<Use>{matmul.inputs[0], matmul.inputs[1], matmul.outputs[0]},
               [&](Use use) { return graph_.value(use).dtype == type; });
  }

  bool keeps_operands(const std::vector<Node>& nodes, size_t matmul, size_t end) const {
    for (size_t n = matmul + 1; n < end; ++n) {
      for (const Use use : nodes[matmul].inputs) {
        if (use.value != ir::kNoValue && touches(graph_, nodes[n].outputs, use)) return false;
      }
    }
    return true;
  }

  int64_t depth_of(const Node& matmul) const { return graph_.value(matmul.inputs[0]).shape.back().size; }

  cuda::MatmulProblem problem_of(const std::vector<Node>& nodes, const Sum& sum) const {
    const ir::Value& y = graph_.value(nodes[sum.add].outputs[0]);
    const int64_t n = y.shape.back().size;
    return {.chip = options_.chip,
            .is_bf16 = y.dtype == ir::DType::bf16,
            .b_transposed = transposes_b(nodes[sum.base]),
            .m = element_count(y.shape) / n,
            .n = n,
            .k = depth_of(nodes[sum.base]),
            .paired = false,
            .sums = 0,
            .tail_k = depth_of(nodes[sum.tail])};
  }

  // A matmul whose bias moves to its readers gets another name (move_biases).
  Asked asked_for(const std::string& name, bool has_bias) const {
    const Asked asked = asked_of(options_, name);
    return asked == Asked::nothing && has_bias ? asked_of(options_, name + ".matmul") : asked;
  }

  // Decides, and says so.
  bool takes(const std::string& function, const ir::Region& region, const Sum& sum) {
    const std::vector<Node>& nodes = region.nodes;
    const auto name_of = [&](size_t node) { return graph_.value(nodes[node].outputs[0]).name; };
    const std::string base = name_of(sum.base), tail = name_of(sum.tail), y = name_of(sum.add);
    const bool has_bias = bias_of(nodes[sum.base]).value != ir::kNoValue;
    const Asked asked = asked_for(y, has_bias);
    const bool names_one =
        asked_for(base, has_bias) != Asked::nothing || asked_for(tail, false) != Asked::nothing;
    const bool pays = options_.wherever_possible || matmul_tail_pays(problem_of(nodes, sum));
    const bool is_one = asked == Asked::ours || (asked == Asked::nothing && !names_one && pays);
    if (!is_one) choices_.push_back({function, y, false, true, ""});
    const std::string of_two = base == tail ? "two matmuls" : fmt::format("{} and {}", base, tail);
    const char* decided = is_one ? "are one matmul, the second the tail of the first"
                          : asked != Asked::nothing || names_one ? "stay two matmuls, as the spec asks"
                                                                 : "stay two matmuls, which is faster";
    log_.push_back({"matmuls", fmt::format("{}.{}: {} of {} {}", function, region.name, of_two, y, decided)});
    return is_one;
  }

  // The matmul with a tail stands where the sum was.
  static void join(std::vector<Node>& nodes, const Sum& sum) {
    const Node &base = nodes[sum.base], &tail = nodes[sum.tail];
    Node joined = nodes[sum.add];
    joined.op = ir::Op::gemm;
    joined.inputs = {base.inputs[0], base.inputs[1], bias_of(base), tail.inputs[0], tail.inputs[1]};
    joined.attributes = {
        {"transpose_a", false}, {"transpose_b", transposes_b(base)}, {"accumulate", false}, {"tail", true}};
    nodes[sum.add] = std::move(joined);
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(std::max(sum.base, sum.tail)));
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(std::min(sum.base, sum.tail)));
  }

  ir::Graph& graph_;
  const FusedMatmuls& options_;
  Log& log_;
  MatmulChoices choices_;
  std::map<ir::ValueId, int> readers_;  // of a storage, in all functions
};

}  // namespace

MatmulChoices add_matmul_tails(ir::Graph& graph, const FusedMatmuls& options, Log& log) {
  TailFusion fusion(graph, options, log);
  for (ir::Function& function : graph.functions) {
    if (function.name == "prefill" || function.name == "decode") continue;
    for (ir::Region& region : function.regions) fusion.run(function.name, region);
  }
  return fusion.take_choices();
}

}  // namespace hydrac::passes
