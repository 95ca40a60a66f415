#include "passes/uses.h"

#include <algorithm>

namespace hydrac::passes {

void for_each_use(const ir::Graph& graph, const UseVisitor& fn) {
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        for (ir::Use use : node.inputs) {
          if (use.value != ir::kNoValue) fn(region, node, use, false);
        }
        for (ir::Use use : node.outputs) fn(region, node, use, true);
      }
    }
  }
}

namespace {

// Elements [first, last) of a storage.
struct Range {
  int64_t first, last;
  bool meets(const Range& other) const { return first < other.last && other.first < last; }
};

// From the first to the last element of a view, whichever slot is meant.
Range whole_range(const ir::Value& value, const ir::View& view) {
  int64_t last = view.offset + view.slot_stride * (value.slots - 1) + 1;
  for (size_t d = 0; d < view.strides.size(); ++d) last += (value.shape[d].size - 1) * view.strides[d];
  return {view.offset, last};
}

// A view's place in each row of `width` elements, which is its dimensions from `first` on.
Range range_in_row(const ir::Value& value, const ir::View& view, int64_t width, size_t first) {
  Range range{view.offset % width, view.offset % width + 1};
  for (size_t d = first; d < view.strides.size(); ++d)
    range.last += (value.shape[d].size - 1) * view.strides[d];
  return range;
}

// True if the rows, `first` dimensions of both, are the same, and what lies in them is apart.
bool are_apart(const ir::Value& u, const ir::View& x, const ir::Value& v, const ir::View& y, size_t first) {
  const bool same_rows = x.strides.size() > first && y.strides.size() > first &&
                         std::equal(x.strides.begin(), x.strides.begin() + first, y.strides.begin());
  if (!same_rows) return false;
  const int64_t width = x.strides[first - 1];
  const Range p = range_in_row(u, x, width, first), q = range_in_row(v, y, width, first);
  return p.last <= width && q.last <= width && !p.meets(q);
}

}  // namespace

bool may_overlap(const ir::Graph& graph, ir::Use a, ir::Use b) {
  if (a.value == b.value) return a.slot == b.slot || a.slot.per_layer != b.slot.per_layer;
  if (storage_of(graph, a.value) != storage_of(graph, b.value)) return false;
  const ir::Slot s = storage_slot(graph, a), t = storage_slot(graph, b);
  if (s.per_layer == t.per_layer && s != t) return false;
  const ir::View x = resolved_view(graph, a.value), y = resolved_view(graph, b.value);
  const ir::Value &u = graph.value(a), &v = graph.value(b);
  if (!whole_range(u, x).meets(whole_range(v, y))) return false;  // parts of a pack
  // Both may be column ranges of the same tokens, such as queries and keys in one tensor, or of the same
  // heads.
  constexpr size_t kTokens = 2, kHeads = 3;
  return !are_apart(u, x, v, y, kTokens) && !are_apart(u, x, v, y, kHeads);
}

bool touches(const ir::Graph& graph, const std::vector<ir::Use>& uses, ir::Use use) {
  return std::ranges::any_of(
      uses, [&](ir::Use other) { return other.value != ir::kNoValue && may_overlap(graph, other, use); });
}

}  // namespace hydrac::passes
