#include "cli/version.h"

#include <fmt/format.h>

#include <functional>

#include "runtime/cpu/blas_library.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/library_version.h"
#include "runtime/cudnn/library_version.h"
#include "runtime/error.h"
#include "targets/device_code/nvrtc.h"
#include "version.inc"  // made by cmake/Version.cmake

namespace hydrac::cli {

namespace {

std::string blas_line(const std::string& what, std::unique_ptr<runtime::BlasLibrary> library) {
  return library ? library->name() + "\n" : what + ": not found\n";
}

// The result of `version`, or the first line of why there is none.
std::string line(const std::string& what, const std::function<std::string()>& version) {
  try {
    return version() + "\n";
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    return what + ": " + reason.substr(0, reason.find('\n')) + "\n";
  }
}

std::string gpu() {
  const runtime::cuda::DeviceInfo device = runtime::cuda::devices().at(0);
  return fmt::format("GPU {}, with a driver for CUDA {}.{}", device.name, device.driver_version / 1000,
                     device.driver_version % 1000 / 10);
}

}  // namespace

std::string version_line() {
  const std::string commit = *kCommit ? fmt::format("commit {}, ", kCommit) : "";
  return fmt::format("hydrac {} ({}built with {})\n", kVersion, commit, kCompiler);
}

std::string version_name() {
  return fmt::format("hydrac {}{}", kVersion, *kCommit ? fmt::format(" (commit {})", kCommit) : "");
}

std::string library_versions() {
  const runtime::BlasOptions blas;
  return blas_line("oneDNN", runtime::open_onednn(blas.onednn_files)) +
         blas_line("OpenBLAS", runtime::open_openblas(blas.openblas_files)) + line("GPU", gpu) +
         line("NVRTC", [] { return "NVRTC " + device_code::nvrtc_version(); }) +
         line("cuBLASLt", runtime::cuda::library_version) + line("cuDNN", runtime::cudnn::library_version);
}

}  // namespace hydrac::cli
