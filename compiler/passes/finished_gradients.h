// When gradients are finished: behind the last node of "micro_step" that writes them.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace hydrac::passes {

class FinishedGradients {
 public:
  // For the gradients in `storages`.
  FinishedGradients(ir::Graph& graph, std::set<ir::ValueId> storages);

  // Inserts make(gradients) after the last node that writes these gradients. A layer's gradients are passed
  // together at the end of its iteration, with its own slots. Gradients that a loop accumulates are passed in
  // a region after the loop. `with_last` is passed together with the last gradients. Returns how many regions
  // got such nodes.
  using Make = std::function<std::vector<ir::Node>(const std::vector<ir::Use>& gradients)>;
  int place(const Make& make, const std::vector<ir::Use>& with_last = {});

 private:
  std::vector<int> slots_of(size_t region, ir::Use use) const;
  void note(size_t region, ir::Use output);
  std::vector<ir::Use> finished_in(size_t region) const;
  void place(size_t region, const std::vector<ir::Use>& uses, const Make& make);

  ir::Graph& graph_;
  std::vector<ir::Region>& regions_;
  const std::set<ir::ValueId> storages_;
  std::map<size_t, std::vector<ir::Use>> written_;      // by region
  std::map<std::pair<ir::ValueId, int>, size_t> last_;  // the region that writes a slot last
};

}  // namespace hydrac::passes
