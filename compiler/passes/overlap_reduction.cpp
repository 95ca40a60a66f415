#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "ops/builder.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using ir::ValueId;

class Overlap {
 public:
  Overlap(ir::Graph& graph, const models::Pack& pack)
      : graph_(graph), regions_(graph.function("micro_step").regions), pack_(pack) {
    for (size_t r = 0; r < regions_.size(); ++r)
      for (const Node& node : regions_[r].nodes)
        for (const Use output : node.outputs) note(r, output);
  }

  // How many nodes the sums have become.
  int run(ValueId loss) {
    const Node whole = take_from_update();
    // From the last region on, so that a region that is added moves none of those to come.
    for (size_t r = regions_.size(); r-- > 0;) {
      std::vector<Use> uses = finished_in(r);
      if (uses.empty()) continue;
      if (made_ == 0) uses.push_back({loss, {}});  // the last one: the loss is there too
      place(r, uses, whole);
      ++made_;
    }
    return made_;
  }

 private:
  bool is_gradient(Use use) const {
    if (use.value == ir::kNoValue) return false;
    const ValueId storage = storage_of(graph_, use.value);
    return std::ranges::any_of(pack_.groups, [&](const models::ParameterGroup& group) {
      return storage_of(graph_, group.gradients) == storage;
    });
  }

  std::vector<int> slots_of(size_t r, Use use) const {
    if (!use.slot.per_layer) return {use.slot.index};
    std::vector<int> slots;
    for (int layer = 0; layer < regions_[r].layers; ++layer) slots.push_back(use.slot.at(layer));
    return slots;
  }

  void note(size_t r, Use output) {
    if (!is_gradient(output)) return;
    std::vector<Use>& written = written_[r];
    if (std::ranges::count(written, output) == 0) written.push_back(output);
    for (const int slot : slots_of(r, output)) last_[{output.value, slot}] = r;
  }

  // Gradients that nothing behind region r changes.
  std::vector<Use> finished_in(size_t r) const {
    std::vector<Use> finished;
    const auto written = written_.find(r);
    if (written == written_.end()) return finished;
    for (const Use use : written->second) {
      const std::vector<int> slots = slots_of(r, use);
      const auto here = std::ranges::count_if(slots, [&](int slot) {
        return last_.at({use.value, slot}) == r;
      });
      if (here == 0) continue;
      if (here != std::ssize(slots))
        throw std::logic_error(fmt::format("{} is finished in some iterations only", to_text(graph_, use)));
      finished.push_back(use);
    }
    return finished;
  }

  // A layer's gradients are summed in its iteration; what a loop adds up as a whole, behind it.
  void place(size_t r, const std::vector<Use>& uses, const Node& whole) {
    const auto is_of_layer = [&](Use use) { return use.slot.per_layer || regions_[r].layers == 0; };
    std::vector<Use> within, behind;
    std::ranges::partition_copy(uses, std::back_inserter(within), std::back_inserter(behind), is_of_layer);
    if (!within.empty()) regions_[r].nodes.push_back(sum(within, whole));
    if (behind.empty()) return;
    Region added{regions_[r].name + "_reduce", 0, false, regions_[r].backward, {sum(behind, whole)}};
    regions_.insert(regions_.begin() + static_cast<std::ptrdiff_t>(r) + 1, std::move(added));
  }

  static Node sum(const std::vector<Use>& uses, const Node& whole) {
    Node node = whole;
    node.inputs = node.outputs = uses;
    return node;
  }

  // Removes and returns the sum of all gradients and the loss.
  Node take_from_update() {
    for (Region& region : graph_.function("update").regions) {
      const auto found = std::ranges::find_if(region.nodes, [&](const Node& node) {
        return node.op == ir::Op::all_reduce && is_gradient(node.outputs[0]);
      });
      if (found == region.nodes.end()) continue;
      Node whole = std::move(*found);
      region.nodes.erase(found);
      return whole;
    }
    throw std::logic_error("nothing is summed over ranks");
  }

  ir::Graph& graph_;
  std::vector<Region>& regions_;
  const models::Pack& pack_;
  std::map<size_t, std::vector<Use>> written_;      // by region
  std::map<std::pair<ValueId, int>, size_t> last_;  // the region that writes a slot last
  int made_ = 0;
};

}  // namespace

void overlap_reduction(ir::Graph& graph, const models::Pack& pack, ValueId loss, Log& log) {
  const int sums = Overlap(graph, pack).run(loss);
  log.push_back({"ranks", fmt::format("gradients are summed over ranks as soon as they are finished, beside "
                                      "the rest of the backward pass: {} sums in its text",
                                      sums)});
}

}  // namespace hydrac::passes
