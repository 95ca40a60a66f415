#include "runtime/cudnn/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "runtime/cuda/library.h"
#include "runtime/cudnn/library_version.h"

namespace hydrac::runtime::cudnn {
namespace {

std::string install() {
  return fmt::format(
      "Install cuDNN {} or newer (packages libcudnn9-cuda-13 or libcudnn9-cuda-12 of NVIDIA's repository). "
      "If it lies elsewhere (inside Python packages, for example), name its folder in "
      "$HYDRAC_CUDA_LIBRARIES.",
      version_text(kOldestVersion));
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    throw InputError(fmt::format("libcudnn.so.9 has no function {}.\n{}", name, install()));
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string library_version() {
  return Library().name();
}

Library::Library() {
  void* library = cuda::open_library(
      {"cuDNN 9, NVIDIA's library of neural network kernels,", {"libcudnn.so.9"}, install()});
  abi::GetVersion* get_version = nullptr;
  find(library, "cudnnGetVersion", get_version);
  version_ = static_cast<int>(get_version());
  if (version_ < kOldestVersion || version_ >= 100000) {
    throw InputError(fmt::format("the libcudnn.so.9 here is {}, of which attention can make no use.\n{}",
                                 name(), install()));
  }
  find(library, "cudnnGetErrorString", error_string_);
  find(library, "cudnnGetLastErrorString", last_error_string_);
  find(library, "cudnnCreate", create);
  find(library, "cudnnDestroy", destroy);
  find(library, "cudnnSetStream", set_stream);
  find(library, "cudnnBackendCreateDescriptor", create_descriptor);
  find(library, "cudnnBackendDestroyDescriptor", destroy_descriptor);
  find(library, "cudnnBackendFinalize", finalize);
  find(library, "cudnnBackendSetAttribute", set_attribute);
  find(library, "cudnnBackendGetAttribute", get_attribute);
  find(library, "cudnnBackendExecute", execute);
}

std::string Library::name() const {
  return "cuDNN " + version_text(version_);
}

void Library::check(abi::Status status, const char* tried) const {
  if (status == abi::Status::success) return;
  std::array<char, 2048> details{};
  last_error_string_(details.data(), details.size());
  std::string message = fmt::format("{} cannot {}: {}", name(), tried, error_string_(status));
  std::string_view more = details.data();
  while (!more.empty() && (more.back() == '\n' || more.back() == ' ')) more.remove_suffix(1);
  if (!more.empty()) message += fmt::format(" ({})", more);
  if (abi::is_not_supported(status)) throw UnsupportedError(message);
  throw RunError(message);
}

}  // namespace hydrac::runtime::cudnn
