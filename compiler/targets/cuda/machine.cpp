#include "targets/cuda/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/attention/geometry.h"
#include "runtime/cuda/memory.h"
#include "runtime/error.h"
#include "spec/checks/attention_tiles.h"
#include "targets/cuda/identify.h"

namespace hydrac::targets {

namespace {

using runtime::cuda::DeviceInfo;

DeviceInfo first_device() {
  return runtime::cuda::devices().front();
}

runtime::cuda::GemmOptions gemm_options(const Target& target, const std::filesystem::path& cache_dir,
                                        const runtime::RecordedChoices& recorded) {
  runtime::cuda::GemmOptions options;
  options.recorded = recorded;
  options.workspace_bytes = driver::gemm_workspace_bytes(target);
  options.cache_file = cache_dir / "cublaslt-choices";
  options.search_ms = 80;  // a dozen shapes in a second; what a longer search found was within a percent
  return options;
}

runtime::cudnn::AttentionProblem problem_of(const program::AttentionShape& call) {
  auto strides = [](const program::AttentionShape::Strides& s) {
    return runtime::cudnn::Strides{s.batch, s.token, s.head};
  };
  runtime::cudnn::AttentionProblem problem;
  problem.batch = call.batch;
  problem.tokens = call.tokens;
  problem.heads = call.heads;
  problem.kv_heads = call.kv_heads;
  problem.head_dim = call.head_dim;
  problem.scale = static_cast<float>(call.scale);
  problem.causal = hides_later_keys(call.rules);
  problem.bf16 = call.dtype == ir::DType::bf16;
  problem.q = strides(call.q);
  problem.k = strides(call.k);
  problem.v = strides(call.v);
  problem.out = strides(call.out);
  problem.d_out = strides(call.d_out);
  problem.d_q = strides(call.d_q);
  problem.d_k = strides(call.d_k);
  problem.d_v = strides(call.d_v);
  return problem;
}

// The deterministic backward pass keeps one number a query row for the scores' gradient, float32 sums for
// grouped heads, and for some shapes the sequences' lengths; each begins at a multiple of 256 bytes.
int64_t usual_workspace(const program::AttentionShape& call) {
  using runtime::cuda::aligned;
  if (!call.backward) return runtime::cuda::kAlignment;
  const int64_t padded = (call.tokens + 63) / 64 * 64, rows = call.batch * call.heads * call.tokens;
  const int64_t grouped = call.kv_heads < call.heads ? 4 * rows * call.head_dim : 0;
  return aligned(2 * call.batch * call.heads * padded * padded) + aligned(4 * rows) + aligned(grouped) +
         aligned(4 * call.batch);
}

}  // namespace

const std::optional<std::string>& detected_gpu() {
  static const std::optional<std::string> found = []() -> std::optional<std::string> {
    try {
      if (const Target* target = target_of(first_device())) return std::string(target->name);
    } catch (const runtime::InputError&) {  // no driver, or no GPU
    }
    return std::nullopt;
  }();
  return found;
}

void require_gpu_for(const Target& target) {
  const DeviceInfo device = first_device();
  if (device.capability >= target.capability) return;
  const Target* here = target_of(device);
  throw runtime::InputError(fmt::format("target: {} is {}, and this machine's {} is sm_{}: write target: {}",
                                        target.name, target.arch, device.name, device.capability,
                                        here ? here->name : "cpu"));
}

CudaMachine::CudaMachine(const Target& target, const std::filesystem::path& cache_dir,
                         const runtime::RecordedChoices& recorded, int gpu)
    : target_(target),
      cache_dir_(cache_dir),
      recorded_(recorded),
      context_(gpu),
      gemms_(context_, gemm_options(target, cache_dir, recorded)) {
  require_gpu_for(target);
}

runtime::RecordedChoices CudaMachine::choices() const {
  runtime::RecordedChoices choices = gemms_.choices();
  if (attention_) choices.add(attention_->choices());
  return choices;
}

runtime::cudnn::CudnnAttention& CudaMachine::attention() {
  if (!attention_)
    attention_ = std::make_unique<runtime::cudnn::CudnnAttention>(device(), cache_dir_, recorded_);
  return *attention_;
}

runtime::cudnn::Plan CudaMachine::attention_plan(const program::AttentionShape& call,
                                                 const runtime::cuda::Stream& stream,
                                                 runtime::cuda::DeviceRange scratch) {
  const runtime::cudnn::AttentionProblem problem = problem_of(call);
  return call.backward ? attention().backward(problem)
                       : attention().fastest_forward(problem, stream, scratch.data, scratch.bytes);
}

namespace {

// Measured on an H200. On Hopper our backward pass takes 0.7 to 0.85 of the time of cuDNN's deterministic one
// (B64 H12 T1024 D64: 0.83 ms, cuDNN 9.14: 1.13). With heads of 64 our forward pass is faster up to 2048
// tokens (B64 H12 T1024: 0.34 ms, cuDNN 0.38; B16 H12 K4 T2048: 0.28 and 0.31). It is about as fast at 4096
// (B4 H32 K8: 0.76 and 0.75), and without cuDNN a program also starts a second earlier. With heads of 128
// cuDNN's is up to a tenth faster, except for short sequences, whose kernels take microseconds: a step of B64
// T256 takes 3.64 ms with ours and 3.71 with cuDNN's. cuDNN's kernels are made for wide heads. With heads of
// 16 (B16 H12 K4 T2048) ours take 0.23 ms forward and 0.68 backward, cuDNN's 0.32 and 1.06; with heads of 32
// ours take 0.35 and 0.91, cuDNN's 0.32 and 1.11.
bool generated_is_faster(int capability, const program::AttentionShape& call) {
  cuda::AttentionProblem problem{};
  problem.capability = capability;
  problem.element_bytes = static_cast<int>(ir::size_of(call.dtype));
  problem.is_bf16 = call.dtype == ir::DType::bf16;
  problem.head_dim = call.head_dim;
  problem.has_softcap = call.rules.softcap > 0;
  if (capability == 90 && call.head_dim < 64) return true;
  const int64_t most_tokens = call.head_dim == 64 ? 2048 : 256;
  return (call.backward || call.tokens <= most_tokens) &&
         attention_family(problem) == AttentionFamily::hopper;
}

// Why a call does not go to cuDNN. InputError when the spec insists.
std::optional<std::string> not_by_cudnn(const spec::Spec& spec, int capability,
                                        const program::AttentionShape& call) {
  const spec::AttentionKernel wanted = spec.optimizations.attention;
  if (wanted == spec::AttentionKernel::generated) return "attention: generated";
  if (call.fp8) return "fp8_attention: true";
  if (spec::asks_for_tiles(spec)) return "attention_tiles are those of the generated kernels";
  std::optional<std::string> reason;
  if (call.dtype == ir::DType::f32) {
    reason = "cuDNN's attention computes in half precision";
  } else if (call.dropout > 0) {
    reason =
        "cuDNN's dropout draws other random numbers than hydrac's kernels; set model.attention_dropout: 0";
  } else if (call.rules.window > 0) {
    reason = "hydrac asks cuDNN for no sliding windows";
  } else if (call.rules.softcap > 0) {
    reason = "hydrac asks cuDNN for no softcap";
  } else if (call.rules.documents) {
    reason = "hydrac asks cuDNN for no documents within a sequence";
  } else {
    reason = unsupported_reason(problem_of(call), capability, call.backward);
  }
  if (!reason && wanted == spec::AttentionKernel::auto_ && generated_is_faster(capability, call))
    reason = "the generated kernels are faster";
  if (reason && wanted == spec::AttentionKernel::cudnn)
    throw runtime::InputError(fmt::format("optimizations.attention: cudnn is not possible: {}", *reason));
  return reason;
}

}  // namespace

driver::CompileOptions CudaMachine::compile_options(const spec::Spec& spec, const std::string& dump_dir) {
  driver::CompileOptions options;
  options.dump_dir = dump_dir;
  options.cudnn_workspace = [this, &spec](const program::AttentionShape& call) -> std::optional<int64_t> {
    if (not_by_cudnn(spec, target_.capability, call)) return std::nullopt;
    const runtime::cudnn::AttentionProblem problem = problem_of(call);
    return (call.backward ? attention().backward(problem) : attention().forward(problem)).workspace_bytes();
  };
  return options;
}

driver::CompileOptions offline_compile_options(const spec::Spec& spec, const std::string& dump_dir) {
  driver::CompileOptions options;
  options.dump_dir = dump_dir;
  const int capability = find(spec.target)->capability;
  options.cudnn_workspace = [&spec,
                             capability](const program::AttentionShape& call) -> std::optional<int64_t> {
    if (not_by_cudnn(spec, capability, call)) return std::nullopt;
    return usual_workspace(call);
  };
  return options;
}

}  // namespace hydrac::targets
