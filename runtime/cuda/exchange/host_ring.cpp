#include "runtime/cuda/exchange/host_ring.h"

#include <algorithm>
#include <string>

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {

namespace {

constexpr unsigned kThreads = 512;
constexpr std::int64_t kMostBlocks = 64;

// In PTX, which every driver compiles, because the machine that runs a built program may have neither NVRTC
// nor nvcc. Each block has its own counter, so that none waits for another.
constexpr const char* kHeadOfHopper = ".version 7.8\n.target sm_90\n";
constexpr const char* kHead = ".version 6.3\n.target sm_75\n";
constexpr const char* kOverlap = "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n";
constexpr const char* kParameters = R"(.address_size 64
.visible .entry copy_slot(
    .param .u64 ring_parameter,        // slots, slot_bytes apart
    .param .u64 device_parameter,
    .param .u64 next_slot_parameter,   // u32 of each block
    .param .u32 slots_parameter,
    .param .u32 slot_bytes_parameter,
    .param .u32 words_parameter,       // to copy, of 4 bytes
    .param .u32 to_host_parameter)
{
.reg .pred to_host, done;
.reg .u32 block, thread, threads, blocks, slot, slots, slot_bytes, words, word, step, value, is_to_host;
.reg .u64 ring, device, next_slot, from, to, offset;
)";
constexpr const char* kBody = R"(
ld.param.u64 next_slot, [next_slot_parameter];
mov.u32 block, %ctaid.x;
mad.wide.u32 next_slot, block, 4, next_slot;
ld.global.u32 slot, [next_slot];

ld.param.u64 ring, [ring_parameter];
ld.param.u64 device, [device_parameter];
ld.param.u32 slot_bytes, [slot_bytes_parameter];
ld.param.u32 is_to_host, [to_host_parameter];
mad.wide.u32 ring, slot, slot_bytes, ring;
setp.ne.u32 to_host, is_to_host, 0;
selp.b64 from, device, ring, to_host;
selp.b64 to, ring, device, to_host;

mov.u32 thread, %tid.x;
mov.u32 threads, %ntid.x;
mov.u32 blocks, %nctaid.x;
mad.lo.u32 word, block, threads, thread;
mul.lo.u32 step, blocks, threads;
ld.param.u32 words, [words_parameter];
next:
setp.ge.u32 done, word, words;
@done bra copied;
mul.wide.u32 offset, word, 4;
add.u64 ring, from, offset;
ld.volatile.global.u32 value, [ring];
add.u64 ring, to, offset;
st.volatile.global.u32 [ring], value;
add.u32 word, word, step;
bra next;

copied:
bar.sync 0;
setp.ne.u32 done, thread, 0;
@done ret;
ld.param.u32 slots, [slots_parameter];
add.u32 slot, slot, 1;
setp.eq.u32 done, slot, slots;
selp.u32 slot, 0, slot, done;
st.global.u32 [next_slot], slot;
ret;
}
)";

// True if kernels of the current context's device can wait themselves for the one before them.
bool can_overlap() {
  abi::CUdevice device = 0;
  int major = 0;
  check(driver().cuCtxGetDevice(&device), "cuCtxGetDevice");
  check(driver().cuDeviceGetAttribute(&major, abi::kDeviceCapabilityMajor, device), "cuDeviceGetAttribute");
  return major >= 9;
}

}  // namespace

HostRing::HostRing(Direction direction, std::int64_t bytes, std::size_t slots)
    : direction_(direction),
      bytes_(bytes),
      slots_(slots),
      blocks_(static_cast<unsigned>(
          std::clamp<std::int64_t>((bytes / 4 + kThreads - 1) / kThreads, 1, kMostBlocks))),
      overlaps_(can_overlap()),
      ring_(aligned(bytes) * static_cast<std::int64_t>(slots)),
      next_slot_(blocks_ * 4) {
  const std::string code =
      std::string(overlaps_ ? kHeadOfHopper : kHead) + kParameters + (overlaps_ ? kOverlap : "") + kBody;
  check(driver().cuModuleLoadDataEx(&module_, code.c_str(), 0, nullptr, nullptr), "cuModuleLoadDataEx");
  check(driver().cuModuleGetFunction(&kernel_, module_, "copy_slot"), "cuModuleGetFunction");
  const Stream stream;
  fill_words(next_slot_.data(), 0, next_slot_.bytes(), stream);
  stream.synchronize();
}

HostRing::~HostRing() {
  if (module_ != nullptr) driver().cuModuleUnload(module_);
}

std::byte* HostRing::slot(std::size_t run) const {
  return ring_.data() + static_cast<std::int64_t>(run % slots_) * aligned(bytes_);
}

void HostRing::copy(std::byte* device, const Stream& stream) const {
  std::byte *ring = ring_.data(), *next_slot = next_slot_.data();
  auto slots = static_cast<unsigned>(slots_), slot_bytes = static_cast<unsigned>(aligned(bytes_));
  auto words = static_cast<unsigned>(bytes_ / 4);
  unsigned to_host = direction_ == Direction::to_host ? 1 : 0;
  void* parameters[] = {&ring, &device, &next_slot, &slots, &slot_bytes, &words, &to_host};
  abi::CUlaunchAttribute overlap = {};
  overlap.id = abi::kLaunchProgrammaticSerialization;
  overlap.value.programmatic_serialization = 1;
  abi::CUlaunchConfig config = {};
  config.grid_x = blocks_;
  config.block_x = kThreads;
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.stream = stream.handle();
  config.attributes = &overlap;
  config.attribute_count = overlaps_ && follows_kernels(stream.handle()) ? 1 : 0;
  check(driver().cuLaunchKernelEx(&config, kernel_, parameters, nullptr), "cuLaunchKernelEx");
}

}  // namespace hydrac::runtime::cuda
