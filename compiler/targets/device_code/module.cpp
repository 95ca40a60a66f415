#include "targets/device_code/module.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "runtime/cuda/library.h"
#include "runtime/cuda/stream.h"
#include "runtime/error.h"
#include "runtime/program/after_call.h"

namespace hydrac::device_code {

using runtime::RunError;
using runtime::cuda::check;
using runtime::cuda::driver;
using runtime::cuda::follows_kernels;

namespace {

int attribute(const Kernel& kernel, int which) {
  int value = 0;
  check(driver().cuFuncGetAttribute(&value, which, kernel.handle()), "cuFuncGetAttribute");
  return value;
}

std::string load_failure(runtime::cuda::abi::CUresult result, const std::string& log) {
  int version = 0;
  check(driver().cuDriverGetVersion(&version), "cuDriverGetVersion");
  const char* text = nullptr;
  driver().cuGetErrorString(result, &text);
  std::string message = fmt::format("the NVIDIA driver does not load the device code: {}",
                                    text != nullptr ? text : fmt::format("error {}", result).c_str());
  if (!log.empty()) message += "\n" + log;
  if (result == runtime::cuda::abi::kCudaInvalidImage || result == runtime::cuda::abi::kCudaNoBinaryForGpu ||
      result == runtime::cuda::abi::kCudaUnsupportedPtxVersion) {
    message += fmt::format(
        "\nIt is for another GPU, or made by an NVRTC newer than this driver, which is for CUDA {}.{}: "
        "install "
        "NVRTC of that version or older, or a newer driver.",
        version / 1000, version % 1000 / 10);
  }
  return message;
}

unsigned grid_size(const Kernel& kernel, std::int64_t blocks, std::int64_t most, char axis) {
  if (blocks >= 1 && blocks <= most) return static_cast<unsigned>(blocks);
  throw RunError(fmt::format("kernel {}: a grid of {} blocks along {}: 1 to {} can be launched",
                             kernel.name(), blocks, axis, most));
}

std::string described(const Kernel& kernel, const LaunchShape& shape) {
  return fmt::format("launching kernel {} (grid {}x{}x{}, block {}x{}x{}, {} bytes of dynamic shared memory)",
                     kernel.name(), shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                     shape.block.z, shape.dynamic_shared_bytes);
}

}  // namespace

struct Module::State {
  runtime::cuda::abi::CUmodule module = nullptr;
  std::int64_t shared_bytes = 0;  // that a block of this device can have
  mutable std::mutex mutex;
  // Kernels point at their names here, whose addresses never change.
  mutable std::map<std::string, runtime::cuda::abi::CUfunction> kernels;
  ~State() {
    if (module != nullptr) driver().cuModuleUnload(module);
  }
};

int Kernel::registers() const {
  return attribute(*this, runtime::cuda::abi::kFunctionRegisters);
}
std::int64_t Kernel::local_bytes() const {
  return attribute(*this, runtime::cuda::abi::kFunctionLocalBytes);
}
std::int64_t Kernel::shared_bytes() const {
  return attribute(*this, runtime::cuda::abi::kFunctionSharedBytes);
}
int Kernel::max_threads() const {
  return attribute(*this, runtime::cuda::abi::kFunctionMaxThreads);
}

int Kernel::blocks_per_sm(int threads, std::int64_t dynamic_shared_bytes) const {
  int blocks = 0;
  check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_, threads,
                                                             static_cast<std::size_t>(dynamic_shared_bytes)),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks;
}

Module::Module(std::string_view image) : state_(std::make_unique<State>()) {
  const runtime::cuda::abi::DriverApi& api = driver();
  runtime::cuda::abi::CUdevice device = 0;
  int shared_bytes = 0;
  check(api.cuCtxGetDevice(&device), "cuCtxGetDevice");
  check(api.cuDeviceGetAttribute(&shared_bytes, runtime::cuda::abi::kDeviceSharedBytesOptin, device),
        "cuDeviceGetAttribute");
  state_->shared_bytes = shared_bytes;
  const std::string terminated(image);  // PTX must end in a zero byte
  std::string log(16384, '\0');
  int keys[] = {runtime::cuda::abi::kJitErrorLog, runtime::cuda::abi::kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  const runtime::cuda::abi::CUresult result =
      api.cuModuleLoadDataEx(&state_->module, terminated.c_str(), 2, keys, values);
  if (result != runtime::cuda::abi::kCudaSuccess) throw RunError(load_failure(result, log.c_str()));
}

Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

Kernel Module::kernel(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto [entry, is_new] = state_->kernels.try_emplace(name, nullptr);
  Kernel kernel(entry->second, &entry->first);
  if (!is_new) return kernel;
  const runtime::cuda::abi::CUresult result =
      driver().cuModuleGetFunction(&entry->second, state_->module, name.c_str());
  if (result != runtime::cuda::abi::kCudaSuccess) {
    state_->kernels.erase(entry);
    if (result == runtime::cuda::abi::kCudaNotFound)
      throw std::logic_error(fmt::format("the device code has no kernel {}", name));
    check(result, fmt::format("cuModuleGetFunction of {}", name));
  }
  kernel.function_ = entry->second;
  // Without this a block gets 48 KiB at most. It only allows: what a launch takes is what it asks for.
  const std::int64_t most = state_->shared_bytes - kernel.shared_bytes();
  check(driver().cuFuncSetAttribute(kernel.function_, runtime::cuda::abi::kFunctionMaxDynamicSharedBytes,
                                    static_cast<int>(most)),
        fmt::format("cuFuncSetAttribute of {}", name));
  return kernel;
}

void* Module::global(const std::string& name, std::int64_t* bytes) const {
  runtime::cuda::abi::CUdeviceptr address = 0;
  std::size_t size = 0;
  const runtime::cuda::abi::CUresult result =
      driver().cuModuleGetGlobal_v2(&address, &size, state_->module, name.c_str());
  if (result == runtime::cuda::abi::kCudaNotFound)
    throw std::logic_error(fmt::format("the device code has no variable {}", name));
  check(result, fmt::format("cuModuleGetGlobal of {}", name));
  if (bytes != nullptr) *bytes = static_cast<std::int64_t>(size);
  return reinterpret_cast<void*>(address);
}

void launch(const Kernel& kernel, const LaunchShape& shape, void* const* arguments,
            const runtime::cuda::Stream& stream) {
  runtime::before_call(stream.handle());  // which may put something on it
  runtime::cuda::abi::CUlaunchAttribute attributes[2] = {};
  runtime::cuda::abi::CUlaunchConfig config = {};
  config.grid_x = grid_size(kernel, shape.grid.x, 0x7fffffff, 'x');
  config.grid_y = grid_size(kernel, shape.grid.y, 65535, 'y');
  config.grid_z = grid_size(kernel, shape.grid.z, 65535, 'z');
  config.block_x = static_cast<unsigned>(shape.block.x);
  config.block_y = static_cast<unsigned>(shape.block.y);
  config.block_z = static_cast<unsigned>(shape.block.z);
  config.shared_bytes = static_cast<unsigned>(shape.dynamic_shared_bytes);
  config.stream = stream.handle();
  config.attributes = attributes;
  if (shape.cluster > 1) {
    runtime::cuda::abi::CUlaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = runtime::cuda::abi::kLaunchClusterDimension;
    attribute.value.cluster = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  if (shape.overlap_previous && follows_kernels(stream.handle())) {
    runtime::cuda::abi::CUlaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = runtime::cuda::abi::kLaunchProgrammaticSerialization;
    attribute.value.programmatic_serialization = 1;
  }
  const runtime::cuda::abi::CUresult result =
      driver().cuLaunchKernelEx(&config, kernel.handle(), const_cast<void**>(arguments), nullptr);
  if (result != runtime::cuda::abi::kCudaSuccess) check(result, described(kernel, shape));
  runtime::after_call(stream.handle());
}

}  // namespace hydrac::device_code
