// Gradients of small weights are sums over many rows with few tiles each. A library computes them one after
// the other and leaves most of the GPU idle, so they become one kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "ops/shapes.h"
#include "passes/asked_matmuls.h"
#include "passes/passes.h"
#include "passes/uses.h"
#include "passes/weight_gradients_problem.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

// d_w = d_y^T x, or += that, of two matrices of one 16-bit type into an f32 gradient.
bool is_weight_gradient(const ir::Graph& graph, const Node& node) {
  if (node.op != ir::Op::gemm || node.attributes.contains("batch") || !node.flag("transpose_a") ||
      node.flag("transpose_b") || node.optional_flag("first_overwrites") || node.inputs.size() > 2)
    return false;
  const ir::Value &d_y = graph.value(node.inputs[0]), &x = graph.value(node.inputs[1]),
                  &d_w = graph.value(node.outputs[0]);
  return size_of(d_y.dtype) == 2 && d_y.dtype == x.dtype && d_w.dtype == ir::DType::f32 &&
         d_w.role == ir::Role::gradient;
}

int64_t rows_of(const ir::Graph& graph, const Node& gradient) {
  return element_count(ops::leading(graph.value(gradient.inputs[0]).shape));
}

bool go_together(const ir::Graph& graph, const Node& a, const Node& b) {
  return a.flag("accumulate") == b.flag("accumulate") && rows_of(graph, a) == rows_of(graph, b) &&
         graph.value(a.inputs[0]).dtype == graph.value(b.inputs[0]).dtype;
}

// True if `moved` can run at the place `last`: no node in between writes its operands or touches its
// gradient.
bool can_move(const ir::Graph& graph, const std::vector<Node>& nodes, size_t moved, size_t last) {
  const Node& node = nodes[moved];
  const auto meets = [&](Use other, Use use) {
    return other.value != ir::kNoValue && may_overlap(graph, other, use);
  };
  for (size_t n = moved + 1; n <= last; ++n) {
    for (Use output : nodes[n].outputs) {
      if (meets(output, node.inputs[0]) || meets(output, node.inputs[1]) || meets(output, node.outputs[0]))
        return false;
    }
    if (std::ranges::any_of(nodes[n].inputs, [&](Use input) { return meets(input, node.outputs[0]); }))
      return false;
  }
  return true;
}

// The node that does the work of all of them.
Node joined(const std::vector<Node>& nodes, const std::vector<size_t>& gradients) {
  Node joined = nodes[gradients.back()];
  joined.op = ir::Op::weight_gradients;
  joined.origin = "optimizations.fused_matmuls";
  joined.attributes = {{"accumulate", joined.flag("accumulate")}};
  joined.inputs.clear(), joined.outputs.clear();
  for (const size_t g : gradients) {
    joined.inputs.insert(joined.inputs.end(), nodes[g].inputs.begin(), nodes[g].inputs.end());
    joined.outputs.push_back(nodes[g].outputs[0]);
  }
  return joined;
}

// Puts it in the place of the last of them.
void replace(std::vector<Node>& nodes, const std::vector<size_t>& gradients, Node joined) {
  nodes[gradients.back()] = std::move(joined);
  for (size_t g = gradients.size() - 1; g-- > 0;)
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(gradients[g]));
}

class Gathering {
 public:
  Gathering(const ir::Graph& graph, const FusedMatmuls& options) : graph_(graph), options_(options) {}

  MatmulChoices take_choices() { return std::move(choices_); }

  void run(const ir::Function& function, ir::Region& region, Log& log) {
    std::vector<Node>& nodes = region.nodes;
    std::set<Use> left;  // to the library, with the others of their group
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (is_weight_gradient(graph_, nodes[n]) && asked(nodes[n]) == Asked::library)
        choices_.push_back({function.name, name_of(nodes[n]), false, false, ""});
      if (!may_join(nodes[n]) || left.contains(nodes[n].outputs[0])) continue;
      Group group = group_at(nodes, n);
      if (group.gradients.size() < 2) {
        if (asked(nodes[n]) == Asked::ours)
          choices_.push_back({function.name, name_of(nodes[n]), false, false, name_of(nodes[n])});
        continue;
      }
      std::vector<std::string> names;
      for (const size_t g : group.gradients) {
        names.push_back(name_of(nodes[g]));
        if (!group.joins) left.insert(nodes[g].outputs[0]);
        choices_.push_back({function.name, names.back(), group.joins, group.is_possible, names.front()});
      }
      log.push_back(
          {"matmuls", fmt::format("{}.{}: {} {}", function.name, region.name, fmt::join(names, ", "),
                                  group.joins ? "are one kernel" : "stay a library's")});
      if (group.joins) replace(nodes, group.gradients, joined(nodes, group.gradients));
    }
  }

 private:
  struct Group {
    std::vector<size_t> gradients;
    bool is_possible = false, joins = false;
  };

  const std::string& name_of(const Node& gradient) const { return graph_.value(gradient.outputs[0]).name; }
  Asked asked(const Node& gradient) const { return asked_of(options_, name_of(gradient)); }
  bool may_join(const Node& node) const {
    return is_weight_gradient(graph_, node) && asked(node) != Asked::library;
  }

  // The gradients that can be one kernel with the one at `first`. If that is not faster for all of them, only
  // those that the spec asks for.
  Group group_at(const std::vector<Node>& nodes, size_t first) const {
    Group all = judged(nodes, gradients_with(nodes, first));
    if (all.joins) return all;
    std::vector<size_t> own;
    std::ranges::copy_if(all.gradients, std::back_inserter(own),
                         [&](size_t g) { return asked(nodes[g]) == Asked::ours; });
    return own.size() < 2 ? all : judged(nodes, std::move(own));
  }

  Group judged(const std::vector<Node>& nodes, std::vector<size_t> gradients) const {
    if (gradients.size() < 2) return {std::move(gradients)};
    const cuda::WeightGradientsProblem problem =
        weight_gradients_problem(graph_, joined(nodes, gradients), options_.chip);
    const bool is_asked =
        std::ranges::all_of(gradients, [&](size_t g) { return asked(nodes[g]) == Asked::ours; });
    const bool is_possible = weight_gradients_support(problem);
    const bool is_wanted = options_.wherever_possible || is_asked || weight_gradients_pay(problem);
    return {std::move(gradients), is_possible, is_possible && is_wanted};
  }

  // The gradients that may be computed at the place of the last of them.
  std::vector<size_t> gradients_with(const std::vector<Node>& nodes, size_t first) const {
    std::vector<size_t> found;
    for (size_t n = first; n < nodes.size() && found.size() < cuda::kMostWeightGradients; ++n) {
      if (!may_join(nodes[n]) || !go_together(graph_, nodes[first], nodes[n])) continue;
      const auto stays = [&](size_t earlier) { return !can_move(graph_, nodes, earlier, n); };
      if (std::ranges::any_of(found, stays)) break;
      found.push_back(n);
    }
    return found;
  }

  const ir::Graph& graph_;
  const FusedMatmuls& options_;
  MatmulChoices choices_;
};

}  // namespace

MatmulChoices gather_weight_gradients(ir::Graph& graph, const FusedMatmuls& options, Log& log) {
  Gathering gathering(graph, options);
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) gathering.run(function, region, log);
  }
  return gathering.take_choices();
}

}  // namespace hydrac::passes
