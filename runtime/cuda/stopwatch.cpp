#include "runtime/cuda/stopwatch.h"

#include <utility>

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {

namespace {

// The driver compiles it: the runtime has no compiler of its own.
constexpr const char* kCode = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry begin(.param .u64 times) {
  .reg .u64 %address, %now;
  ld.param.u64 %address, [times];
  mov.u64 %now, %globaltimer;
  st.global.u64 [%address], %now;
  ret;
}
.visible .entry end(.param .u64 times) {
  .reg .u64 %address, %now, %began, %total;
  ld.param.u64 %address, [times];
  mov.u64 %now, %globaltimer;
  ld.global.u64 %began, [%address];
  ld.global.u64 %total, [%address + 8];
  sub.u64 %now, %now, %began;
  add.u64 %total, %total, %now;
  st.global.u64 [%address + 8], %total;
  ret;
}
)";

}  // namespace

Stopwatch::Stopwatch() {
  for (int which = 0; which < 2; ++which) reinterpret_cast<std::uint64_t*>(times_.data())[which] = 0;
  check(driver().cuModuleLoadDataEx(&module_, kCode, 0, nullptr, nullptr),
        "cuModuleLoadDataEx of a stopwatch");
  check(driver().cuModuleGetFunction(&begin_, module_, "begin"), "cuModuleGetFunction");
  check(driver().cuModuleGetFunction(&end_, module_, "end"), "cuModuleGetFunction");
}

Stopwatch::~Stopwatch() {
  if (module_ != nullptr) driver().cuModuleUnload(module_);
}

// Pinned memory has one address for host and GPU.
void Stopwatch::launch(abi::CUfunction kernel, const Stream& stream) const {
  void* times = times_.data();
  void* parameters[] = {&times};
  abi::CUlaunchConfig config{};
  config.grid_x = config.grid_y = config.grid_z = 1;
  config.block_x = config.block_y = config.block_z = 1;
  config.stream = stream.handle();
  check(driver().cuLaunchKernelEx(&config, kernel, parameters, nullptr), "cuLaunchKernelEx of a stopwatch");
}

double Stopwatch::seconds() {
  const std::uint64_t total = reinterpret_cast<const volatile std::uint64_t*>(times_.data())[1];
  return 1e-9 * static_cast<double>(total - std::exchange(read_, total));
}

}  // namespace hydrac::runtime::cuda
