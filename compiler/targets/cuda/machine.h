// One GPU with the libraries that programs on it use. It is opened before a spec is compiled, because the
// plan depends on what cuDNN supports and on its workspaces.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "driver/compile.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/gemm/gemm.h"
#include "runtime/cuda/stream.h"
#include "runtime/cudnn/attention.h"
#include "targets/target.h"

namespace hydrac::targets {

// This machine's GPU as a target's name, or nullopt without a GPU: the meaning of `target: auto`. Detected
// once.
const std::optional<std::string>& detected_gpu();

// InputError when this machine has no GPU, or one that cannot run code for `target`.
void require_gpu_for(const Target& target);

// Without a GPU: cuDNN's workspaces as its attention takes them on an H200.
driver::CompileOptions offline_compile_options(const spec::Spec& spec, const std::string& dump_dir);

class CudaMachine {
 public:
  // Opens the driver, the GPU, and cuBLASLt. InputError if something is missing, or if this GPU cannot run
  // code for `target`. cuDNN is opened when a spec first asks for it. `recorded`: choices to repeat. `gpu`:
  // the CUDA device number.
  CudaMachine(const Target& target, const std::filesystem::path& cache_dir,
              const runtime::RecordedChoices& recorded = {}, int gpu = 0);

  const Target& target() const { return target_; }
  const runtime::cuda::DeviceInfo& device() const { return context_.device(); }
  const runtime::cuda::Context& context() const { return context_; }
  runtime::cuda::GemmLibrary& gemms() { return gemms_; }
  const std::filesystem::path& cache_dir() const { return cache_dir_; }
  // The choices of all matmuls and attention planned so far.
  runtime::RecordedChoices choices() const;

  // With the answers that a plan for this machine needs; `spec` must outlive them.
  driver::CompileOptions compile_options(const spec::Spec& spec, const std::string& dump_dir);

  runtime::cudnn::CudnnAttention& attention();
  // cuDNN's plan for a call; cached. A forward pass may be measured in `scratch`, which overwrites it.
  runtime::cudnn::Plan attention_plan(const program::AttentionShape& call,
                                      const runtime::cuda::Stream& stream,
                                      runtime::cuda::DeviceRange scratch);

 private:
  const Target& target_;
  std::filesystem::path cache_dir_;
  runtime::RecordedChoices recorded_;
  runtime::cuda::Context context_;
  runtime::cuda::GemmLibrary gemms_;
  std::unique_ptr<runtime::cudnn::CudnnAttention> attention_;
};

}  // namespace hydrac::targets
