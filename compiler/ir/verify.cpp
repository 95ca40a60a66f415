#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/graph.h"

namespace hydrac::ir {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    for (const Value& value : graph_.values) check_view(value);
    for (const Function& function : graph_.functions) {
      written_.clear();
      for (const Region& region : function.regions) {
        for (const Node& node : region.nodes) collect(node);
      }
      for (const Region& region : function.regions) {
        for (const Node& node : region.nodes) check(function, region, node);
      }
    }
    return std::move(problems_);
  }

 private:
  void problem(const std::string& text) { problems_.push_back(text); }

  void check_view(const Value& value) {
    if (!value.view) return;
    if (value.view->strides.size() != value.shape.size())
      problem(value.name + ": its view has other dimensions");
    const View view = resolved_view(graph_, value.id);
    const Value& storage = graph_.value(view.base);
    int64_t last = view.offset + view.slot_stride * (value.slots - 1);
    for (size_t d = 0; d < value.shape.size() && d < view.strides.size(); ++d)
      last += (value.shape[d].size - 1) * view.strides[d];
    if (view.base_slot < 0 || view.base_slot >= storage.slots)
      problem(fmt::format("{} lies in a slot that {} does not have", value.name, storage.name));
    if (last >= element_count(storage.shape))
      problem(fmt::format("{} reaches past the end of {}", value.name, storage.name));
  }

  void collect(const Node& node) {
    for (Use output : node.outputs) written_.insert(storage_of(graph_, output.value));
  }

  void check(const Function& function, const Region& region, const Node& node) {
    const std::string where = fmt::format("{}.{}: {}: ", function.name, region.name, to_string(node.op));
    for (Use use : node.inputs) {
      if (use.value == kNoValue) continue;
      check_slot(where, region, use);
      const Value& storage = graph_.value(storage_of(graph_, use.value));
      if (storage.role == Role::activation && !written_.contains(storage.id))
        problem(where + "nobody writes " + graph_.value(use).name);
    }
    for (Use use : node.outputs) check_slot(where, region, use);
    if (node.op == Op::fused) check_body(where, node);
    if (node.op == Op::fused_matmul) check_body(where, epilogue_of(node));
  }

  void check_slot(const std::string& where, const Region& region, Use use) {
    const Value& value = graph_.value(use);
    const int first = use.slot.index, last = use.slot.index + (use.slot.per_layer ? region.layers - 1 : 0);
    if (use.slot.per_layer && region.layers == 0)
      problem(where + "a layer's slot outside a loop: " + value.name);
    if (first < 0 || last >= value.slots)
      problem(fmt::format("{}{} has no slot {}", where, value.name, first < 0 ? first : last));
  }

  void check_index(const std::string& where, const Body& body, int operand, const Index& index) {
    const Operand& tensor = body.operands[operand];
    if (index.size() != tensor.shape.size()) {
      problem(fmt::format("{}operand {} has {} dimensions, its index {}", where, operand, tensor.shape.size(),
                          index.size()));
      return;
    }
    for (size_t d = 0; d < index.size(); ++d) {
      const auto [low, high] = range_of(body, index[d].affine);
      if (index[d].gather < 0 && (low < 0 || high >= tensor.shape[d].size)) {
        problem(fmt::format("{}operand {} dimension {} is indexed from {} to {}, its size is {}", where,
                            operand, d, low, high, tensor.shape[d].size));
      }
    }
  }

  void check_body(const std::string& where, const Node& node) {
    const Body& body = *node.body;
    const std::vector<Dependence> deps = dependences(body);
    const std::vector<bool> live = live_expressions(body);
    for (size_t i = 0; i < body.exprs.size(); ++i) {
      const Expr& expr = body.exprs[i];
      if (!live[i]) continue;
      for (ExprId arg : expr.args) {
        if (arg >= static_cast<ExprId>(i))
          problem(fmt::format("{}expression {} comes before its argument", where, i));
        const int space = is_reduction(expr.op) ? expr.space : deps[i].space;
        if (deps[arg].space != kRowSpace && deps[arg].space != space)
          problem(fmt::format("{}expression {} mixes column spaces", where, i));
      }
      if (expr.op != ExprOp::load) continue;
      if (body.operands[expr.operand].input < 0)
        problem(fmt::format("{}expression {} loads what is no input", where, i));
      check_index(where, body, expr.operand, expr.index);
    }
    for (const Store& store : body.stores) {
      if (body.operands[store.operand].output < 0) problem(where + "a store to what is no output");
      if (deps[store.value].space != kRowSpace && deps[store.value].space != store.space)
        problem(where + "a store mixes column spaces");
      check_index(where, body, store.operand, store.index);
    }
    for (const Operand& operand : body.operands) {
      if (operand.input >= static_cast<int>(node.inputs.size()) ||
          operand.output >= static_cast<int>(node.outputs.size())) {
        problem(where + "an operand the node does not have");
      }
    }
  }

  const Graph& graph_;
  std::set<ValueId> written_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph) {
  return Verifier(graph).run();
}

}  // namespace hydrac::ir
