#include "codegen/kernel_source.h"

namespace hydrac::codegen {

void KernelSource::take(Parameter parameter, ir::Use use) {
  arguments.push_back(use);
  parameters.push_back(parameter.name);
  text.parameters.push_back(std::move(parameter));
}

void KernelSource::read(const ir::Graph& graph, std::string_view type, const std::string& name, ir::Use use) {
  write(graph, fmt::format("const {}", type), name, use);
}

void KernelSource::write(const ir::Graph& graph, std::string_view type, const std::string& name,
                         ir::Use use) {
  take({fmt::format("{}*", type), name, graph.value(use).shape}, use);
}

}  // namespace hydrac::codegen
