#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "passes/passes.h"
#include "passes/weight_copies.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Role;
using ir::Use;
using ir::Value;

class Lowering {
 public:
  Lowering(ir::Graph& graph, const models::Pack& pack, ir::DType storage)
      : graph_(graph), storage_(storage), copies_(graph, pack, storage) {}

  void run() {
    for (Value& value : graph_.values) {
      const bool is_number = value.dtype == ir::DType::f32;  // and no index
      if (value.role == Role::activation && is_number && !value.exact) value.dtype = storage_;
    }
    for (ir::Function& function : graph_.functions) {
      if (function.name == "update") continue;
      for (ir::Region& region : function.regions) {
        copies_.begin(function, region);
        lower(region);
      }
    }
    copies_.make();
  }

  const WeightCopies& copies() const { return copies_; }

 private:
  void lower(ir::Region& region) {
    casts_.clear();
    std::vector<Node> nodes;
    for (Node& node : region.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        Use& input = node.inputs[i];
        const Use read = copies_.read(node, input);
        const bool is_copy = read != input;
        input = read;
        if (!is_copy && input.value != ir::kNoValue && (is_matmul(node) || is_moved_as_storage(node, i)) &&
            graph_.value(input).dtype != storage_ && graph_.value(input).dtype != ir::DType::i32)
          input = cast(input, node, nodes);
      }
      nodes.push_back(std::move(node));
    }
    region.nodes = std::move(nodes);
  }

  // True if ranks that share layers gather the input, and the gathered tensor has the storage type: the input
  // (the residual stream's gradient) is then cast before it is sent.
  bool is_moved_as_storage(const Node& node, size_t input) const {
    return node.op == ir::Op::all_gather && node.optional_flag("tensor") &&
           graph_.value(node.outputs[input]).dtype == storage_;
  }

  // Casts a matmul's f32 input (features of a series, the residual stream's gradient), or an input that
  // is_moved_as_storage(), once a region.
  Use cast(Use input, const Node& reader, std::vector<Node>& nodes) {
    if (auto found = casts_.find(input); found != casts_.end()) return found->second;
    Value value = graph_.value(input);
    value.name += fmt::format(".{}", to_string(storage_));
    value.role = Role::activation;
    value.exact = false;
    value.dtype = storage_;
    Node node;
    node.op = ir::Op::cast;
    node.inputs = {input};
    node.outputs = {{graph_.add(std::move(value)), input.slot}};
    node.scope = reader.scope;
    node.origin = "optimizations.precision";
    nodes.push_back(node);
    return casts_[input] = node.outputs[0];
  }

  ir::Graph& graph_;
  ir::DType storage_;
  WeightCopies copies_;
  std::map<Use, Use> casts_;
};

// Parameters whose gradients are wider than those that matmuls write.
std::vector<std::string> with_wide_gradients(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (value.trains() && graph.value(models::gradient_of(graph, value)).dtype == ir::DType::f32)
      names.push_back(value.name);
  }
  return names;
}

// Explains what layers gather and what every rank has whole, for `hydrac explain`.
void explain_gathered(const models::Pack& pack, const WeightCopies& copies, Log& log) {
  const std::vector<std::string> whole = copies.whole_matrices();
  log.push_back({"ranks", fmt::format("a rank keeps 1/{} of the weights that layers read; each layer gathers "
                                      "its own, forward and backward",
                                      pack.sharing_ranks)});
  if (!whole.empty())
    log.push_back({"ranks", fmt::format("weights that every rank has whole, gathered once a step: {}",
                                        fmt::join(whole, ", "))});
}

}  // namespace

void precision(ir::Graph& graph, const models::Pack& pack, const Precision& precision, Log& log) {
  if (precision.activations == ir::DType::f32 && !pack.shards_weights) return;
  Lowering lowering(graph, pack, precision.activations);
  lowering.run();
  if (pack.shards_weights) explain_gathered(pack, lowering.copies(), log);
  if (precision.activations == ir::DType::f32) return;
  const std::string type(to_string(precision.activations));
  log.push_back(
      {"precision", fmt::format("activations and matmuls in {}, {}", type,
                                lowering.copies().has_copies() ? type + " working copies of f32 parameters"
                                                               : "which parameters are stored in too")});
  const std::vector<std::string> wide = with_wide_gradients(graph);
  if (std::ranges::all_of(pack.groups, [&](const models::ParameterGroup& group) {
        return graph.value(group.own_gradients).dtype == ir::DType::f32;
      }))
    return;
  log.push_back({"precision", fmt::format("gradients in {} where one matmul writes them, in f32 those of {}",
                                          type, fmt::join(wide, ", "))});
}

}  // namespace hydrac::passes
