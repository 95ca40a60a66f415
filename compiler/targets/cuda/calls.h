// The calls of a compiled program for a GPU, resolved: every pointer, kernel, matmul and attention plan that
// each takes. Nothing is looked up while they run.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "program/queues.h"
#include "runtime/cuda/exchange/communicator.h"
#include "runtime/cudnn/attention.h"
#include "targets/cuda/kernels.h"
#include "targets/cuda/machine.h"
#include "targets/cuda/matmuls.h"

namespace hydrac::targets {

struct ResolvedCall {
  const program::Section* section = nullptr;
  const program::Call* call = nullptr;
  int layer = 0;
  std::vector<program::Access> accesses = {};
  const runtime::cuda::Gemm* matmul = nullptr;  // of a matmul by the library
  std::function<void(const runtime::cuda::Stream&)> enqueue = {};
};

class ResolvedCalls {
 public:
  // Operations of the program on its ranks: CudaStepProgram's functions of these names.
  struct Ranks {
    std::function<void(const runtime::Collective&, std::span<const runtime::cuda::Elements>,
                       const runtime::cuda::Stream&)>
        run;
    std::function<void()> await_sums;
  };
  // `arena`: the program's memory on the machine's GPU. All of these must outlive this. Planning attention
  // may overwrite the arena, on `stream`.
  ResolvedCalls(const driver::Compiled& compiled, runtime::cuda::DeviceRange arena, CudaMachine& machine,
                const LoadedKernels& kernels, const Matmuls& matmuls, const runtime::cuda::Stream& stream,
                Ranks ranks);

  ResolvedCalls(const ResolvedCalls&) = delete;
  ResolvedCalls& operator=(const ResolvedCalls&) = delete;

  // The calls of a function, in the order in which they run.
  const std::vector<ResolvedCall>& of(const std::string& function) const { return functions_.at(function); }

  // Puts one on a stream.
  void enqueue(const ResolvedCall& call, const runtime::cuda::Stream& stream) const;
  // Enqueues a function's calls on a stream for each queue. The side streams fork from the main one at the
  // start and join it at the end.
  using Streams = std::array<const runtime::cuda::Stream*, program::kQueues>;
  void enqueue(const std::string& function, const Streams& streams) const;

 private:
  using Enqueue = std::function<void(const runtime::cuda::Stream&)>;
  // Resolves a call whose tensors are at `accesses` of the arena.
  Enqueue resolve(const ResolvedCall& call, runtime::cuda::DeviceRange arena,
                  const runtime::cuda::Stream& stream) const;
  Enqueue launch(const program::Launch& launch, std::vector<void*> arguments, int layer) const;
  Enqueue multiply(const program::Gemm& gemm, const runtime::cuda::Gemm& planned,
                   const std::vector<void*>& arguments) const;
  Enqueue attend(const program::Attention& attention, runtime::cudnn::Plan plan,
                 const std::vector<void*>& arguments) const;
  Enqueue collective(const program::Collective& work, const program::Call& call,
                     const std::vector<void*>& arguments) const;

  const driver::Compiled& compiled_;
  CudaMachine& machine_;
  const LoadedKernels& kernels_;
  Ranks ranks_;
  std::map<std::string, std::vector<ResolvedCall>> functions_;
};

}  // namespace hydrac::targets
