// CUDA graphs on a real GPU: capture, branches, and kernels that overlap their launches.
#include <gtest/gtest.h>

#include <stdexcept>

#include "targets/device_code/module.h"
#include "tests/gpu/gpu_test.h"

namespace hydrac::runtime::cuda {
namespace {

using namespace device_code;

using test::message_of;

constexpr const char* kKernels = R"(
extern "C" __global__ void add(int* x, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}

// y[i] = x[i + 1 mod n] + 1, so that blocks read what other blocks of the kernel before have written, late; lets
// the next kernel start at once.
extern "C" __global__ void shift(const int* x, int* y, int n) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x % 2 == 0) __nanosleep(5000);
  if (i < n) y[i] = x[(i + 1) % n] + 1;
}
)";

class GpuGraphs : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) module_ = std::make_unique<Module>(compiled(kKernels).image);
  }
  void queue_add(const DeviceBuffer& x, int value, const Stream& on, LaunchShape shape = {{4}, {256}}) {
    void* address = x.data();
    int n = static_cast<int>(x.bytes() / 4);
    void* arguments[] = {&address, &value, &n};
    launch(module_->kernel("add"), shape, arguments, on);
  }
  std::unique_ptr<Module> module_;
};

TEST_F(GpuGraphs, WhatIsCapturedRunsAtEachLaunchAndNotBefore) {
  const DeviceBuffer x = on_device(std::vector<int>(1000, 0));
  const Graph graph = Graph::capture(*stream, [&] {
    queue_add(x, 1, *stream);
    queue_add(x, 10, *stream);
  });
  EXPECT_EQ(graph.nodes(), 2u);
  EXPECT_EQ(on_host<int>(x), std::vector<int>(1000, 0));
  for (int i = 0; i < 3; ++i) graph.launch(*stream);
  EXPECT_EQ(on_host<int>(x), std::vector<int>(1000, 33));
}

TEST_F(GpuGraphs, BranchesForkAndJoinByEvents) {
  const DeviceBuffer x = on_device(std::vector<int>(1000, 0)), y = on_device(std::vector<int>(1000, 0));
  const Stream other;
  const Event fork, join;
  const Graph graph = Graph::capture(*stream, [&] {
    fill_bytes(x.data(), 0, x.bytes(), *stream);
    fork.record(*stream);
    other.wait(fork);
    queue_add(y, 2, other);
    queue_add(x, 1, *stream);
    join.record(other);
    stream->wait(join);
    copy_on_device(x.data(), y.data(), 4, *stream);
  });
  EXPECT_EQ(graph.nodes(), 4u);
  graph.launch(*stream);
  graph.launch(*stream);
  std::vector<int> wanted(1000, 1);
  wanted[0] = 4;
  EXPECT_EQ(on_host<int>(x), wanted);
}

TEST_F(GpuGraphs, AFailedCaptureLeavesTheStreamUsable) {
  const DeviceBuffer x = on_device(std::vector<int>(1000, 0));
  EXPECT_EQ(
      message_of<RunError>([&] { Graph::capture(*stream, [&] { stream->synchronize(); }); }),
      "cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (operation not permitted when stream is "
      "capturing)");
  EXPECT_EQ(message_of<std::domain_error>([&] {
              Graph::capture(*stream, [&] {
                queue_add(x, 1, *stream);
                throw std::domain_error("ours");
              });
            }),
            "ours");
  queue_add(x, 7, *stream);
  EXPECT_EQ(on_host<int>(x), std::vector<int>(1000, 7));
}

TEST_F(GpuGraphs, ClustersAndOverlappingLaunchesAreCaptured) {
  if (capability() < 90) GTEST_SKIP() << "SKIPPED: needs compute capability 9.0";
  const DeviceBuffer x = on_device(std::vector<int>(1024, 0));
  LaunchShape shape{{4}, {256}};
  shape.cluster = 2;
  shape.overlap_previous = true;
  const Graph graph = Graph::capture(*stream, [&] { queue_add(x, 3, *stream, shape); });
  graph.launch(*stream);
  EXPECT_EQ(on_host<int>(x), std::vector<int>(1024, 3));
}

// Kernels that wait themselves, behind one another, behind a fill, and at forks and joins of branches.
TEST_F(GpuGraphs, OverlappingKernelsSeeWhatTheOnesBeforeThemWrote) {
  if (capability() < 90) GTEST_SKIP() << "SKIPPED: needs compute capability 9.0";
  constexpr int n = 1 << 14, rounds = 20;
  const DeviceBuffer a(n * 4), b(n * 4), c(n * 4), d(n * 4);
  const auto shift = [&](const DeviceBuffer& from, const DeviceBuffer& to, const Stream& on) {
    LaunchShape shape{{n / 256}, {256}};
    shape.overlap_previous = true;
    void *x = from.data(), *y = to.data();
    int count = n;
    void* arguments[] = {&x, &y, &count};
    launch(module_->kernel("shift"), shape, arguments, on);
  };
  const Stream other;
  const Event fork, join;
  const Graph graph = Graph::capture(*stream, [&] {
    EXPECT_FALSE(follows_kernels(stream->handle()));
    fill_bytes(a.data(), 0, a.bytes(), *stream);
    EXPECT_FALSE(follows_kernels(stream->handle()));
    for (int i = 0; i < rounds; ++i) {
      shift(a, b, *stream);
      EXPECT_TRUE(follows_kernels(stream->handle()));
      shift(b, a, *stream);
    }
    fork.record(*stream);
    other.wait(fork);
    shift(a, c, other);
    shift(a, b, *stream);
    shift(c, d, other);
    join.record(other);
    stream->wait(join);
    EXPECT_TRUE(follows_kernels(stream->handle()));  // those of both branches
    shift(d, c, *stream);
    shift(b, a, *stream);
  });
  EXPECT_FALSE(follows_kernels(stream->handle()));
  for (int i = 0; i < 50; ++i) graph.launch(*stream);
  EXPECT_EQ(on_host<int>(a), std::vector<int>(n, 2 * rounds + 2));
  EXPECT_EQ(on_host<int>(c), std::vector<int>(n, 2 * rounds + 3));
}

TEST_F(GpuGraphs, EventsMeasureTheTimeBetweenThem) {
  const DeviceBuffer x(256 << 20);
  const Event start(Event::Use::timing), end(Event::Use::timing);
  start.record(*stream);
  for (int i = 0; i < 20; ++i) fill_bytes(x.data(), 1, x.bytes(), *stream);
  end.record(*stream);
  end.synchronize();
  EXPECT_TRUE(end.done());
  EXPECT_TRUE(stream->idle());
  EXPECT_GT(end.ms_since(start), 0.2);
  EXPECT_LT(end.ms_since(start), 1000);
}

}  // namespace
}  // namespace hydrac::runtime::cuda
