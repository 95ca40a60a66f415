#include "emit/kernels/workspace_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/cuda/kernel.h"
#include "ir/words.h"

namespace hydrac::emit {

namespace {

bool asserts_workspace(const program::Kernel& kernel) {
  return std::ranges::any_of(kernel.bounds,
                             [](const auto& bound) { return ir::has_word(bound, codegen::kWorkspaceBytes); });
}

// The smallest one that calls of a kernel pass, in bytes.
int64_t workspace_bytes(const driver::Compiled& compiled, int index) {
  const auto& parameters = compiled.program.kernels[static_cast<size_t>(index)].parameters;
  const auto place =
      std::ranges::find(parameters, "workspace", &program::Parameter::name) - parameters.begin();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const program::Function& function : compiled.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        const auto* launch = std::get_if<program::Launch>(&call.work);
        if (!launch || launch->kernel != index) continue;
        const ir::Value& value = compiled.graph.value(call.arguments[static_cast<size_t>(place)]);
        least = std::min(least, element_count(value.shape) * static_cast<int64_t>(size_of(value.dtype)));
      }
    }
  }
  return least;
}

}  // namespace

std::string workspace_constant(const program::Kernel& kernel) {
  return "workspace_bytes::" + kernel.name;
}

std::string workspace_constants(const driver::Compiled& compiled) {
  std::string constants;
  const std::vector<program::Kernel>& kernels = compiled.program.kernels;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (asserts_workspace(kernels[k]))
      constants += fmt::format("inline constexpr std::int64_t {} = {};\n", kernels[k].name,
                               workspace_bytes(compiled, static_cast<int>(k)));
  }
  if (constants.empty()) return "";
  return fmt::format(
      "// Bytes of memory.h's workspaces, where kernels leave partial sums and the like.\n"
      "namespace workspace_bytes {{\n\n{}\n}}  // namespace workspace_bytes\n\n",
      constants);
}

}  // namespace hydrac::emit
