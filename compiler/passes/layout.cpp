#include <fmt/format.h>

#include <stdexcept>

#include "passes/passes.h"

namespace hydrac::passes {

namespace {

// Places `parts` side by side in the last dimension of `packed` [B,T,W].
void place(ir::Graph& graph, ir::Use packed, const std::vector<ir::Use>& parts, Log& log) {
  const ir::Shape shape = graph.value(packed).shape;
  const int64_t width = shape.back().size;
  int64_t offset = 0;
  for (ir::Use part : parts) {
    ir::Value& value = graph.value(part.value);
    if (value.view || part.slot != packed.slot || value.slots != graph.value(packed).slots) {
      throw std::logic_error(fmt::format("{} cannot be a part of {}", value.name, graph.value(packed).name));
    }
    value.view = ir::View{packed.value, offset, 0, {shape[1].size * width, width}};
    if (value.shape.size() == 4) value.view->strides.push_back(value.shape[3].size);
    value.view->strides.push_back(1);
    const int64_t columns = ir::element_count({value.shape.begin() + 2, value.shape.end()});
    log.push_back({"layout", fmt::format("{} is columns {} to {} of {}", value.name, offset,
                                         offset + columns - 1, graph.value(packed).name)});
    offset += columns;
  }
}

}  // namespace

void layout(ir::Graph& graph, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op == ir::Op::split_qkv) place(graph, node.inputs[0], node.outputs, log);
        if (node.op == ir::Op::join_qkv) place(graph, node.outputs[0], node.inputs, log);
      }
      std::erase_if(region.nodes,
                    [](const ir::Node& n) { return n.op == ir::Op::split_qkv || n.op == ir::Op::join_qkv; });
    }
  }
}

}  // namespace hydrac::passes
