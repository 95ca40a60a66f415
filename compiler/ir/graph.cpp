#include "ir/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace hydrac::ir {

std::string_view to_string(Role role) {
  static constexpr std::string_view names[] = {"input",           "constant",     "parameter", "frozen",
                                               "gradient",        "working_copy", "divided",   "master",
                                               "optimizer_state", "state",        "activation"};
  return names[static_cast<int>(role)];
}

namespace {

template <typename T>
T attribute(const Node& node, const std::string& key) {
  auto found = node.attributes.find(key);
  if (found == node.attributes.end())
    throw std::logic_error(fmt::format("{}: no attribute {}", to_string(node.op), key));
  return std::get<T>(found->second);
}

}  // namespace

bool Node::flag(const std::string& key) const {
  return attribute<bool>(*this, key);
}
bool Node::optional_flag(const std::string& key) const {
  return attributes.contains(key) && flag(key);
}
int64_t Node::integer(const std::string& key) const {
  return attribute<int64_t>(*this, key);
}
double Node::number(const std::string& key) const {
  return attribute<double>(*this, key);
}

ValueId Graph::add(Value value) {
  value.id = static_cast<ValueId>(values.size());
  values.push_back(std::move(value));
  return values.back().id;
}

Function& Graph::function(const std::string& name) {
  for (Function& function : functions) {
    if (function.name == name) return function;
  }
  throw std::logic_error("no function " + name);
}

const Function& Graph::function(const std::string& name) const {
  return const_cast<Graph*>(this)->function(name);
}

ValueId Graph::find(const std::string& name) const {
  for (const Value& value : values) {
    if (value.name == name) return value.id;
  }
  return kNoValue;
}

std::vector<ValueId> Graph::reported() const {
  std::vector<ValueId> values;
  const auto add = [&](ValueId value) {
    if (value != kNoValue) values.push_back(value);
  };
#define HYDRAC_RESULT(name) add(results.name);
#include "runtime/program/ports.def"
  for (const Metric& metric : metrics) add(metric.value);
  return values;
}

ValueId storage_of(const Graph& graph, ValueId id) {
  while (graph.value(id).view) id = graph.value(id).view->base;
  return id;
}

View resolved_view(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.view) return {id, 0, 0, contiguous_strides(value.shape)};
  // Inner views keep their strides: a view's strides are always in elements of the storage.
  View view = *value.view;
  while (graph.value(view.base).view) {
    const View& outer = *graph.value(view.base).view;
    view.offset += outer.offset;
    if (view.slot_stride == 0) {
      view.slot_stride = outer.slot_stride;
      view.base_slot = outer.base_slot;
    } else if (outer.slot_stride != 0) {
      view.offset += view.base_slot * outer.slot_stride;
      view.base_slot = outer.base_slot;
    }
    view.base = outer.base;
  }
  return view;
}

Slot storage_slot(const Graph& graph, Use use) {
  const View view = resolved_view(graph, use.value);
  return view.slot_stride != 0 ? Slot{false, view.base_slot} : use.slot;
}

namespace {

struct AttributeText {
  std::string operator()(const std::shared_ptr<const functions::Function>& function) const {
    return function->name;
  }
  std::string operator()(const std::vector<double>& numbers) const {
    return fmt::format("[{}]", fmt::join(numbers, ", "));
  }
  template <class T>
  std::string operator()(const T& value) const {
    return fmt::format("{}", value);
  }
};

std::string attribute_text(const Attribute& attribute) {
  return std::visit(AttributeText{}, attribute);
}

std::string value_text(const Graph& graph, const Value& value) {
  std::string text = fmt::format("  {} {} {}", value.name, to_string(value.dtype), symbols_of(value.shape));
  if (!value.shape.empty()) text += " = " + sizes_of(value.shape);
  if (value.slots != 1) text += fmt::format(" x {}", value.slots);
  text += fmt::format(" {}", to_string(value.role));
  if (value.view) {
    const Value& base = graph.value(value.view->base);
    text += " in " + base.name;
    if (value.view->slot_stride != 0 && base.slots > 1) text += fmt::format("[{}]", value.view->base_slot);
    text += fmt::format(" at {}", value.view->offset);
  }
  return text + "\n";
}

}  // namespace

std::string to_text(const Graph& graph, Use use) {
  if (use.value == kNoValue) return "-";
  const Value& value = graph.value(use);
  if (use.slot.per_layer) {
    if (use.slot.index == 0) return value.name + "[l]";
    return fmt::format("{}[l{:+}]", value.name, use.slot.index);
  }
  return value.slots == 1 ? value.name : fmt::format("{}[{}]", value.name, use.slot.index);
}

Node epilogue_of(const Node& matmul) {
  Node epilogue = matmul;
  epilogue.op = Op::fused;
  epilogue.inputs.push_back(matmul.matmul);
  return epilogue;
}

std::string to_text(const Graph& graph, const Node& node) {
  std::string text;
  for (Use output : node.outputs) text += (text.empty() ? "" : ", ") + to_text(graph, output);
  text += " = " + to_string(node.op) + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + to_text(graph, node.inputs[i]);
  text += ")";
  if (node.matmul.value != kNoValue) text += " of " + to_text(graph, node.matmul);
  for (const auto& [key, attribute] : node.attributes)
    text += fmt::format(" {}={}", key, attribute_text(attribute));
  if (!node.scope.empty()) text += "  # " + node.scope;
  return text;
}

std::string to_text(const Graph& graph) {
  std::string text = "values\n";
  for (const Value& value : graph.values) text += value_text(graph, value);
  for (const Function& function : graph.functions) {
    text += fmt::format("\nfunction {}\n", function.name);
    for (const Region& region : function.regions) {
      text += fmt::format("  region {}", region.name);
      if (region.layers > 0) {
        text += region.reverse ? fmt::format(" for l = {}..0", region.layers - 1)
                               : fmt::format(" for l = 0..{}", region.layers - 1);
      }
      if (region.first_layer > 0) text += fmt::format(", layers from {} on", region.first_layer);
      text += "\n";
      for (const Node& node : region.nodes) {
        text += "    " + to_text(graph, node) + "\n";
        if (node.body) text += to_text(*node.body);
      }
    }
  }
  return text;
}

}  // namespace hydrac::ir
