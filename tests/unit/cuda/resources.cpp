#include "resources.h"

#include <fmt/format.h>

#include <filesystem>

#include "../support/temp_dir.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::test {

namespace {

// Every header of templates/ under the name with which sources include it.
std::vector<std::pair<std::string, std::string>> device_headers() {
  const std::filesystem::path templates = hydrac::test::source_dir() + "/templates";
  std::vector<std::pair<std::string, std::string>> headers;
  for (const char* root : {"", "include", "cuda/nvrtc"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(templates / root)) {
      if (!file.is_regular_file()) continue;
      headers.emplace_back(file.path().lexically_relative(templates / root).string(), slurp(file.path()));
    }
  }
  return headers;
}

device_code::CompileRequest request_of(const std::string& source, int capability) {
  device_code::CompileRequest request;
  request.source = source;
  request.capability = capability;
  request.headers = device_headers();
  request.options = {"--device-as-default-execution-space", "--fmad=false"};
  return request;
}

}  // namespace

std::vector<device_code::KernelResources> resources_of(const std::string& source, int capability) {
  return device_code::compile(request_of(source, capability)).kernels;
}

std::string ptx_of(const std::string& source, int capability) {
  device_code::CompileRequest request = request_of(source, capability);
  request.kind = device_code::CodeKind::ptx;
  return device_code::compile(request).image;
}

std::string to_table(const std::vector<device_code::KernelResources>& kernels) {
  std::string table;
  for (const device_code::KernelResources& kernel : kernels) {
    table += fmt::format("{:<72} {:>3} registers {:>4} bytes spilled {:>6} bytes shared\n", kernel.kernel,
                         kernel.registers, kernel.spill_store_bytes + kernel.spill_load_bytes,
                         kernel.shared_bytes);
  }
  return table;
}

}  // namespace hydrac::test
