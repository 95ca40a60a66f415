#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "ops/builder.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using ir::ValueId;

bool works_on_logits(const Region& region) {
  return std::ranges::any_of(region.nodes, [](const Node& node) { return node.op == ir::Op::cross_entropy; });
}

// Generated kernels add a sum over rows when it is complete. A matmul may add to C in the middle of its sum.
bool adds_whole_sums(const Node& node) {
  return node.attributes.contains("accumulate") && ops::op_info(node.op).body;
}

// The nodes that write one gradient, in the order in which they run.
struct Writer {
  size_t region = 0, node = 0;
};
using Writers = std::map<Use, std::vector<Writer>>;

class MicroBatchSums {
 public:
  MicroBatchSums(ir::Graph& graph, bool head_in_parts)
      : graph_(graph), regions_(graph.function("micro_step").regions), head_in_parts_(head_in_parts) {}

  void run(Use loss) {
    // Regions are added behind others, which does not move what is before them.
    const Writers writers = writers_of_gradients();
    for (const auto& [gradient, places] : writers) {
      Node& last = node_at(places.back());
      const bool is_split = head_in_parts_ && works_on_logits(regions_[places.back().region]);
      if (places.size() == 1 && adds_whole_sums(last) && !is_split)
        last.attributes["accumulate"] = true;
      else
        add_apart(gradient, places);
    }
    if (head_in_parts_) add_loss_apart(loss);
    insert();
  }

 private:
  Node& node_at(Writer writer) { return regions_[writer.region].nodes[writer.node]; }

  Writers writers_of_gradients() const {
    Writers writers;
    for (size_t r = 0; r < regions_.size(); ++r) {
      for (size_t n = 0; n < regions_[r].nodes.size(); ++n) {
        for (const Use output : regions_[r].nodes[n].outputs) {
          if (output.value != ir::kNoValue && graph_.value(output).role == ir::Role::gradient)
            writers[output].push_back({r, n});
        }
      }
    }
    return writers;
  }

  // The head's sums have the role of a state: they are alive across regions, and must not be taken for
  // tensors with the batch's rows, whatever their shape.
  ValueId value_apart(ValueId gradient, bool of_head) {
    auto [found, is_new] = apart_.try_emplace(gradient);
    if (is_new) {
      ir::Value value = graph_.value(gradient);
      value.name += ".of_micro_batch";
      value.role = ir::Role::activation;
      value.exact = true;
      found->second = graph_.add(std::move(value));
    }
    if (of_head) graph_.value(found->second).role = ir::Role::state;
    return found->second;
  }

  void add_apart(Use gradient, const std::vector<Writer>& places) {
    const bool of_head = std::ranges::any_of(
        places, [&](const Writer& writer) { return works_on_logits(regions_[writer.region]); });
    const Use apart{value_apart(gradient.value, of_head), gradient.slot};
    for (Region& region : regions_) {
      for (Node& node : region.nodes) {
        std::ranges::replace(node.outputs, gradient, apart);
        std::ranges::replace(node.inputs, gradient, apart);
      }
    }
    const Region& region = regions_[places.back().region];
    if (region.layers > 0 && !gradient.slot.per_layer)
      throw std::logic_error(graph_.value(gradient).name + " is written by every iteration of a loop");
    Region made;
    ops::RegionBuilder b(graph_, made);
    const Node& last = node_at(places.back());
    b.enter(last.scope, last.origin);
    b.emit_node(ir::Op::add, {gradient, apart}, {gradient}, {{"of_gradients", true}});
    place(places.back(), std::move(made.nodes[0]));
  }

  void add_loss_apart(Use loss) {
    for (size_t r = 0; r < regions_.size(); ++r) {
      for (size_t n = 0; n < regions_[r].nodes.size(); ++n) {
        Node& node = regions_[r].nodes[n];
        if (node.op != ir::Op::mean_loss || node.outputs[0] != loss || !works_on_logits(regions_[r]))
          continue;
        Region made;
        ops::RegionBuilder b(graph_, made);
        b.enter(node.scope, node.origin);
        const Use apart = b.fresh("loss.of_micro_batch", {}, ir::DType::f32, ir::Role::state);
        node.outputs[0] = apart;
        node.attributes["accumulate"] = false;
        const Node sum{.inputs = {loss, apart}, .outputs = {loss}};
        ir::BodyBuilder k(graph_, sum, {});
        k.store_row(0, k.scalar(0) + k.scalar(1));
        b.emit_body(sum, "add_loss", k.take(), "loss += the loss of this micro-batch");
        place({r, n}, std::move(made.nodes[0]));
      }
    }
  }

  // Right behind the writer, or behind its region where that is going to be a loop.
  void place(Writer writer, Node node) {
    if (works_on_logits(regions_[writer.region]))
      behind_regions_[writer.region].push_back(std::move(node));
    else
      behind_nodes_[writer.region].emplace(writer.node, std::move(node));
  }

  void insert() {
    for (auto& [r, added] : behind_nodes_) {
      std::vector<Node> nodes;
      for (size_t n = 0; n < regions_[r].nodes.size(); ++n) {
        nodes.push_back(std::move(regions_[r].nodes[n]));
        const auto [first, last] = added.equal_range(n);
        for (auto next = first; next != last; ++next) nodes.push_back(std::move(next->second));
      }
      regions_[r].nodes = std::move(nodes);
    }
    for (auto added = behind_regions_.rbegin(); added != behind_regions_.rend(); ++added) {
      Region region{regions_[added->first].name + "_sums", 0, false, true, std::move(added->second)};
      regions_.insert(regions_.begin() + static_cast<std::ptrdiff_t>(added->first) + 1, std::move(region));
    }
  }

  ir::Graph& graph_;
  std::vector<Region>& regions_;
  const bool head_in_parts_;
  std::map<ValueId, ValueId> apart_;
  std::map<size_t, std::multimap<size_t, Node>> behind_nodes_;  // region -> node -> what follows it
  std::map<size_t, std::vector<Node>> behind_regions_;
};

}  // namespace

void sum_micro_batches(ir::Graph& graph, ir::ValueId loss, bool head_in_parts) {
  MicroBatchSums(graph, head_in_parts).run({loss, {}});
}

}  // namespace hydrac::passes
