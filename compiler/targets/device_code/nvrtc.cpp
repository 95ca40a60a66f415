#include "targets/device_code/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/cuda/library.h"
#include "runtime/error.h"
#include "targets/device_code/nvrtc_abi.h"
#include "targets/device_code/resources.h"

namespace hydrac::device_code {

using runtime::InputError;
using runtime::RunError;

namespace {

abi::NvrtcApi open_nvrtc() {
  const runtime::cuda::LibraryQuery query =
      runtime::cuda::toolkit_query("NVRTC, CUDA's run-time compiler,", "libnvrtc", "cuda-nvrtc");
  void* library = runtime::cuda::open_library(query);
  abi::NvrtcApi api;
#define HYDRAC_FIND(result, name, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(runtime::cuda::function_of(library, query, #name));
  HYDRAC_NVRTC_FUNCTIONS(HYDRAC_FIND)
#undef HYDRAC_FIND
  return api;
}

void check_nvrtc(abi::nvrtcResult result, const char* call) {
  if (result != abi::kNvrtcSuccess)
    throw RunError(fmt::format("{}: {}", call, nvrtc().nvrtcGetErrorString(result)));
}

using GetSize = abi::nvrtcResult (*)(abi::nvrtcProgram, std::size_t*);
using GetText = abi::nvrtcResult (*)(abi::nvrtcProgram, char*);

class Program {
 public:
  explicit Program(const CompileRequest& request) {
    std::vector<const char*> names, texts;
    for (const auto& [name, text] : request.headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    check_nvrtc(nvrtc().nvrtcCreateProgram(&program_, request.source.c_str(), request.name.c_str(),
                                           static_cast<int>(names.size()), texts.data(), names.data()),
                "nvrtcCreateProgram");
  }
  ~Program() { nvrtc().nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  abi::nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    return nvrtc().nvrtcCompileProgram(program_, static_cast<int>(words.size()), words.data());
  }

  std::string get(GetSize size, GetText text, const char* call) const {
    std::size_t bytes = 0;
    check_nvrtc(size(program_, &bytes), call);
    std::string content(bytes, '\0');
    check_nvrtc(text(program_, content.data()), call);
    return content;
  }

  std::string log() const {
    const std::string text =
        get(nvrtc().nvrtcGetProgramLogSize, nvrtc().nvrtcGetProgramLog, "nvrtcGetProgramLog");
    return text.c_str();  // without the zero byte at its end
  }

 private:
  abi::nvrtcProgram program_ = nullptr;
};

std::pair<int, int> nvrtc_number() {
  int major = 0, minor = 0;
  check_nvrtc(nvrtc().nvrtcVersion(&major, &minor), "nvrtcVersion");
  return {major, minor};
}

}  // namespace

const abi::NvrtcApi& nvrtc() {
  static const abi::NvrtcApi api = open_nvrtc();
  return api;
}

std::string architecture(int capability, CodeKind kind) {
  if (kind == CodeKind::ptx) return fmt::format("compute_{}", capability);
  return fmt::format("sm_{}{}", capability, capability == 90 ? "a" : "");
}

std::string nvrtc_version() {
  const auto [major, minor] = nvrtc_number();
  return fmt::format("{}.{}", major, minor);
}

std::vector<int> nvrtc_capabilities() {
  int count = 0;
  check_nvrtc(nvrtc().nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> capabilities(count);
  check_nvrtc(nvrtc().nvrtcGetSupportedArchs(capabilities.data()), "nvrtcGetSupportedArchs");
  std::sort(capabilities.begin(), capabilities.end());
  return capabilities;
}

DeviceCode compile(const CompileRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<int> known = nvrtc_capabilities();
  if (!std::binary_search(known.begin(), known.end(), request.capability)) {
    throw InputError(fmt::format(
        "NVRTC {} makes no code for compute capability {}.{}: it knows {}. Install {} CUDA toolkit.",
        nvrtc_version(), request.capability / 10, request.capability % 10, fmt::join(known, ", "),
        request.capability < known.front() ? "an older" : "a newer"));
  }
  DeviceCode code;
  code.architecture = architecture(request.capability, request.kind);
  const bool ptx = request.kind == CodeKind::ptx;
  std::vector<std::string> options = {"-std=c++20", "-arch=" + code.architecture};
  if (!ptx) options.push_back("--ptxas-options=-v");  // reports what each kernel takes
  // From 12.9 on NVRTC has a cache of its own, which keeps no report; ours does.
  if (nvrtc_number() >= std::pair(12, 9)) options.push_back("--no-cache");
  options.insert(options.end(), request.options.begin(), request.options.end());

  Program program(request);
  const abi::nvrtcResult result = program.compile(options);
  AssemblerReport report = read_assembler_report(program.log());
  if (result != abi::kNvrtcSuccess) {
    throw CompileError(fmt::format("{} does not compile for {} ({}):\n{}", request.name, code.architecture,
                                   nvrtc().nvrtcGetErrorString(result), report.rest));
  }
  code.image = ptx ? program.get(nvrtc().nvrtcGetPTXSize, nvrtc().nvrtcGetPTX, "nvrtcGetPTX")
                   : program.get(nvrtc().nvrtcGetCUBINSize, nvrtc().nvrtcGetCUBIN, "nvrtcGetCUBIN");
  code.kernels = std::move(report.kernels);
  code.log = std::move(report.rest);
  code.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return code;
}

}  // namespace hydrac::device_code
