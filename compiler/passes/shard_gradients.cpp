#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/body_builder.h"
#include "ops/builder.h"
#include "passes/finished_gradients.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using ir::ValueId;

class Shards {
 public:
  Shards(ir::Graph& graph, const models::Pack& pack, const GradientShards& options)
      : graph_(graph), pack_(pack), options_(options) {
    for (const models::ParameterGroup& group : pack.groups) {
      for (const models::Stretch& stretch : group.stretches) {
        if (stretch.member == ir::kNoValue) {
          kept_.push_back(&stretch);
          continue;
        }
        by_gradient_[models::gradient_of(graph, graph.value(stretch.member))] = &stretch;
        storages_.insert(storage_of(graph, stretch.gradients));
      }
    }
  }

  void run() {
    FinishedGradients(graph_, storages_).place([&](const std::vector<Use>& gradients) {
      std::vector<Part> parts;
      for (const Use use : gradients) parts.push_back({by_gradient_.at(use.value), use.slot});
      return reduced(parts);
    });
    if (kept_.empty()) return;
    std::vector<Part> parts;
    for (const models::Stretch* stretch : kept_) parts.push_back({stretch, {}});
    graph_.function("micro_step").regions.push_back({"reduce_rest", 0, false, true, reduced(parts)});
  }

 private:
  struct Part {
    const models::Stretch* stretch;
    ir::Slot slot;
  };

  // The rank's parts become their sums, or those of all micro-batches so far.
  std::vector<Node> reduced(const std::vector<Part>& parts) {
    Region region;
    ops::RegionBuilder b(graph_, region);
    b.enter("optimizer", "parallel.zero");
    std::vector<Use> whole, own, sums;
    for (const Part& part : parts) {
      whole.push_back({part.stretch->gradients, part.slot});
      own.push_back({part.stretch->own_gradients, part.slot});
      sums.push_back(options_.accumulates ? Use{of_micro_batch(*part.stretch), part.slot} : own.back());
    }
    ir::Attributes attributes = {{"ranks", pack_.sharing_ranks}};
    if (options_.beside) attributes["beside"] = true;
    b.emit_node(ir::Op::reduce_scatter, whole, sums, attributes);
    if (options_.accumulates)
      for (size_t i = 0; i < own.size(); ++i) add(b, own[i], sums[i]);
    return std::move(region.nodes);
  }

  ValueId of_micro_batch(const models::Stretch& stretch) {
    ir::Value value = graph_.value(stretch.own_gradients);
    value.name += ".of_micro_batch";
    value.role = ir::Role::activation;
    value.exact = true;
    value.view.reset();
    return graph_.add(std::move(value));
  }

  void add(ops::RegionBuilder& b, Use own, Use sum) const {
    const Node node{.inputs = {own, sum}, .outputs = {own}};
    const ir::Shape shape = graph_.value(own).shape;
    ir::BodyBuilder k(graph_, node, {shape[0]});
    k.columns({shape[1]});
    k.store(0, k.full(0) + k.full(1));
    b.emit_body(node, "add_micro_batch", k.take(), "gradients += the rank's part of this micro-batch's");
    b.region().nodes.back().attributes["of_ranks"] = true;
    unify_operands(b.region().nodes.back());
  }

  ir::Graph& graph_;
  const models::Pack& pack_;
  const GradientShards options_;
  std::map<ValueId, const models::Stretch*> by_gradient_;
  std::vector<const models::Stretch*> kept_;
  std::set<ValueId> storages_;
};

// Matrices that ranks have whole until they are summed.
std::vector<std::string> whole_matrices(const ir::Graph& graph, const models::Pack& pack) {
  std::vector<std::string> names;
  for (const models::ParameterGroup& group : pack.groups) {
    for (const ValueId member : group.members) {
      const bool is_divided = std::ranges::any_of(
          group.stretches, [&](const models::Stretch& stretch) { return stretch.member == member; });
      if (!is_divided && graph.value(member).parameter->decay) names.push_back(graph.value(member).name);
    }
  }
  return names;
}

}  // namespace

std::set<ValueId> sharded_gradients(const ir::Graph& graph, const models::Pack& pack) {
  std::set<ValueId> storages;
  if (!pack.shards_gradients) return storages;
  for (const models::ParameterGroup& group : pack.groups)
    for (const models::Stretch& stretch : group.stretches)
      storages.insert(storage_of(graph, stretch.gradients));
  return storages;
}

void shard_gradients(ir::Graph& graph, const models::Pack& pack, const GradientShards& options, Log& log) {
  Shards(graph, pack, options).run();
  log.push_back(
      {"ranks",
       fmt::format("a layer's gradients are summed as soon as they are finished{}, and a "
                   "rank keeps 1/{} of the sums{}",
                   options.beside ? ", beside the rest of the backward pass" : "", pack.sharing_ranks,
                   options.accumulates ? ", to which those of each micro-batch are added" : "")});
  const std::vector<std::string> whole = whole_matrices(graph, pack);
  if (whole.empty()) return;
  log.push_back({"ranks", fmt::format("gradients are whole on each rank until the end of a micro-batch where "
                                      "a parameter is no multiple of {} numbers from a multiple of {} on: {}",
                                      pack.row * pack.sharing_ranks, pack.row, fmt::join(whole, ", "))});
}

}  // namespace hydrac::passes
