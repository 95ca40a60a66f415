#include "codegen/cuda_library.h"
#include <stdexcept>
namespace hydrac::codegen {
CudaKernels cuda_library_kernels(const ir::Graph&, const ir::Node& node, const targets::Target&) {
  throw std::logic_error("no cuda kernel for " + node.op);
}
std::string cuda_includes() { return ""; }
}
