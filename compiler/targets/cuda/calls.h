// The calls of a compiled program for a GPU, resolved: every pointer, kernel, matmul and attention plan that
// each takes. Nothing is looked up while they run.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/tensor_map.h"
#include "driver/compile.h"
#include "program/branches.h"
#include "runtime/cuda/communicator.h"
#include "runtime/cudnn/attention.h"
#include "targets/cuda/kernels.h"
#include "targets/cuda/machine.h"
#include "targets/cuda/matmuls.h"

namespace hydrac::targets {

struct ResolvedCall {
  const program::Section* section = nullptr;
  const program::Call* call = nullptr;
  int layer = 0;
  std::vector<void*> arguments = {};
  std::vector<TensorMap> maps = {};  // in place of the first arguments
  std::vector<program::Access> accesses = {};
  const runtime::cuda::Gemm* matmul = nullptr;
  std::optional<runtime::cudnn::Plan> attention = {};
  std::vector<runtime::cuda::Elements> reduced = {};       // of a sum over ranks
  std::vector<runtime::cuda::SharedElements> shared = {};  // of a call that has_parts()
};

class ResolvedCalls {
 public:
  // What the program does for its ranks: CudaStepProgram's functions of these names.
  struct Collectives {
    std::function<void(std::span<const runtime::cuda::Elements>, runtime::cuda::Reduction,
                       const runtime::cuda::Stream&, runtime::RankGroup)>
        all_reduce;
    std::function<void(const runtime::cuda::Elements& from, void* to, const runtime::cuda::Stream&)>
        sum_over_ranks;
    using WithParts = std::function<void(std::span<const runtime::cuda::SharedElements>,
                                         const runtime::cuda::Stream&, runtime::RankGroup)>;
    WithParts reduce_scatter, all_gather, own_part;
    std::function<void()> await_sums;
  };
  // `arena`: the program's memory on the machine's GPU. All of these must outlive this. Planning attention
  // may overwrite the arena, on `stream`.
  ResolvedCalls(const driver::Compiled& compiled, runtime::cuda::DeviceRange arena, CudaMachine& machine,
                const LoadedKernels& kernels, const Matmuls& matmuls, const runtime::cuda::Stream& stream,
                Collectives collectives);

  // Of a function, in the order in which they run.
  const std::vector<ResolvedCall>& of(const std::string& function) const { return functions_.at(function); }

  // Puts one on a stream.
  void enqueue(const ResolvedCall& call, const runtime::cuda::Stream& stream) const;
  // Puts a function's calls on a stream for each branch: the others fork from the first one where they begin,
  // and end joined to it.
  using Streams = std::array<const runtime::cuda::Stream*, program::kBranches>;
  void enqueue(const std::string& function, const Streams& streams) const;

 private:
  void launch(const ResolvedCall& call, const runtime::cuda::Stream& stream) const;
  void multiply(const ResolvedCall& call, const runtime::cuda::Stream& stream) const;
  void attend(const ResolvedCall& call, const runtime::cuda::Stream& stream) const;
  void reduce(const ResolvedCall& call, const runtime::cuda::Stream& stream) const;

  const driver::Compiled& compiled_;
  CudaMachine& machine_;
  const LoadedKernels& kernels_;
  Collectives collectives_;
  std::map<std::string, std::vector<ResolvedCall>> functions_;
};

}  // namespace hydrac::targets
