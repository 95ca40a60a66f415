// Generated C++ compiled by the compiler that built the tests, and loaded; and single kernels of it run
// beside ir::evaluate on the same random tensors.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "codegen/cpu/program.h"
#include "interpreter.h"

namespace hydrac::test {

using Launch = void (*)(void* const* arguments, int layer, int64_t rows);

// The 32 bits that hold a number in memory.
uint32_t word_of(ir::DType dtype, double x);

class CompiledKernels {
 public:
  // Throws with the compiler's messages and the source when it does not compile.
  explicit CompiledKernels(const std::string& source);
  ~CompiledKernels();
  CompiledKernels(const CompiledKernels&) = delete;
  CompiledKernels& operator=(const CompiledKernels&) = delete;

  Launch find(const std::string& kernel) const;

 private:
  void* library_ = nullptr;
};

// The tensors of one kernel call as memory of its own, float32 or integers: one buffer a storage and
// slot, so that what shares memory in the program shares it here, with guards before and behind.
class KernelMemory {
 public:
  // Takes what `state` holds.
  KernelMemory(const ir::Graph& graph, Interpreter& state, const program::Call& call, int layer);

  void run(Launch launch, int layer);

  // Differences to what `state` holds now, one line each, at most a few: values beyond the tolerance, guards
  // overwritten.
  std::vector<std::string> compare(Interpreter& state) const;
  // All bytes, to compare runs.
  std::string bytes() const;

 private:
  struct Buffer {
    ir::Use use;  // the storage's slot, by one of its uses
    std::vector<std::byte> bytes;
  };
  static constexpr size_t kGuard = 256;                // bytes
  static constexpr auto kGuardByte = std::byte{0xFF};  // four of them are a NaN

  const ir::Graph& graph_;
  int layer_;
  int64_t rows_;
  std::map<const std::vector<double>*, Buffer> buffers_;
  std::vector<void*> arguments_;
};

}  // namespace hydrac::test
