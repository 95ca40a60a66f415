#include <fmt/format.h>

#include <stdexcept>

#include "passes/passes.h"

namespace hydrac::passes {

namespace {

// Places `parts` side by side in the last dimension of `packed` [B,T,W], or of each head of it.
void place(ir::Graph& graph, ir::Use packed, const std::vector<ir::Use>& parts, bool by_head, Log& log) {
  const ir::Shape shape = graph.value(packed).shape;
  const int64_t width = shape.back().size, kinds = static_cast<int64_t>(parts.size());
  int64_t offset = 0;
  for (ir::Use part : parts) {
    ir::Value& value = graph.value(part.value);
    if (value.view || part.slot != packed.slot || value.slots != graph.value(packed).slots) {
      throw std::logic_error(fmt::format("{} cannot be a part of {}", value.name, graph.value(packed).name));
    }
    value.view = ir::View{packed.value, offset, 0, {shape[1].size * width, width}};
    if (value.shape.size() == 4) value.view->strides.push_back(value.shape[3].size * (by_head ? kinds : 1));
    value.view->strides.push_back(1);
    const int64_t columns =
        by_head ? value.shape[3].size : ir::element_count({value.shape.begin() + 2, value.shape.end()});
    log.push_back(
        {"layout", fmt::format("{} is columns {} to {} of {}{}", value.name, offset, offset + columns - 1,
                               by_head ? "each head of " : "", graph.value(packed).name)});
    offset += columns;
  }
}

}  // namespace

void layout(ir::Graph& graph, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        const bool by_head = node.optional_flag("by_head");
        if (node.op == ir::Op::split_qkv) place(graph, node.inputs[0], node.outputs, by_head, log);
        if (node.op == ir::Op::join_qkv) place(graph, node.outputs[0], node.inputs, by_head, log);
      }
      std::erase_if(region.nodes,
                    [](const ir::Node& n) { return n.op == ir::Op::split_qkv || n.op == ir::Op::join_qkv; });
    }
  }
}

}  // namespace hydrac::passes
