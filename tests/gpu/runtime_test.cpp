// The runtime over the CUDA driver on a real GPU: memory, modules, launches, and what goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "runtime/cuda/monitor.h"
#include "targets/device_code/module.h"
#include "tests/gpu/gpu_test.h"

namespace hydrac::runtime::cuda {
namespace {

using namespace device_code;

using test::message_of;

class GpuRuntime : public test::GpuTest {};

constexpr const char* kKernels = R"(
__constant__ int offset = 5;

// Each thread writes its place in the grid.
extern "C" __global__ void place(int* out) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[i] = (int)i + offset;
}

extern "C" __global__ void add(int* x, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}

// Reverses n words through shared memory.
extern "C" __global__ void reverse(int* x, int n) {
  extern __shared__ int words[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) words[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = words[n - 1 - i];
}

// Local memory, because the index is not known to the compiler.
extern "C" __global__ void lookup(int* x, int at) {
  int table[64];
  for (int i = 0; i < 64; ++i) table[i] = x[i] * x[i];
  __shared__ int part[32];
  part[threadIdx.x & 31] = table[at];
  __syncthreads();
  x[threadIdx.x] = part[(threadIdx.x + 1) & 31];
}

extern "C" __global__ void store_at(int* x) { *x = 1; }
)";

TEST_F(GpuRuntime, DevicesAreDescribedWithoutAContext) {
  const std::vector<DeviceInfo> found = devices();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].name, context->device().name);
  EXPECT_GE(found[0].capability, 75);
  EXPECT_GT(found[0].sms, 0);
  EXPECT_GT(found[0].l2_bytes, 0);
  EXPECT_GE(found[0].shared_bytes, 48 << 10);
  EXPECT_GE(found[0].driver_version, 12000);
  EXPECT_EQ(found[0].memory_bytes, context->total_bytes());
  EXPECT_GT(context->free_bytes(), 0);
  EXPECT_LT(context->free_bytes(), context->total_bytes());
}

TEST_F(GpuRuntime, AnUnknownDeviceIsAnError) {
  EXPECT_EQ(message_of<InputError>([] { Context(1000); }),
            "there is no GPU 1000: CUDA sees " + std::to_string(devices().size()) +
                ", counted from 0. CUDA_VISIBLE_DEVICES may hide some.");
}

TEST_F(GpuRuntime, CopiesAndFillsMoveEveryByte) {
  std::vector<int> values(100003);
  std::iota(values.begin(), values.end(), -7);
  const DeviceBuffer first = on_device(values);
  DeviceBuffer second(first.bytes());
  fill_bytes(second.data(), 0xff, second.bytes(), *stream);
  copy_on_device(second.data(), first.data(), first.bytes(), *stream);
  EXPECT_EQ(on_host<int>(second), values);

  PinnedBuffer pinned(first.bytes());
  copy_to_host(pinned.data(), second.data(), second.bytes(), *stream);
  fill_words(second.data(), 0xdeadbeef, second.bytes(), *stream);
  stream->synchronize();
  EXPECT_EQ(std::memcmp(pinned.data(), values.data(), pinned.bytes()), 0);
  EXPECT_EQ(on_host<unsigned>(second), std::vector<unsigned>(values.size(), 0xdeadbeefu));
  copy_to_device(second.data(), pinned.data(), pinned.bytes(), *stream);
  EXPECT_EQ(on_host<int>(second), values);
}

TEST_F(GpuRuntime, BuffersMove) {
  DeviceBuffer first(1024);
  std::byte* data = first.data();
  DeviceBuffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  first = std::move(second);
  EXPECT_EQ(first.data(), data);
}

TEST_F(GpuRuntime, MoreMemoryThanThereIsIsAnErrorThatSaysHowMuchIsFree) {
  const std::string message = message_of<RunError>([] { DeviceBuffer(std::int64_t{1} << 50); });
  EXPECT_TRUE(message.starts_with("the GPU has not 1125899906842624 bytes of memory: ")) << message;
  EXPECT_TRUE(message.ends_with(" of " + std::to_string(context->total_bytes()) + " are free")) << message;
}

TEST_F(GpuRuntime, LaunchesHaveOneToThreeDimensions) {
  const Module module(compiled(kKernels).image);
  const Kernel place = module.kernel("place");
  const std::pair<Dim3, Dim3> shapes[] = {
      {{70000}, {32}}, {{7, 5}, {8, 4}}, {{3, 4, 5}, {4, 2, 8}}, {{1, 65535, 1}, {1}}};
  for (const auto& [grid, block] : shapes) {
    const std::int64_t count = grid.x * grid.y * grid.z * block.x * block.y * block.z;
    DeviceBuffer out(count * 4);
    fill_bytes(out.data(), 0xff, out.bytes(), *stream);
    void* address = out.data();
    void* arguments[] = {&address};
    launch(place, {grid, block}, arguments, *stream);
    std::vector<int> wanted(count);
    std::iota(wanted.begin(), wanted.end(), 5);
    EXPECT_EQ(on_host<int>(out), wanted);
  }
}

TEST_F(GpuRuntime, ABlockCanHaveAllSharedMemoryOfTheDevice) {
  const Module module(compiled(kKernels).image);
  const std::int64_t bytes = context->device().shared_bytes;
  std::vector<int> values(bytes / 4);
  std::iota(values.begin(), values.end(), 0);
  const DeviceBuffer x = on_device(values);
  void* address = x.data();
  int n = static_cast<int>(values.size());
  void* arguments[] = {&address, &n};
  const Kernel reverse = module.kernel("reverse");
  launch(reverse, {{1}, {256}, bytes}, arguments, *stream);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(on_host<int>(x), values);
  EXPECT_GE(reverse.blocks_per_sm(256, bytes), 1);
  EXPECT_EQ(message_of<RunError>([&] {
              launch(reverse, {{1}, {256}, bytes + 1024}, arguments, *stream);
            }),
            "launching kernel reverse (grid 1x1x1, block 256x1x1, " + std::to_string(bytes + 1024) +
                " bytes of dynamic shared memory): CUDA_ERROR_INVALID_VALUE (invalid argument)");
}

TEST_F(GpuRuntime, ImpossibleLaunchesNameTheKernel) {
  const Module module(compiled(kKernels).image);
  const Kernel place = module.kernel("place");
  void* arguments[] = {nullptr};
  EXPECT_EQ(message_of<RunError>([&] {
              launch(place, {{0}, {32}}, arguments, *stream);
            }),
            "kernel place: a grid of 0 blocks along x: 1 to 2147483647 can be launched");
  EXPECT_EQ(message_of<RunError>([&] {
              launch(place, {{1, 65536}, {32}}, arguments, *stream);
            }),
            "kernel place: a grid of 65536 blocks along y: 1 to 65535 can be launched");
  EXPECT_EQ(message_of<RunError>([&] {
              launch(place, {{std::int64_t{1} << 33}, {32}}, arguments, *stream);
            }),
            "kernel place: a grid of 8589934592 blocks along x: 1 to 2147483647 can be launched");
}

TEST_F(GpuRuntime, KernelsAndVariablesAreFoundByName) {
  const Module module(compiled(kKernels).image);
  EXPECT_EQ(module.kernel("place").name(), "place");
  EXPECT_EQ(module.kernel("place").handle(), module.kernel("place").handle());
  EXPECT_EQ(message_of<std::logic_error>([&] { module.kernel("places"); }),
            "the device code has no kernel places");
  EXPECT_EQ(message_of<std::logic_error>([&] { module.global("offsets"); }),
            "the device code has no variable offsets");
  std::int64_t bytes = 0;
  int value = 0;
  copy_to_host(&value, module.global("offset", &bytes), 4);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(bytes, 4);
}

TEST_F(GpuRuntime, TheLoadedKernelTakesWhatTheAssemblerReported) {
  const DeviceCode code = compiled(kKernels);
  const Module module(code.image);
  EXPECT_EQ(code.kernels.size(), 5u);
  for (const KernelResources& resources : code.kernels) {
    const Kernel kernel = module.kernel(resources.kernel);
    EXPECT_EQ(kernel.registers(), resources.registers) << resources.kernel;
    EXPECT_EQ(kernel.shared_bytes(), resources.shared_bytes) << resources.kernel;
    EXPECT_EQ(kernel.local_bytes(), resources.stack_bytes) << resources.kernel;
    EXPECT_GE(kernel.max_threads(), 256) << resources.kernel;
  }
}

TEST_F(GpuRuntime, PtxOfAnOlderArchitectureRuns) {
  CompileRequest request;
  request.source = kKernels;
  request.capability = 75;
  request.kind = CodeKind::ptx;
  const Module module(compile(request).image);
  const DeviceBuffer x = on_device(std::vector<int>(1000, 1));
  void* address = x.data();
  int value = 41, n = 999;
  void* arguments[] = {&address, &value, &n};
  launch(module.kernel("add"), {{4}, {256}}, arguments, *stream);
  std::vector<int> wanted(1000, 42);
  wanted.back() = 1;
  EXPECT_EQ(on_host<int>(x), wanted);
}

TEST_F(GpuRuntime, CodeThatTheDriverDoesNotTakeIsAnErrorWithItsWords) {
  const std::string message = message_of<RunError>([] { Module(".version 7.0\n.target sm_75\nnonsense\n"); });
  EXPECT_TRUE(message.starts_with("the NVIDIA driver does not load the device code: ")) << message;
  EXPECT_NE(message.find("line 3"), std::string::npos) << message;
  CompileRequest request;
  request.source = kKernels;
  request.capability = capability() == 120 ? 80 : 120;
  const std::string other = message_of<RunError>([&] { Module(compile(request).image); });
  EXPECT_NE(other.find("It is for another GPU, or made by an NVRTC newer than this driver"),
            std::string::npos)
      << other;
}

TEST_F(GpuRuntime, OtherThreadsUseTheContextAfterMakingItCurrent) {
  std::vector<int> values(1000, 3);
  std::vector<int> got;
  std::thread([&] {
    context->make_current();
    got = on_host<int>(on_device(values));
  }).join();
  EXPECT_EQ(got, values);
}

TEST_F(GpuRuntime, TheMonitorReportsTheGpu) {
  const GpuMonitor monitor(context->device().pci_bus_id);
  const auto sample = monitor.sample();
  if (!sample) GTEST_SKIP() << "SKIPPED: " << monitor.note();
  EXPECT_EQ(monitor.note(), "");
  EXPECT_GT(sample->memory_used_bytes, 0);
  EXPECT_LT(sample->memory_used_bytes, context->total_bytes() * 2);
  EXPECT_GT(sample->power_watts, 5);
  EXPECT_LT(sample->power_watts, 3000);
  EXPECT_GT(sample->sm_clock_mhz, 100);
  EXPECT_GT(sample->temperature_celsius, 5);
  const auto limit = monitor.power_limit_watts();
  if (limit) {
    EXPECT_GT(*limit, 20);
  }
  if (const auto before = monitor.energy_joules()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_GT(*monitor.energy_joules(), *before);
    if (limit) {
      EXPECT_LT(*monitor.energy_joules() - *before, 2 * *limit);
    }
  }
}

// A failed kernel takes its context with it: in a process of its own.
TEST_F(GpuRuntime, AKernelThatFailsIsReportedByTheNextSynchronization) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Module module(compiled(kKernels).image);
        void* address = nullptr;
        void* arguments[] = {&address};
        launch(module.kernel("store_at"), {{1}, {1}}, arguments, *stream);
        std::fputs(message_of<RunError>([&] { stream->synchronize(); }).c_str(), stderr);
        std::_Exit(3);
      },
      testing::ExitedWithCode(3),
      "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS \\(an illegal memory access was encountered\\)");
}

}  // namespace
}  // namespace hydrac::runtime::cuda
