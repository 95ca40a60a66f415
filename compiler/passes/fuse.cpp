// Greedy fusion, one region at a time. Nodes are taken in order; each joins the last earlier group that it
// may join, or starts its own. Then groups join groups the same way: so a loss and its gradient meet through
// the node between them. Two may join if no path of dependences leads from one to the other through a third.
// Afterwards the groups are put into an order that respects all dependences.
#include <fmt/format.h>

#include <algorithm>

#include "ir/merge.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

// True if `later` must stay behind `earlier`: one of them writes what the other reads or writes.
bool depends(const ir::Graph& graph, const Node& earlier, const Node& later) {
  for (Use output : earlier.outputs) {
    if (touches(graph, later.inputs, output) || touches(graph, later.outputs, output)) return true;
  }
  return std::ranges::any_of(later.outputs,
                             [&](Use output) { return touches(graph, earlier.inputs, output); });
}

// A value the size of the whole iteration space: reading it once instead of twice is worth a fusion.
bool is_full_size(const ir::Graph& graph, const Node& node, Use use) {
  int64_t space = 1;
  for (size_t s = 0; s < node.body->spaces.size(); ++s) {
    space = std::max(space, element_count(node.body->space_shape(static_cast<int>(s))));
  }
  return node.body->row_count() > 1 &&
         element_count(graph.value(use).shape) >= node.body->row_count() * space;
}

// One thread's work: what it costs is being launched.
bool is_scalar(const Node& node) {
  return node.body->row_count() == 1 && node.body->spaces.empty();
}

bool worthwhile(const ir::Graph& graph, const Node& group, const Node& node) {
  const bool both_scalar = is_scalar(group) && is_scalar(node);
  return std::ranges::any_of(node.inputs, [&](Use input) {
    if (input.value == ir::kNoValue) return false;
    return std::ranges::count(group.outputs, input) > 0 ||
           (std::ranges::count(group.inputs, input) > 0 && (both_scalar || is_full_size(graph, node, input)));
  });
}

// True if a single kernel would lose an order: `node` overwrites what the group reads or writes, or reads
// through another value what the group writes. Scalars are an exception: a kernel reads all of them before it
// writes one.
bool conflicts(const ir::Graph& graph, const Node& group, const Node& node) {
  const bool both_scalar = is_scalar(group) && is_scalar(node);
  const bool overwrites = std::ranges::any_of(node.outputs, [&](Use output) {
    const bool is_read = touches(graph, group.inputs, output);
    const bool in_place = both_scalar && std::ranges::count(group.inputs, output) > 0;
    return (is_read && !in_place) || touches(graph, group.outputs, output);
  });
  return overwrites || std::ranges::any_of(node.inputs, [&](Use input) {
           return input.value != ir::kNoValue && touches(graph, group.outputs, input) &&
                  std::ranges::count(group.outputs, input) == 0;
         });
}

// An op may ask for a kernel of its own.
bool is_alone(const Node& node) {
  return node.optional_flag("alone");
}

class RegionFusion {
 public:
  RegionFusion(const ir::Graph& graph, ir::Region& region)
      : graph_(graph), region_(region), nodes_(region.nodes) {}

  void run(const std::string& where, Log& log) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      groups_.push_back({nodes_[n], {n}});
      if (join_earlier(groups_.size() - 1, where, log)) groups_.pop_back();
    }
    for (size_t g = 0; g < groups_.size();) {
      if (join_earlier(g, where, log)) {
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(g));
        g = 0;  // what has grown may be joined by others now
      } else {
        ++g;
      }
    }
    region_.nodes = sorted();
  }

 private:
  struct Group {
    Node node;                    // what its members have merged to
    std::vector<size_t> members;  // ascending positions in the region
  };

  // Adds what group `n` does to the last group before it that can take it.
  bool join_earlier(size_t n, const std::string& where, Log& log) {
    const Group& added = groups_[n];
    for (size_t g = n; g-- > 0;) {
      Group& group = groups_[g];
      if (group.node.op != ir::Op::fused || added.node.op != ir::Op::fused || is_alone(group.node) ||
          is_alone(added.node) || !worthwhile(graph_, group.node, added.node))
        continue;
      if (conflicts(graph_, group.node, added.node) || depends_on(group, added)) continue;
      if (reached_through_another(g, n) || reached_through_another(n, g)) continue;
      std::optional<Node> both = ir::merged(group.node, added.node);
      if (!both) continue;
      const std::string name = std::get<std::string>(group.node.attributes.at("name"));
      const std::string more = std::get<std::string>(added.node.attributes.at("name"));
      log.push_back({"fuse", fmt::format("{}: {} + {}", where, name, more)});
      both->attributes["name"] = name + "+" + more;
      group.node = std::move(*both);
      group.members.insert(group.members.end(), added.members.begin(), added.members.end());
      std::ranges::sort(group.members);
      return true;
    }
    return false;
  }

  bool depends_on(const Group& later, const Group& earlier) const {
    for (size_t i : earlier.members) {
      for (size_t j : later.members) {
        if (i < j && depends(graph_, nodes_[i], nodes_[j])) return true;
      }
    }
    return false;
  }

  // True if a path of dependences leads from one group to the other through a third.
  bool reached_through_another(size_t from, size_t to) const {
    std::vector<size_t> reached = {from};
    for (size_t at = 0; at < reached.size(); ++at) {
      for (size_t h = 0; h < groups_.size(); ++h) {
        if (h == to || std::ranges::count(reached, h) || !depends_on(groups_[h], groups_[reached[at]]))
          continue;
        reached.push_back(h);
        if (depends_on(groups_[to], groups_[h])) return true;
      }
    }
    return false;
  }

  // The first group, by its first member, all of whose predecessors stand already.
  std::vector<Node> sorted() const {
    std::vector<Node> order;
    std::vector<bool> placed(groups_.size(), false);
    while (order.size() < groups_.size()) {
      for (size_t g = 0; g < groups_.size(); ++g) {
        auto waits_for = [&](size_t h) { return !placed[h] && h != g && depends_on(groups_[g], groups_[h]); };
        bool waits = placed[g];
        for (size_t h = 0; h < groups_.size() && !waits; ++h) waits = waits_for(h);
        if (waits) continue;
        placed[g] = true;
        order.push_back(groups_[g].node);
        break;
      }
    }
    return order;
  }

  const ir::Graph& graph_;
  ir::Region& region_;
  const std::vector<Node> nodes_;
  std::vector<Group> groups_;
};

}  // namespace

void fuse(ir::Graph& graph, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      RegionFusion(graph, region).run(function.name + "." + region.name, log);
    }
  }
}

}  // namespace hydrac::passes
