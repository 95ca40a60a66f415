#include "codegen/stages.h"

#include <algorithm>

namespace hydrac::codegen {

namespace {

Loop& loop_over(Stage& stage, int space) {
  for (Loop& loop : stage.loops) {
    if (loop.space == space) return loop;
  }
  stage.loops.push_back({space, {}, {}});
  return stage.loops.back();
}

}  // namespace

std::vector<Stage> stages_of(const ir::Body& body, const std::vector<ir::Dependence>& deps,
                             const std::vector<bool>& live) {
  int levels = 1;
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (live[i]) levels = std::max(levels, deps[i].level + 1);
  }
  std::vector<Stage> stages(levels);
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (!live[i] || !is_reduction(body.exprs[i].op)) continue;
    loop_over(stages[deps[i].level - 1], body.exprs[i].space)
        .reductions.push_back(static_cast<ir::ExprId>(i));
  }
  for (size_t s = 0; s < body.stores.size(); ++s) {
    const ir::Store& store = body.stores[s];
    Stage& stage = stages[deps[store.value].level];
    if (store.space == ir::kRowSpace) {
      stage.row_stores.push_back(static_cast<int>(s));
    } else {
      loop_over(stage, store.space).stores.push_back(static_cast<int>(s));
    }
  }
  return stages;
}

}  // namespace hydrac::codegen
