#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Role;
using ir::Use;
using ir::Value;
using ir::ValueId;

bool is_matmul(const Node& node) {
  return node.op == "linear" || node.op == "gemm";
}

// Matrices, embedding tables, and the biases of matmuls; norms' weights and biases are read as they are, in
// f32.
bool reads_working_copy(const Node& node, const Value& value) {
  return value.parameter && (value.shape.size() == 2 || is_matmul(node));
}

class Lowering {
 public:
  Lowering(ir::Graph& graph, const models::Pack& pack, ir::DType storage)
      : graph_(graph), pack_(pack), storage_(storage) {}

  void run() {
    for (Value& value : graph_.values) {
      if (value.role == Role::activation && !value.exact) value.dtype = storage_;
    }
    for (ir::Function& function : graph_.functions) {
      if (function.name == "update") continue;
      for (ir::Region& region : function.regions) lower(region);
    }
    if (!has_working_copies()) return;
    for (const models::ParameterGroup& group : pack_.groups)
      group_copies_.push_back(rows_of(graph_, group, working_pack_));
    ir::Region& update = graph_.function("update").regions.back();
    rewrite_working_copy(update);
    graph_.functions.push_back({"load", {{"load", 0, false, false, {}}}});
    rewrite_working_copy(graph_.functions.back().regions.back());
  }

  bool has_working_copies() const { return working_pack_ != ir::kNoValue; }

 private:
  void lower(ir::Region& region) {
    casts_.clear();
    std::vector<Node> nodes;
    for (Node& node : region.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        Use& input = node.inputs[i];
        if (input.value == ir::kNoValue) continue;
        const Value& value = graph_.value(input);
        if (reads_working_copy(node, value) && value.dtype != storage_) {
          input.value = working_copy(input.value);
        } else if (is_matmul(node) && value.dtype != storage_) {
          input = cast(input, node, nodes);
        }
      }
      nodes.push_back(std::move(node));
    }
    region.nodes = std::move(nodes);
  }

  // The working copy of a parameter: at its place in the pack of copies.
  ValueId working_copy(ValueId parameter) {
    if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
    if (working_pack_ == ir::kNoValue) {
      Value pack = graph_.value(pack_.parameters);
      pack.name += suffix();
      pack.role = Role::working_copy;
      pack.dtype = storage_;
      working_pack_ = graph_.add(std::move(pack));
    }
    Value copy = graph_.value(parameter);
    copy.name += suffix();
    copy.role = Role::working_copy;
    copy.dtype = storage_;
    copy.parameter.reset();
    copy.view->base = working_pack_;
    return copies_[parameter] = graph_.add(std::move(copy));
  }

  // An input of a matmul that is f32 (features of a series, the residual stream's gradient): cast once a
  // region.
  Use cast(Use input, const Node& reader, std::vector<Node>& nodes) {
    if (auto found = casts_.find(input); found != casts_.end()) return found->second;
    Value value = graph_.value(input);
    value.name += suffix();
    value.role = Role::activation;
    value.exact = false;
    value.dtype = storage_;
    Node node;
    node.op = "cast";
    node.inputs = {input};
    node.outputs = {{graph_.add(std::move(value)), input.slot}};
    node.scope = reader.scope;
    node.origin = "optimizations.precision";
    nodes.push_back(node);
    return casts_[input] = node.outputs[0];
  }

  void rewrite_working_copy(ir::Region& region) {
    ops::RegionBuilder b(graph_, region);
    b.enter("optimizer", "optimizations.precision");
    for (size_t i = 0; i < pack_.groups.size(); ++i)
      b.emit_node("cast", {{pack_.groups[i].parameters, {}}}, {{group_copies_[i], {}}});
  }

  std::string suffix() const { return fmt::format(".{}", to_string(storage_)); }

  ir::Graph& graph_;
  const models::Pack& pack_;
  ir::DType storage_;
  ValueId working_pack_ = ir::kNoValue;
  std::vector<ValueId> group_copies_;  // the working pack by groups
  std::map<ValueId, ValueId> copies_;
  std::map<Use, Use> casts_;
};

// Parameters whose gradients are wider than those that matmuls write.
std::vector<std::string> with_wide_gradients(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (value.trains() && graph.value(graph.find("d_" + value.name)).dtype == ir::DType::f32)
      names.push_back(value.name);
  }
  return names;
}

}  // namespace

void precision(ir::Graph& graph, const models::Pack& pack, const Precision& precision, Log& log) {
  if (precision.activations == ir::DType::f32) return;
  Lowering lowering(graph, pack, precision.activations);
  lowering.run();
  const std::string type(to_string(precision.activations));
  log.push_back(
      {"precision", fmt::format("activations and matmuls in {}, {}", type,
                                lowering.has_working_copies() ? type + " working copies of f32 parameters"
                                                              : "which parameters are stored in too")});
  const std::vector<std::string> wide = with_wide_gradients(graph);
  if (std::ranges::all_of(pack.groups, [&](const models::ParameterGroup& group) {
        return graph.value(group.gradients).dtype == ir::DType::f32;
      }))
    return;
  log.push_back({"precision", fmt::format("gradients in {} where one matmul writes them, in f32 those of {}",
                                          type, fmt::join(wide, ", "))});
}

}  // namespace hydrac::passes
