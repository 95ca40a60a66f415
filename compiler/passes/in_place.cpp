#include <fmt/format.h>

#include <algorithm>

#include "passes/matmul_epilogue.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;
using ir::ValueId;

// The uses of a value: everything in_place needs to know about its life.
struct Life {
  const ir::Region* region = nullptr;  // the one region that uses it, null when there are several
  ir::Slot slot;                       // the one slot expression it is used with
  bool simple = true;                  // one region, one slot expression
  const Node* last_reader = nullptr;
  int writers = 0;
};

std::map<ValueId, Life> lives(const ir::Graph& graph) {
  std::map<ValueId, Life> result;
  for_each_use(graph, [&](const ir::Region& region, const Node& node, Use use, bool is_output) {
    auto [found, is_new] = result.try_emplace(use.value);
    Life& life = found->second;
    if (is_new) {
      life.region = &region;
      life.slot = use.slot;
    }
    if (life.region != &region || life.slot != use.slot) life.simple = false;
    if (is_output) ++life.writers;
    if (!is_output) life.last_reader = &node;
  });
  return result;
}

// True if `out` may share the memory of `in`. In the stage of a store to `out`, each (row, column) may load
// from `in` only the element that it stores; later stages may load nothing from `in`.
bool order_allows(const ir::Body& body, int in, int out) {
  const std::vector<ir::Dependence> deps = dependences(body);
  const std::vector<bool> live = live_expressions(body);
  int last_load = 0, first_store = 1 << 20;
  std::set<ir::Index> stored;
  for (const ir::Store& store : body.stores) {
    if (store.operand != out) continue;
    if (store.kind != ir::StoreKind::store) return false;
    first_store = std::min(first_store, deps[store.value].level);
    stored.insert(store.index);
  }
  // Operands of an expression of level L are loaded again in every stage up to the last that uses it.
  std::vector<int> last_use(body.exprs.size(), -1);
  auto note = [&](ir::ExprId id, int level) { last_use[id] = std::max(last_use[id], level); };
  for (const ir::Store& store : body.stores) note(store.value, deps[store.value].level);
  for (size_t i = body.exprs.size(); i-- > 0;) {
    if (!live[i]) continue;
    const ir::Expr& expr = body.exprs[i];
    // A reduction reads its input in the stage before its value is known. A logsumexp reads it once more,
    // when that stage has stored.
    const int reduced = expr.op == ir::ExprOp::logsumexp ? deps[i].level : deps[i].level - 1;
    const int level = is_reduction(expr.op) ? reduced : std::max(last_use[i], deps[i].level);
    for (ir::ExprId arg : expr.args) note(arg, level);
    for (const ir::IndexDim& dim : expr.index) {
      if (dim.gather >= 0) note(dim.gather, level);
    }
  }
  const ir::Shape rows = body.row_shape();
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    const ir::Expr& expr = body.exprs[i];
    if (!live[i] || expr.op != ir::ExprOp::load || expr.operand != in) continue;
    // Kernels load row values before the columns of their stage.
    if (deps[i].space == ir::kRowSpace) last_use[i] = deps[i].level;
    last_load = std::max(last_load, last_use[i]);
    const bool same_element = deps[i].space == ir::kRowSpace || stored.contains(expr.index);
    if (!same_element && last_use[i] >= first_store) return false;
    for (size_t r = 0; r < rows.size(); ++r) {  // only this row's elements
      if (expr.index.size() <= r || expr.index[r].gather >= 0 ||
          expr.index[r].affine != ir::Affine::of(static_cast<int>(r)))
        return false;
    }
  }
  return last_load <= first_store;
}

// Memory that layers fetch their weights into: for two layers, and nothing that is kept may lie in it.
std::set<ValueId> fetched_weights(const ir::Graph& graph) {
  std::set<ValueId> storages;
  for_each_use(graph, [&](const ir::Region&, const Node& node, Use use, bool is_output) {
    if (is_output && node.optional_flag("weights_of_layer")) storages.insert(storage_of(graph, use.value));
  });
  return storages;
}

class InPlace {
 public:
  InPlace(ir::Graph& graph, Log& log)
      : graph_(graph), log_(log), lives_(lives(graph)), fetched_(fetched_weights(graph)) {}

  void run() {
    for (ir::Function& function : graph_.functions) {
      for (ir::Region& region : function.regions) {
        for (const Node& node : region.nodes) {
          if (node.body) try_node(node);
        }
      }
    }
  }

 private:
  void try_node(const Node& node) {
    std::set<int> taken;
    for (size_t o = 0; o < node.body->operands.size(); ++o) {
      if (node.body->operands[o].output < 0 || node.body->operands[o].input >= 0) continue;
      for (size_t i = 0; i < node.body->operands.size(); ++i) {
        const ir::Operand& in = node.body->operands[i];
        if (in.input < 0 || in.output >= 0 || taken.contains(static_cast<int>(i))) continue;
        if (node.op == ir::Op::fused_matmul && !is_elementwise(node, in)) continue;
        if (!try_pair(node, static_cast<int>(i), static_cast<int>(o))) continue;
        taken.insert(static_cast<int>(i));
        break;
      }
    }
  }

  // True if a fused matmul reads each element of the operand in the thread that may overwrite it. Other
  // operands are unsafe: all blocks read the matrices' rows, and a row's threads read shared values, without
  // waiting for each other.
  bool is_elementwise(const Node& node, const ir::Operand& in) const {
    if (in.input >= static_cast<int>(node.inputs.size())) return false;  // the matmul itself
    if (in.shape.size() < graph_.value(node.matmul).shape.size()) return false;
    const ValueId storage = storage_of(graph_, node.inputs[in.input].value);
    return std::none_of(node.inputs.begin(), node.inputs.begin() + matrix_count(node),
                        [&](Use matrix) { return storage_of(graph_, matrix.value) == storage; });
  }

  bool try_pair(const Node& node, int i, int o) {
    const Use in = node.inputs[node.body->operands[i].input],
              out = node.outputs[node.body->operands[o].output];
    if (!is_free(in, node) || !is_plain(out)) return false;
    ir::Value &from = graph_.value(in.value), &to = graph_.value(out.value);
    if (from.dtype != to.dtype || from.shape != to.shape || from.slots != to.slots || in.slot != out.slot)
      return false;
    if ((from.view && to.view) || !order_allows(*node.body, i, o)) return false;
    // The one without a place takes the other's.
    const bool follow_input = !to.view;
    ir::Value &guest = follow_input ? to : from, &host = follow_input ? from : to;
    if (host.view && is_viewed(guest.id)) return false;  // its parts count on contiguous memory
    guest.view = host.view ? *host.view : ir::View{host.id, 0, 0, contiguous_strides(host.shape)};
    log_.push_back({"in place", fmt::format("{} lies where {} lies", to.name, from.name)});
    return true;
  }

  // An activation of one iteration whose last reader is `node`, and whose memory no other part shares.
  bool is_free(Use use, const Node& node) const {
    if (use.value == ir::kNoValue || fetched_.contains(storage_of(graph_, use.value))) return false;
    const Life& life = lives_.at(use.value);
    return is_plain(use) && life.simple && life.last_reader == &node && !is_viewed(use.value) &&
           !is_read_as_a_whole(use.value, node);
  }

  // True if somebody reads the tensor that this value is a part of, behind `node` or in another region.
  bool is_read_as_a_whole(ValueId part, const Node& node) const {
    const ValueId storage = storage_of(graph_, part);
    const auto whole = lives_.find(storage);
    if (storage == part || whole == lives_.end() || !whole->second.last_reader) return false;
    const Life& life = whole->second;
    return !life.simple || life.region != lives_.at(part).region || life.last_reader > &node;
  }

  // Not a part of a tensor that others know whole.
  bool is_plain(Use use) const {
    const ir::Value& value = graph_.value(use);
    return value.role == ir::Role::activation && lives_.at(use.value).writers <= 1 &&
           (!value.view || value.view->slot_stride == 0);
  }

  bool is_viewed(ValueId id) const {
    return std::ranges::any_of(graph_.values,
                               [&](const ir::Value& v) { return v.view && v.view->base == id; });
  }

  ir::Graph& graph_;
  Log& log_;
  std::map<ValueId, Life> lives_;
  const std::set<ValueId> fetched_;
};

}  // namespace

void in_place(ir::Graph& graph, Log& log) {
  InPlace(graph, log).run();
}

}  // namespace hydrac::passes
