#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/error.h"

namespace hydrac::runtime::cuda {

namespace fs = std::filesystem;

namespace {

constexpr const char* kInstallDriver =
    "Install NVIDIA's driver for this GPU, version 525 or newer (Debian: apt-get install nvidia-driver; "
    "Ubuntu: "
    "ubuntu-drivers install).";
constexpr int kOldestDriver = 12000;  // of CUDA: 12.0 came with driver 525

// Names of library folders below a toolkit's own, in every toolkit.
constexpr const char* kToolkitFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib",
                                           "targets/sbsa-linux/lib"};

std::vector<fs::path> named_folders() {
  std::vector<fs::path> folders;
  const char* list = std::getenv("HYDRAC_CUDA_LIBRARIES");
  std::string_view rest = list != nullptr ? list : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (!folder.empty()) folders.emplace_back(folder);
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return folders;
}

// "cuda-12.10" comes after "cuda-12.9".
std::vector<int> version_numbers(const fs::path& toolkit) {
  std::vector<int> numbers;
  bool inside = false;
  for (char c : toolkit.filename().string()) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !inside) numbers.push_back(0);
    if (digit) numbers.back() = numbers.back() * 10 + (c - '0');
    inside = digit;
  }
  return numbers;
}

std::vector<fs::path> toolkits() {
  std::vector<fs::path> found;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0')
      found.emplace_back(value);
  }
  found.emplace_back("/usr/local/cuda");
  std::vector<fs::path> versions;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().starts_with("cuda-")) versions.push_back(entry.path());
  }
  std::sort(versions.begin(), versions.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(version_numbers(a), a) > std::pair(version_numbers(b), b);
  });
  found.insert(found.end(), versions.begin(), versions.end());
  return found;
}

std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::path& toolkit : toolkits()) {
    for (const char* name : kToolkitFolders) {
      const fs::path folder = toolkit / name;
      if (fs::is_directory(folder, error)) folders.push_back(folder);
    }
  }
  return folders;
}

// NVRTC opens its builtins by name alone, which finds libraries on the loader's path and those that are open
// already. Without this, the NVRTC of a Python package, whose folder is not on that path, compiles nothing.
void open_builtins_beside(const fs::path& nvrtc) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nvrtc.parent_path(), error)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so"))
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

// The library's handle; or nullptr, and the loader's words added to `refusals` when the file is there.
void* try_open(const fs::path& file, std::vector<std::string>& refusals) {
  std::error_code error;
  if (file.has_parent_path() && !fs::exists(file, error)) return nullptr;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    if (file.has_parent_path() && file.filename().string().starts_with("libnvrtc.so"))
      open_builtins_beside(file);
    return library;
  }
  const std::string words = dlerror();
  // A name that the loader's path has not is no refusal; a file whose own needs are missing is one.
  if (!words.starts_with(file.string() + ": cannot open shared object file: No such file"))
    refusals.push_back(words);
  return nullptr;
}

// The first of `files` that some place has and that loads, or nullptr; the loader's words about the others.
void* search_library(const std::vector<std::string>& files, std::vector<std::string>& refusals) {
  const std::vector<fs::path> named = named_folders(), toolkit = toolkit_folders();
  for (const std::string& file : files) {
    std::vector<fs::path> places;
    for (const fs::path& folder : named) places.push_back(folder / file);
    places.push_back(file);  // the loader's own path
    for (const fs::path& folder : toolkit) places.push_back(folder / file);
    for (const fs::path& place : places) {
      if (void* library = try_open(place, refusals)) return library;
    }
  }
  return nullptr;
}

// The driver's version of CUDA, or 0 where there is no driver: what toolkit libraries must not be newer than.
int installed_driver_version() {
  std::vector<std::string> refusals;
  void* library = search_library({"libcuda.so.1"}, refusals);
  if (library == nullptr) return 0;
  const auto version =
      reinterpret_cast<decltype(abi::DriverApi::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
  int number = 0;
  return version != nullptr && version(&number) == abi::kCudaSuccess ? number : 0;
}

abi::DriverApi open_driver() {
  const LibraryQuery query{"the CUDA driver (libcuda.so.1)", {"libcuda.so.1"}, kInstallDriver};
  void* library = open_library(query);
  abi::DriverApi api;
  api.cuDriverGetVersion =
      reinterpret_cast<decltype(api.cuDriverGetVersion)>(function_of(library, query, "cuDriverGetVersion"));
  int version = 0;
  if (api.cuDriverGetVersion(&version) == abi::kCudaSuccess && version < kOldestDriver) {
    throw InputError(
        fmt::format("the NVIDIA driver here is for CUDA {}.{}: too old, CUDA 12.0 is needed.\n{}",
                    version / 1000, version % 1000 / 10, kInstallDriver));
  }
#define HYDRAC_FIND(name, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(function_of(library, query, #name));
  HYDRAC_DRIVER_FUNCTIONS(HYDRAC_FIND)
#undef HYDRAC_FIND
  const abi::CUresult result = api.cuInit(0);
  if (result == abi::kCudaNoDevice) {
    throw InputError(
        "the NVIDIA driver finds no GPU. `nvidia-smi` should list one; in a container, start it with the GPU "
        "(docker run --gpus all); and see that CUDA_VISIBLE_DEVICES does not hide it.");
  }
  if (result == abi::kCudaSystemDriverMismatch) {
    throw InputError(
        "the NVIDIA driver's library and its kernel module are of different versions: restart the machine, "
        "or "
        "load the module anew.");
  }
  if (result != abi::kCudaSuccess) {
    const char* text = nullptr;
    api.cuGetErrorString(result, &text);
    throw InputError(
        fmt::format("the NVIDIA driver does not start: {} (error {}). See what `nvidia-smi` says.",
                    text != nullptr ? text : "unknown error", result));
  }
  return api;
}

// `package` is "cuda-nvrtc" or such; NVIDIA's packages end in the version of CUDA.
std::string toolkit_install(std::string_view package, int driver_version) {
  const bool limited = driver_version != 0 && driver_version < 13000;
  const int major = limited ? driver_version / 1000 : 13, minor = limited ? driver_version % 1000 / 10 : 0;
  return fmt::format(
      "Install it from the CUDA toolkit {}{}: package {}-{}-{} of NVIDIA's repository. If it lies elsewhere "
      "(inside "
      "Python packages, for example), name its folder in $HYDRAC_CUDA_LIBRARIES.",
      limited ? "12" : "13 or 12",
      limited ? fmt::format(" (this driver is for CUDA {}.{})", major, minor) : "", package, major, minor);
}

abi::CublasLtApi open_cublaslt() {
  const LibraryQuery query =
      toolkit_query("cuBLASLt, CUDA's library of matmuls,", "libcublasLt", "libcublas");
  void* library = open_library(query);
  abi::CublasLtApi api;
#define HYDRAC_FIND(result, name, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(function_of(library, query, #name));
  HYDRAC_CUBLASLT_FUNCTIONS(HYDRAC_FIND)
#undef HYDRAC_FIND
  return api;
}

abi::NvmlApi open_nvml() {
  const LibraryQuery query{"NVML (libnvidia-ml.so.1, part of the NVIDIA driver)",
                           {"libnvidia-ml.so.1"},
                           "Install the driver's package of tools (Debian: apt-get install libnvidia-ml1)."};
  void* library = open_library(query);
  abi::NvmlApi api;
#define HYDRAC_FIND(result, name, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(function_of(library, query, #name));
  HYDRAC_NVML_FUNCTIONS(HYDRAC_FIND)
#undef HYDRAC_FIND
  if (const auto result = api.nvmlInit_v2(); result != abi::kNvmlSuccess)
    throw InputError(fmt::format("NVML does not start: {}", api.nvmlErrorString(result)));
  return api;
}

abi::NcclApi open_nccl() {
  const LibraryQuery query{"NCCL (libnccl.so.2), which sums over several GPUs,",
                           {"libnccl.so.2"},
                           "Install NVIDIA's package libnccl2, or name the folder of a Python package's in "
                           "$HYDRAC_CUDA_LIBRARIES."};
  void* library = open_library(query);
  abi::NcclApi api;
#define HYDRAC_FIND(result, name, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(function_of(library, query, #name));
  HYDRAC_NCCL_FUNCTIONS(HYDRAC_FIND)
#undef HYDRAC_FIND
  return api;
}

}  // namespace

std::vector<fs::path> library_folders() {
  std::vector<fs::path> folders = named_folders();
  const std::vector<fs::path> more = toolkit_folders();
  folders.insert(folders.end(), more.begin(), more.end());
  return folders;
}

std::vector<std::string> toolkit_files(std::string_view stem, int driver_version) {
  std::vector<std::string> files;
  for (int major : {13, 12}) {
    if (driver_version == 0 || major <= driver_version / 1000)
      files.push_back(fmt::format("{}.so.{}", stem, major));
  }
  return files;
}

LibraryQuery toolkit_query(std::string_view what, std::string_view stem, std::string_view package) {
  const int version = installed_driver_version();
  return {std::string(what), toolkit_files(stem, version), toolkit_install(package, version)};
}

void* function_of(void* library, const LibraryQuery& query, const char* name) {
  if (void* function = dlsym(library, name)) return function;
  throw InputError(fmt::format("{} is too old: it has no {}.\n{}", query.what, name, query.install));
}

void* open_library(const LibraryQuery& query) {
  std::vector<std::string> refusals;
  if (void* library = search_library(query.files, refusals)) return library;
  std::string message = query.what + (refusals.empty() ? " is not installed." : " does not load:");
  for (const std::string& words : refusals) message += "\n  " + words;
  throw InputError(message + "\n" + query.install);
}

const abi::DriverApi& driver() {
  static const abi::DriverApi api = open_driver();
  return api;
}

const abi::CublasLtApi& cublaslt() {
  static const abi::CublasLtApi api = open_cublaslt();
  return api;
}

const abi::NvmlApi& nvml() {
  static const abi::NvmlApi api = open_nvml();
  return api;
}

const abi::NcclApi& nccl() {
  static const abi::NcclApi api = open_nccl();
  return api;
}

void check(abi::CUresult result, std::string_view call) {
  if (result == abi::kCudaSuccess) return;
  const char *name = nullptr, *text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  throw RunError(fmt::format("{}: {} ({})", call, name != nullptr ? name : std::to_string(result).c_str(),
                             text != nullptr ? text : "unknown error"));
}

}  // namespace hydrac::runtime::cuda
