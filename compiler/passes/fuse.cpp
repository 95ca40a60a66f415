// Greedy fusion, one region at a time. Nodes are taken in order; each joins the last earlier group that it may join,
// or starts its own. Joining is legal when no path of dependences leads from the group to the node through another
// group; afterwards the groups are put into an order that respects all dependences.
#include <fmt/format.h>

#include <algorithm>

#include "ir/merge.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

bool touches(const ir::Graph& graph, const std::vector<Use>& uses, Use use) {
  return std::ranges::any_of(uses, [&](Use other) {
    return other.value != ir::kNoValue && may_overlap(graph, other, use);
  });
}

// Whether `later` must stay behind `earlier`: one of them writes what the other reads or writes.
bool depends(const ir::Graph& graph, const Node& earlier, const Node& later) {
  for (Use output : earlier.outputs) {
    if (touches(graph, later.inputs, output) || touches(graph, later.outputs, output)) return true;
  }
  return std::ranges::any_of(later.outputs, [&](Use output) { return touches(graph, earlier.inputs, output); });
}

// A value the size of the whole iteration space: reading it once instead of twice is worth a fusion.
bool is_full_size(const ir::Graph& graph, const Node& node, Use use) {
  int64_t space = 1;
  for (size_t s = 0; s < node.body->spaces.size(); ++s) {
    space = std::max(space, element_count(node.body->space_shape(static_cast<int>(s))));
  }
  return node.body->row_count() > 1 && element_count(graph.value(use).shape) >= node.body->row_count() * space;
}

bool worthwhile(const ir::Graph& graph, const Node& group, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](Use input) {
    if (input.value == ir::kNoValue) return false;
    return std::ranges::count(group.outputs, input) > 0 ||
           (std::ranges::count(group.inputs, input) > 0 && is_full_size(graph, node, input));
  });
}

// Whether `node` overwrites what the group reads or writes: inside one kernel the order would be lost.
bool overwrites(const ir::Graph& graph, const Node& group, const Node& node) {
  return std::ranges::any_of(node.outputs, [&](Use output) {
    return touches(graph, group.inputs, output) || touches(graph, group.outputs, output);
  });
}

class RegionFusion {
 public:
  RegionFusion(const ir::Graph& graph, ir::Region& region) : graph_(graph), region_(region), nodes_(region.nodes) {}

  void run(const std::string& where, Log& log) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].op != "fused" || !join(n, where, log)) groups_.push_back({nodes_[n], {n}});
    }
    region_.nodes = sorted();
  }

 private:
  struct Group {
    Node node;                    // what its members have merged to
    std::vector<size_t> members;  // ascending positions in the region
  };

  bool join(size_t n, const std::string& where, Log& log) {
    for (size_t g = groups_.size(); g-- > 0;) {
      Group& group = groups_[g];
      if (group.node.op != "fused" || !worthwhile(graph_, group.node, nodes_[n])) continue;
      if (overwrites(graph_, group.node, nodes_[n]) || reached_through_another(g, n)) continue;
      std::optional<Node> both = ir::merged(group.node, nodes_[n]);
      if (!both) continue;
      const std::string name = std::get<std::string>(group.node.attributes.at("name"));
      const std::string added = std::get<std::string>(nodes_[n].attributes.at("name"));
      log.push_back({"fuse", fmt::format("{}: {} + {}", where, name, added)});
      both->attributes["name"] = name + "+" + added;
      group.node = std::move(*both);
      group.members.push_back(n);
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

  // A path of dependences from group g to node n that is not the direct one.
  bool reached_through_another(size_t g, size_t n) const {
    std::vector<size_t> reached = {g};
    for (size_t at = 0; at < reached.size(); ++at) {
      for (size_t h = 0; h < groups_.size(); ++h) {
        if (std::ranges::count(reached, h) || !depends_on(groups_[h], groups_[reached[at]])) continue;
        reached.push_back(h);
        if (depends_on({{}, {n}}, groups_[h])) return true;
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
