#include "runtime/cuda/stopwatch.h"

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {

namespace {

// The driver compiles it: the runtime has no compiler of its own.
constexpr const char* kCode = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry stamp(.param .u64 to) {
  .reg .u64 %address, %now;
  ld.param.u64 %address, [to];
  mov.u64 %now, %globaltimer;
  st.global.u64 [%address], %now;
  ret;
}
)";

}  // namespace

Stopwatch::Stopwatch() {
  for (int which = 0; which < 2; ++which) reinterpret_cast<std::uint64_t*>(stamps_.data())[which] = 0;
  check(driver().cuModuleLoadDataEx(&module_, kCode, 0, nullptr, nullptr),
        "cuModuleLoadDataEx of a stopwatch");
  check(driver().cuModuleGetFunction(&kernel_, module_, "stamp"), "cuModuleGetFunction");
}

Stopwatch::~Stopwatch() {
  if (module_ != nullptr) driver().cuModuleUnload(module_);
}

// Pinned memory has one address for host and GPU.
void Stopwatch::stamp(int which, const Stream& stream) const {
  void* to = stamps_.data() + static_cast<std::size_t>(which) * sizeof(std::uint64_t);
  void* parameters[] = {&to};
  abi::CUlaunchConfig config{};
  config.grid_x = config.grid_y = config.grid_z = 1;
  config.block_x = config.block_y = config.block_z = 1;
  config.stream = stream.handle();
  check(driver().cuLaunchKernelEx(&config, kernel_, parameters, nullptr), "cuLaunchKernelEx of a stopwatch");
}

double Stopwatch::seconds() const {
  const auto* stamps = reinterpret_cast<const volatile std::uint64_t*>(stamps_.data());
  const std::uint64_t began = stamps[0], ended = stamps[1];
  return ended > began && began > 0 ? 1e-9 * static_cast<double>(ended - began) : 0;
}

}  // namespace hydrac::runtime::cuda
