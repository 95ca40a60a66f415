#include "emulated_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "../support/temp_dir.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::emulation {

namespace {

// Guards around buffers see most stray accesses; under AddressSanitizer the kernels are checked like the
// rest.
#if defined(__SANITIZE_ADDRESS__)
constexpr const char* kSanitize = "-fsanitize=address -g";
#else
constexpr const char* kSanitize = "";
#endif

// Shared memory is initialized by nobody: templates need not look for who would do it.
#if defined(__clang__)
constexpr const char* kSharedMemory = "";
#else
constexpr const char* kSharedMemory = "-fno-extern-tls-init";
#endif

}  // namespace

EmulatedKernels::EmulatedKernels(const std::string& source, const std::vector<std::string>& kernels) {
  const test::TempDir folder;
  std::string text = "#include \"cuda_emulation.h\"\n#line 1 \"kernels\"\n" + source + "\n";
  for (const std::string& kernel : kernels) text += fmt::format("HYDRAC_EMULATED_KERNEL({})\n", kernel);
  test::spill(folder / "kernels.cpp", text);
  // -fno-gnu-unique, hidden visibility: two libraries may hold the same template. Kernels read vectors from
  // memory of other types.
  const std::string command = fmt::format(
      "{0} -std=c++20 -O2 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math "
      "-fno-strict-aliasing "
      "-fno-exceptions -fno-gnu-unique -fvisibility=hidden -shared -fPIC -Wl,-z,defs {1} {6} "
      "-I {2}/tests/unit/cuda_emulation -I {2}/templates -I {2}/templates/include -o {3} {4} 2> {5}",
      HYDRAC_CXX, kSanitize, hydrac::test::source_dir(), (folder / "kernels.so").string(),
      (folder / "kernels.cpp").string(), (folder / "messages").string(), kSharedMemory);
  if (std::system(command.c_str()) != 0) throw EmulationError(test::slurp(folder / "messages") + source);
  library_ = ::dlopen((folder / "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw EmulationError(::dlerror());
  entry_ = static_cast<const Library*>(::dlsym(library_, "hydrac_emulated_library"));
  for (const std::string& kernel : kernels)
    kernels_[kernel] = static_cast<const Kernel*>(::dlsym(library_, (kernel + "__emulated").c_str()));
}

EmulatedKernels::~EmulatedKernels() {
  if (library_) ::dlclose(library_);
}

const Kernel& EmulatedKernels::find(const std::string& kernel, std::size_t arguments) const {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) throw EmulationError("the library has no kernel " + kernel);
  if (found->second->parameters != arguments)
    throw EmulationError(
        fmt::format("{} takes {} arguments, not {}", kernel, found->second->parameters, arguments));
  return *found->second;
}

void EmulatedKernels::launch(const std::string& kernel, const Geometry& geometry,
                             std::span<void* const> arguments, Order order) {
  scheduler_.launch(kernel, *entry_, find(kernel, arguments.size()), geometry, arguments.data(), order);
}

void EmulatedKernels::launch_both_orders(const std::string& kernel, const Geometry& geometry,
                                         std::span<void* const> arguments,
                                         std::span<const std::span<std::byte>> memory) {
  using Bytes = std::vector<std::byte>;
  const auto copy = [&] {
    std::vector<Bytes> buffers;
    for (std::span<std::byte> buffer : memory) buffers.emplace_back(buffer.begin(), buffer.end());
    return buffers;
  };
  const std::vector<Bytes> before = copy();
  launch(kernel, geometry, arguments, Order::ascending);
  const std::vector<Bytes> ascending = copy();
  for (std::size_t i = 0; i < memory.size(); ++i)
    std::copy(before[i].begin(), before[i].end(), memory[i].begin());
  launch(kernel, geometry, arguments, Order::descending);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto [first, second] = std::mismatch(ascending[i].begin(), ascending[i].end(), memory[i].begin());
    if (first != ascending[i].end())
      throw EmulationError(
          fmt::format("{}: threads race: byte {} of buffer {} depends on the order in which they run", kernel,
                      first - ascending[i].begin(), i));
  }
}

}  // namespace hydrac::emulation
