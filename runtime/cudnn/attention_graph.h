// Attention as graphs of cuDNN operations, in the form that its fused engines recognise.
#pragma once
#include "runtime/cudnn/attention.h"
#include "runtime/cudnn/graph.h"

namespace hydrac::runtime::cudnn {

// The ids of the tensors in device memory.
enum TensorId : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLse,
  kDOut,
  kDQ,
  kDK,
  kDV,
  kRowSums,  // scratch: float32 [B,H,T], sums of d_out * out
  kDQSums,   // scratch, only without determinism: float32 [B,H,T,D]
  kLengths,  // scratch, int32 [B], all equal to T: only when needs_lengths()
  kKvLengths,
};

// Scratch that the graph reads and writes beside the engine's own workspace.
std::int64_t row_sums_bytes(const AttentionProblem& problem);
std::int64_t d_q_sums_bytes(const AttentionProblem& problem);  // 0 when deterministic
std::int64_t lengths_bytes(const AttentionProblem& problem);

// Up to cuDNN 9.15.0, NVIDIA's own frontend passes the length of each batch to the gradients' engines if T is
// no multiple of 128, to get around a bug of these. So do we. (On an H200 with 9.14.0 results were right
// without, too.)
bool needs_lengths(const AttentionProblem& problem, int version);

OperationGraph forward_graph(const Library& library, abi::Handle handle, const AttentionProblem& problem);
OperationGraph backward_graph(const Library& library, abi::Handle handle, const AttentionProblem& problem,
                              bool with_lengths);

}  // namespace hydrac::runtime::cudnn
