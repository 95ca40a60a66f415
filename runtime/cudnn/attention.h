// Scaled dot-product attention and its gradients through cuDNN 9, which is opened at run time.
//   out = softmax(scale q k^T, masked) v,  lse = log(sum(exp(scale q k^T, masked)))
// A plan is made once for a problem; running it allocates nothing, waits for nothing and can be captured in a
// CUDA graph. lse is what templates/cuda/attention computes too: either may follow the other's forward pass.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cache/recorded_choices.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"
#include "runtime/cudnn/unsupported_error.h"

namespace hydrac::runtime::cudnn {

// Elements from one batch, token and head to the next; multiples of 8. Elements of a head are contiguous. The
// tensor may be a slice of a larger one, such as q of packed qkv.
struct Strides {
  std::int64_t batch = 0, token = 0, head = 0;
  auto operator<=>(const Strides&) const = default;
};

// [batch, tokens, heads, head_dim], dense.
Strides dense(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim);

// No dropout: cuDNN's random numbers are not the ones that our other kernels draw.
struct AttentionProblem {
  std::int64_t batch = 0;     // B
  std::int64_t tokens = 0;    // T, of queries and of keys
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // K, divides H; query head h uses key and value head h / (H / K)
  std::int64_t head_dim = 0;  // D
  float scale = 0;            // usually 1 / sqrt(D)
  bool causal = true;         // token t sees tokens 0 to t
  bool bf16 = true;           // the type of all tensors but lse; else float16
  // The gradients have the same bits in every run. That takes 2 B H T T bytes of workspace, and on an H200 8
  // % (T = 1024) to 24 % (T = 4096) more time; without it, sums of d_q are taken in any order.
  bool deterministic = true;
  Strides q, out;      // [B,T,H,D]
  Strides k, v;        // [B,T,K,D]
  Strides d_out, d_q;  // as q; for backward()
  Strides d_k, d_v;    // as k
  auto operator<=>(const AttentionProblem&) const = default;
};

// Addresses on the GPU, multiples of 16.
struct ForwardPointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // [B,H,T], dense
};
struct BackwardPointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* out = nullptr;
  const void* d_out = nullptr;
  const float* lse = nullptr;
  void* d_q = nullptr;
  void* d_k = nullptr;
  void* d_v = nullptr;
};

// Why cuDNN would not do it on a GPU of this compute capability (90 is 9.0), as a sentence for the user that
// says what to change; nullopt if it should work. Needs neither cuDNN nor a GPU. The installed version may
// still have no engine for it: then forward() or backward() says so. `gradients`: for backward() too.
std::optional<std::string> unsupported_reason(const AttentionProblem& problem, int capability,
                                              bool gradients = true);

// One of cuDNN's kernels (or a few) with its settings. Belongs to the CudnnAttention that made it and may
// outlive it, but runs only on it. Copies are cheap.
class Plan {
 public:
  // Device memory that run() needs, a multiple of 256.
  std::int64_t workspace_bytes() const;
  // "engine 4 (knobs 24=6)": with the problem and the version of cuDNN it determines the results' bits.
  const std::string& engine() const;
  // "cuDNN 9.14.0 engine 4 (knobs 24=6), workspace 1.5 MiB"
  std::string description() const;

 private:
  friend class CudnnAttention;
  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// One cuDNN handle in the context that is current at its construction, which must be current in every call.
// Calls from several threads need one object each.
class CudnnAttention {
 public:
  // `recorded`: the engines to use, if cuDNN's version and the GPU are those that were recorded. `device` is
  // the context's. Plans are cached in `cache_dir` (empty: only in memory) for this version of cuDNN, the
  // driver and this GPU. InputError that says what to install if cuDNN is missing or too old, RunError if it
  // cannot start here.
  explicit CudnnAttention(const cuda::DeviceInfo& device, std::filesystem::path cache_dir = {},
                          const RecordedChoices& recorded = {});
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) noexcept;
  CudnnAttention& operator=(CudnnAttention&&) noexcept;

  // cuDNN's first choice. Made at the first call and cached. That takes about half a second for the first of
  // its kind, some milliseconds from the cache. Throws UnsupportedError with unsupported_reason() or with
  // cuDNN's words about each of its engines; RunError if cuDNN fails or the cache cannot be written.
  Plan forward(const AttentionProblem& problem);
  Plan backward(const AttentionProblem& problem);
  // The fastest of cuDNN's first few plans that need no more workspace than its first choice, for large
  // problems; the first choice for others. Measured once, with the problem's tensors in `scratch` (a multiple
  // of 256, `scratch_bytes` of it, overwritten), and cached as forward()'s plan is. If they do not fit the
  // scratch: the first choice, and nothing is cached. Throws as forward() does.
  Plan fastest_forward(const AttentionProblem& problem, const cuda::Stream& stream, std::byte* scratch,
                       std::int64_t scratch_bytes);

  // Queues the work. `workspace` is a multiple of 256 and holds workspace_bytes(). RunError if cuDNN refuses,
  // std::logic_error for a plan of the other pass and for addresses that are null or not aligned.
  void run(const Plan& plan, const ForwardPointers& pointers, void* workspace, const cuda::Stream& stream);
  void run(const Plan& plan, const BackwardPointers& pointers, void* workspace, const cuda::Stream& stream);

  // "cuDNN 9.14.0"
  std::string name() const;

  // Everything that decides how the results of the plans given so far are rounded: section "cudnn" with
  // library (name()), gpu (its name), and the engine of each graph. If both forward() and fastest_forward()
  // were asked for a problem, the latter's engine.
  RecordedChoices choices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For programs whose memory was planned on another machine: RunError if the plan needs more workspace than
// the program's `bytes`.
void require_workspace(const Plan& plan, std::int64_t bytes);

}  // namespace hydrac::runtime::cudnn
