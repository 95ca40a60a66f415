// The matmuls of a program for a GPU, each shape planned once.
#pragma once
#include <map>
#include <string>

#include "program/program.h"
#include "runtime/cuda/gemm/gemm.h"

namespace hydrac::targets {

// std::logic_error for integers, which no library computes with.
runtime::cuda::ElementType element_type(ir::DType dtype);

class Matmuls {
 public:
  // Chooses the algorithms of all of a program's matmuls: from the cache, or measured on `stream` with
  // operands in `scratch` (overwritten) if they fit there. `gemms` must outlive this.
  Matmuls(const program::Program& program, bool tf32, runtime::cuda::GemmLibrary& gemms,
          const runtime::cuda::Stream& stream, runtime::cuda::DeviceRange scratch);

  // The plan of a program::shape_at(). Lives as long as this; exchange() replaces its contents.
  const runtime::cuda::Gemm& at(const program::GemmShape& shape) const { return plans_.at(shape); }

  // The matmul of this GemmProblem::text() takes another algorithm, as GemmLibrary::plan_as().
  void exchange(const std::string& problem, const std::string& words);

 private:
  runtime::cuda::GemmLibrary& gemms_;
  std::map<program::GemmShape, runtime::cuda::Gemm> plans_;
};

}  // namespace hydrac::targets
