// The emulator: it computes what CUDA does, and says so when a kernel would hang or race.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "../support/temp_dir.h"
#include "emulated_kernels.h"

namespace hydrac::emulation {
namespace {

using test::message_of;

constexpr const char* kSums = R"(
extern "C" __global__ void __launch_bounds__(128) row_sums(const float* __restrict__ x, float* y, int width) {
  __shared__ float parts[4];
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += x[blockIdx.x * width + i];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}
)";

TEST(CudaEmulation, SumsRowsOfManyBlocks) {
  EmulatedKernels kernels(kSums, {"row_sums"});
  const int rows = 3000, width = 300;
  std::vector<float> x(rows * width), y(rows, NAN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17);
  const float* from = x.data();
  float* to = y.data();
  kernels.launch_both_orders("row_sums", {{rows, 1, 1}, {128, 1, 1}}, addresses(from, to, width),
                             std::vector{bytes_of(y)});
  for (int r = 0; r < rows; ++r)
    ASSERT_EQ(y[r], std::accumulate(x.begin() + r * width, x.begin() + (r + 1) * width, 0.0f)) << r;
}

// A kernel that writes one int a thread of its block (and grid) to `out`.
std::vector<int> ints_of(const std::string& body, Geometry geometry, const std::string& head = "") {
  EmulatedKernels kernels(head +
                              "extern \"C\" __global__ void probe(int* out) {\n  const int t = threadIdx.x + "
                              "blockDim.x * (threadIdx.y "
                              "+ blockDim.y * threadIdx.z);\n" +
                              body + "\n}\n",
                          {"probe"});
  std::vector<int> out(geometry.block.x * geometry.block.y * geometry.block.z * geometry.grid.x *
                       geometry.grid.y * geometry.grid.z);
  int* to = out.data();
  kernels.launch_both_orders("probe", geometry, addresses(to), std::vector{bytes_of(out)});
  return out;
}

// The message that running `body` ends with.
std::string error_of(const std::string& body, Geometry geometry = {{1, 1, 1}, {64, 1, 1}}) {
  return message_of<EmulationError>([&] { ints_of(body, geometry); });
}

// A copy arrives as late as it may.
TEST(CudaEmulation, CopiesArriveWhenTheyAreWaitedFor) {
  const std::vector<int> out = ints_of(R"(
  __shared__ int places[3];
  static const int numbers[3] = {10, 20, 30};
  using hydrac::emulation::state;
  for (int i = 0; i < 3; ++i) {
    state.copy_later(&places[i], &numbers[i], sizeof(int));
    state.commit_copies();
  }
  const int before = places[0];
  state.wait_copies_before(2);
  const int first = places[0], second = places[1];
  state.commit_copies();  // of nothing
  state.wait_copies_before(2);
  const int then = places[1], third = places[2];
  state.wait_copies();
  out[0] = before, out[1] = first, out[2] = second, out[3] = then, out[4] = third, out[5] = places[2];
)",
                                       {{6, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(out, (std::vector<int>{-1, 10, -1, 20, -1, 30}));
}

TEST(CudaEmulation, ThreadAndBlockIndicesCountXFirst) {
  const auto out = ints_of(
      "const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
      "out[b * 24 + t] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * (threadIdx.x + 10 * "
      "threadIdx.y "
      "+ 100 * threadIdx.z);",
      {{2, 3, 2}, {4, 3, 2}});
  ASSERT_EQ(out.size(), 12u * 24u);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 1000);
  EXPECT_EQ(out[4], 10000);
  EXPECT_EQ(out[12], 100000);
  EXPECT_EQ(out[24], 1);
  EXPECT_EQ(out[48], 10);
  EXPECT_EQ(out[12 * 24 - 1], 121 + 1000 * 123);
}

TEST(CudaEmulation, ShufflesFollowTheGuide) {
  const Geometry warp{{1, 1, 1}, {32, 1, 1}};
  const auto up = ints_of("out[t] = __shfl_up_sync(0xFFFFFFFFu, t, 3, 8);", warp);
  const auto down = ints_of("out[t] = __shfl_down_sync(0xFFFFFFFFu, t, 3, 8);", warp);
  const auto crossed = ints_of("out[t] = __shfl_xor_sync(0xFFFFFFFFu, t, 5);", warp);
  const auto crossed_far = ints_of("out[t] = __shfl_xor_sync(0xFFFFFFFFu, t, 8, 8);", warp);
  const auto broadcast = ints_of("out[t] = __shfl_sync(0xFFFFFFFFu, t, 10, 8);", warp);
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(up[t], t % 8 < 3 ? t : t - 3);
    EXPECT_EQ(down[t], t % 8 > 4 ? t : t + 3);
    EXPECT_EQ(crossed[t], t ^ 5);
    EXPECT_EQ(crossed_far[t], t & 8 ? t - 8 : t);  // a segment may read those before it, not those behind it
    EXPECT_EQ(broadcast[t], t / 8 * 8 + 2);
  }
}

TEST(CudaEmulation, ShufflesMoveDoublesAndHalfWarps) {
  const auto out = ints_of(
      "if (t < 16) {\n"
      "  double x = 0.5 * t;\n"
      "  for (int lanes = 8; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0x0000FFFFu, x, lanes);\n"
      "  out[t] = static_cast<int>(x);\n"
      "} else {\n"
      "  out[t] = __shfl_sync(0xFFFF0000u, t, 31);\n"
      "}",
      {{1, 1, 1}, {32, 1, 1}});
  for (int t = 0; t < 32; ++t) EXPECT_EQ(out[t], t < 16 ? 60 : 31);
}

TEST(CudaEmulation, VotesAndReductionsSeeTheMaskOnly) {
  const auto out = ints_of(
      "if (t >= 8) return;\n"
      "const unsigned mask = 0xFFu;\n"
      "out[t] = __ballot_sync(mask, t % 3 == 0) + 1000 * __any_sync(mask, t == 20) + 10000 * "
      "__all_sync(mask, t < 8);\n"
      "out[8 + t] = __reduce_add_sync(mask, t);\n"
      "out[16 + t] = __reduce_max_sync(mask, t) * 10 + __reduce_min_sync(mask, t + 2);\n"
      "out[24 + t] = __match_any_sync(mask, t % 2);",
      {{1, 1, 1}, {32, 1, 1}});
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(out[t], 0b1001001 + 10000);
    EXPECT_EQ(out[8 + t], 28);
    EXPECT_EQ(out[16 + t], 72);
    EXPECT_EQ(out[24 + t], t % 2 ? 0xAA : 0x55);
  }
}

TEST(CudaEmulation, BarriersCountPredicates) {
  const auto out = ints_of(
      "const int count = __syncthreads_count(t % 5 == 0);\n"
      "const int any = __syncthreads_or(t == 63), all = __syncthreads_and(t < 63);\n"
      "out[t] = count * 100 + any * 10 + all;",
      {{1, 1, 1}, {64, 1, 1}});
  for (int value : out) EXPECT_EQ(value, 1310);
}

TEST(CudaEmulation, A1024ThreadBlockSharesMemory) {
  const auto out = ints_of(
      "__shared__ int shared[1024];\n"
      "shared[t] = t * t;\n"
      "__syncthreads();\n"
      "const int other = shared[1023 - t];\n"
      "__syncthreads();\n"
      "shared[t] = other + 1;\n"
      "__syncthreads();\n"
      "out[blockIdx.x * 1024 + t] = shared[t ^ 32];",
      {{3, 1, 1}, {1024, 1, 1}});
  for (int i = 0; i < 3 * 1024; ++i) {
    const int other = 1023 - (i % 1024 ^ 32);
    ASSERT_EQ(out[i], other * other + 1);
  }
}

// Functions of two namespaces see the same dynamic shared memory, aligned as they ask.
TEST(CudaEmulation, DynamicSharedMemoryIsOneBlockOfBytes) {
  const Geometry geometry{{2, 1, 1}, {64, 1, 1}, 64 * sizeof(int)};
  const auto out = ints_of(
      "extern __shared__ __align__(1024) unsigned char shared[];\n"
      "reinterpret_cast<int*>(shared)[t] = t + blockIdx.x;\n"
      "__syncthreads();\n"
      "out[blockIdx.x * 64 + t] = hydrac::reversed(t) + 1000 * (reinterpret_cast<unsigned "
      "long>(shared) % 1024);",
      geometry,
      "namespace hydrac {\n"
      "__device__ __forceinline__ int reversed(int t) {\n"
      "  extern __shared__ __align__(1024) unsigned char shared[];\n"
      "  return reinterpret_cast<int*>(shared)[63 - t];\n"
      "}\n"
      "}  // namespace hydrac\n");
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out[i], 63 - i % 64 + i / 64);
}

TEST(CudaEmulation, SharedMemoryOfTemplatesIsPoisonedInEveryBlock) {
  const auto out =
      ints_of("out[blockIdx.x * 32 + t] = poisoned<float>(t) + poisoned<bf16>(t);", {{2, 1, 1}, {32, 1, 1}},
              "#include \"cuda/types.cuh\"\n"
              "using namespace hydrac;\n"
              "template <typename T>\n"
              "__device__ int poisoned(int t) {\n"
              "  __shared__ T values[32];\n"
              "  const float before = to_float(values[t]);\n"
              "  values[t] = from_float<T>(1.0f);\n"
              "  return before != before;\n"
              "}\n");
  for (int value : out) EXPECT_EQ(value, 2);
}

// Two libraries with the same template do not share its memory.
TEST(CudaEmulation, LibrariesAreApart) {
  const std::string text =
      "template <int n> __device__ int* memory() { __shared__ int values[n]; return values; }\n"
      "extern \"C\" __global__ void where(long* out) { *out = reinterpret_cast<long>(memory<8>()); }\n";
  EmulatedKernels first(text, {"where"}), second(text, {"where"});
  long a = 0, b = 0, *at_a = &a, *at_b = &b;
  first.launch("where", {}, addresses(at_a));
  second.launch("where", {}, addresses(at_b));
  EXPECT_NE(a, 0);
  EXPECT_NE(a, b);
}

// Two halves of a block, each with a barrier of its own and at its own pace.
TEST(CudaEmulation, NamedBarriersHoldTheirThreadsOnly) {
  const auto out = ints_of(
      "__shared__ int shared[128];\n"
      "const int half = t / 64;\n"
      "for (int i = 0; i < 2 + 3 * half; ++i) {\n"
      "  shared[t] = t + i;\n"
      "  hydrac::emulation::named_barrier(1 + half, 64);\n"
      "  out[t] = shared[t ^ 32];\n"
      "  hydrac::emulation::named_barrier(1 + half, 64);\n"
      "}",
      {{1, 1, 1}, {128, 1, 1}});
  for (int t = 0; t < 128; ++t) EXPECT_EQ(out[t], (t ^ 32) + (t < 64 ? 1 : 4));
}

// What would hang, or give garbage.

TEST(CudaEmulation, AReturnBeforeABarrierIsAnError) {
  EXPECT_EQ(
      error_of("if (t == 5) return;\n__syncthreads();\nout[t] = t;"),
      "probe, block (0,0,0): thread (0,0,0) waits at __syncthreads (kernels:4), thread (5,0,0) has returned");
}

TEST(CudaEmulation, TwoBarriersAreNotOne) {
  EXPECT_EQ(
      error_of("if (t < 32) {\n  __syncthreads();\n} else {\n  __syncthreads();\n}\nout[t] = t;"),
      "probe, block (0,0,0): thread (0,0,0) waits at __syncthreads (kernels:4), thread (32,0,0) waits at "
      "__syncthreads (kernels:6)");
}

TEST(CudaEmulation, ANamedBarrierWithTooFewOrTooManyThreadsIsAnError) {
  EXPECT_EQ(error_of("if (t < 32) hydrac::emulation::named_barrier(3, 64);\nout[t] = t;"),
            "probe, block (0,0,0): thread (0,0,0) waits at bar.sync (kernels:3) for 64 threads at barrier 3, "
            "where 32 "
            "are");
  EXPECT_EQ(error_of("hydrac::emulation::named_barrier(3, 32);\nout[t] = t;"),
            "probe, block (0,0,0): thread (0,0,0) waits at bar.sync (kernels:3) for 32 threads at barrier 3, "
            "where 64 "
            "are");
  EXPECT_EQ(error_of("hydrac::emulation::named_barrier(16, 32);"),
            "probe, block (0,0,0): thread (0,0,0) names a barrier outside 1 to 15 at bar.sync (kernels:3)");
  EXPECT_EQ(error_of("hydrac::emulation::named_barrier(1, 40);"),
            "probe, block (0,0,0): thread (0,0,0) waits for threads that are no whole warps at bar.sync "
            "(kernels:3)");
}

TEST(CudaEmulation, AMaskThatNamesALaneThatReturnedIsAnError) {
  EXPECT_EQ(error_of("if (t == 40) return;\nout[t] = __shfl_xor_sync(0xFFFFFFFFu, t, 1);"),
            "probe, block (0,0,0): thread (32,0,0) waits at __shfl_xor_sync (kernels:4) with mask 0xffffffff "
            "for lane "
            "8, thread (40,0,0) has returned");
}

TEST(CudaEmulation, AMaskThatNamesALaneAtABarrierIsAnError) {
  EXPECT_EQ(
      error_of("int x = t;\nif (t < 16) x = __shfl_sync(0xFFFFFFFFu, x, 0);\n__syncthreads();\nout[t] = x;"),
      "probe, block (0,0,0): thread (0,0,0) waits at __shfl_sync (kernels:4) with mask 0xffffffff for lane "
      "16, "
      "thread (16,0,0) waits at __syncthreads (kernels:5)");
}

TEST(CudaEmulation, AMaskBeyondTheBlockIsAnError) {
  EXPECT_EQ(error_of("out[t] = __shfl_xor_sync(0xFFFFFFFFu, t, 1);", {{1, 1, 1}, {40, 1, 1}}),
            "probe, block (0,0,0): thread (32,0,0) waits at __shfl_xor_sync (kernels:3) with mask 0xffffffff "
            "for lane "
            "8, which the block does not have");
}

TEST(CudaEmulation, ALaneOutsideItsOwnMaskIsAnError) {
  EXPECT_EQ(
      error_of("__syncwarp(0x7FFFFFFFu);\nout[t] = t;"),
      "probe, block (0,0,0): thread (31,0,0) is not in the mask that it passes at __syncwarp (kernels:3)");
}

TEST(CudaEmulation, ReadingALaneOutsideTheMaskIsAnError) {
  EXPECT_EQ(error_of("if (t % 32 < 4) out[t] = __shfl_sync(0xFu, t, 4);"),
            "probe, block (0,0,0): thread (0,0,0) reads a lane that its mask does not name at __shfl_sync "
            "(kernels:3)");
}

TEST(CudaEmulation, AnOddWidthIsAnError) {
  EXPECT_EQ(
      error_of("out[t] = __shfl_sync(0xFFFFFFFFu, t, 0, 12);"),
      "probe, block (0,0,0): thread (0,0,0) asks for a width that is no power of two up to 32 at __shfl_sync "
      "(kernels:3)");
}

TEST(CudaEmulation, ATrapNamesItsThread) {
  EXPECT_EQ(error_of("if (blockIdx.x == 2 && t == 33) __trap();\nout[blockIdx.x * 64 + t] = t;",
                     {{3, 1, 1}, {64, 1, 1}}),
            "probe, block (2,0,0): thread (33,0,0) traps at __trap");
}

TEST(CudaEmulation, AMissingBlockBarrierIsARace) {
  EXPECT_EQ(error_of("__shared__ int shared[64];\nshared[t] = t;\nout[t] = shared[63 - t];"),
            "probe: threads race: byte 0 of buffer 0 depends on the order in which they run");
}

// Every thread reads before thread 0 writes only if a barrier says so.
TEST(CudaEmulation, AMissingBarrierBeforeAWriteIsARace) {
  const std::string body =
      "__shared__ int shared;\nif (t == 0) shared = 7;\n__syncthreads();\nout[t] = shared;\n@if (t == 0) "
      "shared = 8;";
  const size_t at = body.find('@');
  EXPECT_EQ(error_of(std::string(body).replace(at, 1, "")),
            "probe: threads race: byte 4 of buffer 0 depends on the order in which they run");
  const auto out = ints_of(std::string(body).replace(at, 1, "__syncthreads();\n"), {{1, 1, 1}, {64, 1, 1}});
  for (int value : out) EXPECT_EQ(value, 7);
}

TEST(CudaEmulation, AMissingWarpBarrierIsARace) {
  const std::string body = "__shared__ int shared[64];\nshared[t] = t;\n@out[t] = shared[t ^ 1];";
  const size_t at = body.find('@');
  EXPECT_EQ(error_of(std::string(body).replace(at, 1, "")),
            "probe: threads race: byte 0 of buffer 0 depends on the order in which they run");
  const auto out = ints_of(std::string(body).replace(at, 1, "__syncwarp();\n"), {{1, 1, 1}, {64, 1, 1}});
  for (int t = 0; t < 64; ++t) EXPECT_EQ(out[t], t ^ 1);
}

TEST(CudaEmulation, BlocksThatReadEachOthersResultsRace) {
  EXPECT_EQ(error_of("out[blockIdx.x] = blockIdx.x + 1 + out[(blockIdx.x + 1) % 4];", {{4, 1, 1}, {1, 1, 1}}),
            "probe: threads race: byte 0 of buffer 0 depends on the order in which they run");
}

TEST(CudaEmulation, WritingBehindDynamicSharedMemoryIsAnError) {
  const std::string body =
      "extern __shared__ unsigned char shared[];\nshared[t] = 1;\nout[t] = "
      "shared[t];";
  EXPECT_EQ(error_of(body, {{1, 1, 1}, {64, 1, 1}, 63}),
            "probe, block (0,0,0): writes byte 63 of the 63 bytes of its dynamic shared memory");
  EXPECT_EQ(ints_of(body, {{1, 1, 1}, {64, 1, 1}, 64}), std::vector<int>(64, 1));
}

TEST(CudaEmulation, ALaunchThatCudaRefusesIsAnError) {
  EXPECT_EQ(error_of("", {{1, 1, 1}, {1025, 1, 1}}),
            "probe: a block of (1025,1,1) threads cannot be launched");
  EXPECT_EQ(error_of("", {{1, 65536, 1}, {1, 1, 1}}),
            "probe: a grid of (1,65536,1) blocks cannot be launched");
  EXPECT_EQ(error_of("", {{1, 1, 1}, {1, 1, 1}, 232449}),
            "probe: 232449 bytes of dynamic shared memory, of at most 232448");
}

TEST(CudaEmulation, ArgumentsAreCounted) {
  EmulatedKernels kernels(kSums, {"row_sums"});
  int n = 1;
  EXPECT_EQ(message_of<EmulationError>([&] { kernels.launch("row_sums", {}, addresses(n)); }),
            "row_sums takes 3 arguments, not 1");
  EXPECT_EQ(message_of<EmulationError>([&] { kernels.launch("sums", {}, addresses(n)); }),
            "the library has no kernel sums");
}

TEST(CudaEmulation, TextThatDoesNotCompileShowsTheCompilersMessage) {
  const std::string message = message_of<EmulationError>(
      [] { EmulatedKernels("\nextern \"C\" __global__ void k() { wrong(); }", {"k"}); });
  EXPECT_NE(message.find("kernels:2:"), std::string::npos) << message;
  EXPECT_NE(message.find("wrong"), std::string::npos) << message;
}

// After an error the same library runs on.
TEST(CudaEmulation, ALaunchAfterAnErrorIsWhole) {
  EmulatedKernels kernels(
      "extern \"C\" __global__ void k(int* out, int leaves) {\n"
      "  if (static_cast<int>(threadIdx.x) == leaves) return;\n"
      "  __syncthreads();\n"
      "  out[threadIdx.x] = threadIdx.x;\n"
      "}\n",
      {"k"});
  std::vector<int> out(256, -1);
  int* to = out.data();
  int leaves = 200;
  const Geometry geometry{{1, 1, 1}, {256, 1, 1}};
  EXPECT_THROW(kernels.launch("k", geometry, addresses(to, leaves)), EmulationError);
  EXPECT_EQ(out, std::vector<int>(256, -1));
  leaves = -1;
  kernels.launch("k", geometry, addresses(to, leaves));
  for (int t = 0; t < 256; ++t) EXPECT_EQ(out[t], t);
}

}  // namespace
}  // namespace hydrac::emulation
