#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ops/builder.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Shape;
using ir::Use;
using ir::ValueId;

// The one region in which every activation is used that no other region knows; null for all others.
std::map<ValueId, const Region*> homes(const ir::Graph& graph) {
  std::map<ValueId, const Region*> homes;
  for_each_use(graph, [&](const Region& region, const Node&, Use use, bool) {
    const bool can_be_local = graph.value(use).role == ir::Role::activation && !graph.value(use).view;
    auto [found, is_new] = homes.try_emplace(use.value, can_be_local ? &region : nullptr);
    if (!is_new && found->second != &region) found->second = nullptr;
  });
  return homes;
}

const Node* loss_of(const Region& region) {
  const auto found =
      std::ranges::find_if(region.nodes, [](const Node& node) { return node.op == ir::Op::cross_entropy; });
  return found == region.nodes.end() ? nullptr : &*found;
}

// Values that have the rows of the batch as their columns.
std::set<ValueId> transposes(const Region& region) {
  std::set<ValueId> values;
  for (const Node& node : region.nodes) {
    if (node.op == ir::Op::transpose) values.insert(node.outputs[0].value);
  }
  return values;
}

// Turns one region's nodes that work on logits into a loop over parts of the rows.
class HeadLoop {
 public:
  // `rows`: the batch's dimensions, [B,T].
  HeadLoop(ir::Graph& graph, const Region& region, Shape rows, int64_t part_rows)
      : graph_(graph),
        rows_(std::move(rows)),
        part_{part_rows, "R"},
        homes_(homes(graph)),
        transposes_(transposes(region)),
        losses_(loss_of(region)->outputs[0].value),
        region_(region),
        before_{"before_" + region.name, 0, false, false, {}},
        loop_{region.name, static_cast<int>(element_count(rows_) / part_rows), false, false, {}},
        after_{"after_" + region.name, 0, false, false, {}} {}

  // The regions that take the region's place.
  std::vector<Region> run(Use logits) {
    const std::vector<bool> in_loop = connected_to(logits.value);
    for (size_t n = 0; n < region_.nodes.size(); ++n)
      (in_loop[n] ? loop_ : after_).nodes.push_back(region_.nodes[n]);
    for (Node& node : loop_.nodes) accumulate(node);
    for (Node& node : loop_.nodes) {
      for (Use& input : node.inputs) input = part_of(input);
      for (Use& output : node.outputs) output = part_of(output);
    }
    std::vector<Region> regions;
    for (Region* region : {&before_, &loop_, &after_}) {
      if (!region->nodes.empty()) regions.push_back(std::move(*region));
    }
    return regions;
  }

 private:
  bool is_local(Use use) const { return use.value != ir::kNoValue && homes_.at(use.value) == &region_; }

  // The nodes that meet `start` through values of this region alone.
  std::vector<bool> connected_to(ValueId start) const {
    std::vector<bool> reached(region_.nodes.size(), false);
    std::set<ValueId> values = {start};
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < region_.nodes.size(); ++n) {
        const Node& node = region_.nodes[n];
        std::vector<Use> uses = node.inputs;
        uses.insert(uses.end(), node.outputs.begin(), node.outputs.end());
        if (reached[n] || std::ranges::none_of(uses, [&](Use use) { return values.contains(use.value); }))
          continue;
        reached[n] = changed = true;
        for (Use use : uses) {
          if (is_local(use)) values.insert(use.value);
        }
      }
    }
    return reached;
  }

  // Inputs and activations with one entry for every row of the batch, and the rows' losses if the host reads
  // them.
  bool has_rows(Use use) const {
    if (use.value == ir::kNoValue) return false;
    const ir::Value& value = graph_.value(use);
    const bool batch =
        value.role == ir::Role::activation || value.role == ir::Role::input || use.value == losses_;
    return batch && value.shape.size() >= rows_.size() &&
           std::equal(rows_.begin(), rows_.end(), value.shape.begin(),
                      [](const ir::Dim& a, const ir::Dim& b) { return a.size == b.size; });
  }

  // Sums over all rows add part to part. A matmul overwrites in the first; another sum finds zeros.
  void accumulate(Node& node) {
    for (Use output : node.outputs) {
      const bool is_largest_so_far = node.op == ir::Op::quantize && output == node.outputs[1];
      if (has_rows(output) || transposes_.contains(output.value) || is_largest_so_far ||
          node.flag("accumulate"))
        continue;
      node.attributes["accumulate"] = true;
      if (node.op == ir::Op::gemm) {
        node.attributes["first_overwrites"] = true;
        continue;
      }
      ops::RegionBuilder zero(graph_, before_);
      zero.enter(node.scope, node.origin);
      zero.emit_node(ir::Op::zero, {}, {output});
    }
  }

  Shape part_shape(const Shape& shape) const {
    Shape part = {part_};
    part.insert(part.end(), shape.begin() + static_cast<std::ptrdiff_t>(rows_.size()), shape.end());
    return part;
  }

  // The loop's rows of a tensor: one of its own where only the loop knows it, else a view.
  Use part_of(Use use) {
    if (auto found = parts_.find(use); found != parts_.end()) return found->second;
    if (transposes_.contains(use.value)) return parts_[use] = transposed_part_of(use);
    if (!has_rows(use)) return use;
    const Use part{is_local(use) ? use.value : add_view(use), {true, 0}};
    if (is_local(use)) {
      ir::Value& value = graph_.value(use.value);
      value.shape = part_shape(value.shape);
      value.slots = loop_.layers;
    }
    return parts_[use] = part;
  }

  Use transposed_part_of(Use use) {
    ir::Value& value = graph_.value(use.value);
    value.shape.back() = part_;
    value.slots = loop_.layers;
    return {use.value, {true, 0}};
  }

  ValueId add_view(Use use) {
    ir::Value part = graph_.value(use);
    part.name += ".part";
    part.shape = part_shape(part.shape);
    part.slots = loop_.layers;
    part.view =
        ir::View{use.value, 0, element_count(part.shape), contiguous_strides(part.shape), use.slot.index};
    return graph_.add(std::move(part));
  }

  ir::Graph& graph_;
  const Shape rows_;
  const ir::Dim part_;
  const std::map<ValueId, const Region*> homes_;
  const std::set<ValueId> transposes_;
  const ValueId losses_;
  const Region& region_;
  Region before_, loop_, after_;
  std::map<Use, Use> parts_;
};

// Replaces function.regions[at]. False where all rows make one part.
bool chunk(ir::Graph& graph, ir::Function& function, size_t at, const HeadParts& limits, Log& log) {
  const Node& loss = *loss_of(function.regions[at]);
  const Use logits = loss.inputs[0];
  const Shape rows = graph.value(loss.inputs[1]).shape;
  const ir::Value& value = graph.value(logits);
  const int64_t row_bytes = value.shape.back().size * size_of(value.dtype), all = element_count(rows);
  const int64_t part = rows_of_part(all, row_bytes, limits);
  if (part == all) {
    log.push_back({"chunk head", fmt::format("{}: all {} rows are one part, with {} bytes of logits",
                                             function.name, all, all * row_bytes)});
    return false;
  }
  log.push_back(
      {"chunk head", fmt::format("{}: {} parts of {} rows, with {} bytes of logits each instead of {}",
                                 function.name, all / part, part, part * row_bytes, all * row_bytes)});
  std::vector<Region> regions = HeadLoop(graph, function.regions[at], rows, part).run(logits);
  const auto place = function.regions.erase(function.regions.begin() + static_cast<std::ptrdiff_t>(at));
  function.regions.insert(place, std::make_move_iterator(regions.begin()),
                          std::make_move_iterator(regions.end()));
  return true;
}

}  // namespace

int64_t rows_of_part(int64_t rows, int64_t row_bytes, const HeadParts& limits) {
  int64_t best = rows;
  for (int64_t parts = 1; best * row_bytes > limits.logit_bytes && rows / parts >= limits.least_rows; ++parts)
    if (rows % parts == 0) best = rows / parts;
  return best;
}

void chunk_head(ir::Graph& graph, const HeadParts& limits, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (size_t at = 0; at < function.regions.size(); ++at) {
      if (loss_of(function.regions[at]) && chunk(graph, function, at, limits, log)) break;
    }
  }
}

}  // namespace hydrac::passes
