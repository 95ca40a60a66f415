#include "emit/emit.h"

#include <fmt/format.h>

#include "emit/calls.h"
#include "emit/kernels.h"
#include "emit/memory.h"

namespace hydrac::emit {

Files emit(const driver::Compiled& compiled, const EmitOptions& options) {
  (void)options;
  const Dimensions dimensions(compiled.graph);
  const Tensors tensors(compiled, dimensions);
  Files files;
  files["memory.h"] = memory_header(compiled, tensors);
  files["memory.cpp"] = memory_source(compiled, dimensions, tensors);
  files["kernels/kernels.h"] = kernel_declarations(compiled);
  for (const auto& [file, kernels] : kernel_files(compiled.program))
    files["kernels/" + file + ".cu"] = kernel_definitions(compiled, kernels);
  for (const program::Function& function : compiled.program.functions) {
    const CallText text(compiled, dimensions, tensors, function);
    std::string& file = files[function.name + ".cpp"];
    for (size_t s = 0; s < function.sections.size(); ++s) file += text.definition(static_cast<int>(s)) + "\n";
    for (size_t s = 0; s < function.sections.size(); ++s) file += text.statement(static_cast<int>(s));
  }
  return files;
}

}  // namespace hydrac::emit
