#include "codegen/kernel_source.h"

namespace hydrac::codegen {

void KernelSource::take(const std::string& type, const std::string& tensor, const ir::Shape& shape,
                        ir::Use use, bool is_restricted) {
  text.take(type, tensor, shape, is_restricted);
  arguments.push_back(use);
  parameters.push_back(tensor);
}

void KernelSource::read(const ir::Graph& graph, const std::string& tensor, ir::Use use) {
  const ir::Value& value = graph.value(use);
  take(fmt::format("const {}*", c_type(value.dtype, *dialect)), tensor, value.shape, use);
}

void KernelSource::write(const ir::Graph& graph, const std::string& tensor, ir::Use use) {
  const ir::Value& value = graph.value(use);
  take(fmt::format("{}*", c_type(value.dtype, *dialect)), tensor, value.shape, use);
}

}  // namespace hydrac::codegen
