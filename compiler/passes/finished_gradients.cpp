#include "passes/finished_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace hydrac::passes {

using ir::Node;
using ir::Region;
using ir::Use;

FinishedGradients::FinishedGradients(ir::Graph& graph, std::set<ir::ValueId> storages)
    : graph_(graph), regions_(graph.function("micro_step").regions), storages_(std::move(storages)) {
  for (size_t r = 0; r < regions_.size(); ++r)
    for (const Node& node : regions_[r].nodes)
      for (const Use output : node.outputs) note(r, output);
}

int FinishedGradients::place(const Make& make, const std::vector<Use>& with_last) {
  int made = 0;
  // From the last region on, so that a region that is added moves none of those to come.
  for (size_t r = regions_.size(); r-- > 0;) {
    std::vector<Use> uses = finished_in(r);
    if (uses.empty()) continue;
    if (made == 0) uses.insert(uses.end(), with_last.begin(), with_last.end());
    place(r, uses, make);
    ++made;
  }
  return made;
}

std::vector<int> FinishedGradients::slots_of(size_t r, Use use) const {
  if (!use.slot.per_layer) return {use.slot.index};
  std::vector<int> slots;
  for (int layer = 0; layer < regions_[r].layers; ++layer) slots.push_back(use.slot.at(layer));
  return slots;
}

void FinishedGradients::note(size_t r, Use output) {
  if (output.value == ir::kNoValue || !storages_.contains(storage_of(graph_, output.value))) return;
  std::vector<Use>& written = written_[r];
  if (std::ranges::count(written, output) == 0) written.push_back(output);
  for (const int slot : slots_of(r, output)) last_[{output.value, slot}] = r;
}

// Gradients that nothing behind region r changes.
std::vector<Use> FinishedGradients::finished_in(size_t r) const {
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

void FinishedGradients::place(size_t r, const std::vector<Use>& uses, const Make& make) {
  const auto is_of_layer = [&](Use use) { return use.slot.per_layer || regions_[r].layers == 0; };
  std::vector<Use> within, behind;
  std::ranges::partition_copy(uses, std::back_inserter(within), std::back_inserter(behind), is_of_layer);
  if (!within.empty())
    for (Node& node : make(within)) regions_[r].nodes.push_back(std::move(node));
  if (behind.empty()) return;
  Region added{regions_[r].name + "_reduce", 0, false, regions_[r].backward, make(behind)};
  regions_.insert(regions_.begin() + static_cast<std::ptrdiff_t>(r) + 1, std::move(added));
}

}  // namespace hydrac::passes
