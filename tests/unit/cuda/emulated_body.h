// The kernels of one fused node, run by the emulator beside ir::evaluate on the same tensors.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "../core/interpreter.h"
#include "../cuda_emulation/emulated_kernels.h"
#include "codegen/cuda/kernel.h"

namespace hydrac::test {

// The source of kernels of a graph under the names `NAME_0`, `NAME_1`, ... behind the headers and dimensions
// that they need; it does not compile where a launch is not what its text says.
std::string cuda_source_of(const ir::Graph& graph,
                           const std::vector<std::pair<std::string, codegen::CudaKernels>>& all,
                           const targets::Target& gpu);
std::string kernel_name(const std::string& name, size_t kernel);

// The tensors that a node's kernels take, as device memory: one buffer a storage and slot, in its storage
// type, so that what shares memory in the program shares it here; with guards before and behind. The
// workspace holds NaN at the start.
class BodyMemory {
 public:
  // Takes what `state` holds.
  BodyMemory(const ir::Graph& graph, Interpreter& state, const codegen::CudaKernels& kernels, int layer);

  // Runs the kernels, each in ascending and in descending order of threads.
  void run(emulation::EmulatedKernels& compiled, const std::string& name);

  // Differences to what `state` holds now, one line each, at most a few: values beyond the tolerance, guards
  // overwritten. An element may be off by `relative` of itself and `of_scale` of its tensor's root mean
  // square.
  std::vector<std::string> compare(Interpreter& state, double relative, double of_scale) const;

 private:
  struct Buffer {
    ir::Use use;  // the storage's slot, by one of its uses
    std::vector<std::byte> bytes;
  };
  Buffer& buffer_of(ir::Use use, Interpreter& state);

  const ir::Graph& graph_;
  const codegen::CudaKernels& kernels_;
  int layer_;
  std::map<const std::vector<double>*, Buffer> buffers_;
  std::vector<std::vector<void*>> tensors_;  // by kernel
  std::vector<std::byte> workspace_;
};

}  // namespace hydrac::test
