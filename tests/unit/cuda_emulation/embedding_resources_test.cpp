// The embedding's gradient compiled by NVRTC: for every architecture, without spills. Needs NVRTC but no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../support/temp_dir.h"
#include "runtime/error.h"
#include "targets/device_code/nvrtc.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::runtime::cuda {
namespace {

using namespace device_code;

// (name, type of d_y, type of d_table, the EmbeddingGradient): widths that use accesses of every size.
struct Shape {
  const char* name;
  const char* d_y;
  const char* table;
  const char* gradient;
};
constexpr Shape kShapes[] = {
    {"gpt2", "bf16", "float", "65536, 768, 50304, 2, 4, true"},
    {"llama", "bf16", "bf16", "16384, 2048, 128256, 2, 2, false"},
    {"full", "float", "float", "65536, 768, 50304, 4, 4, false"},
    {"chars", "f16", "float", "16384, 384, 128, 2, 4, false"},
    {"odd", "bf16", "float", "1000, 37, 65, 2, 4, true"},
    {"wide", "bf16", "f16", "1000000, 5120, 65, 2, 2, true"},
    {"narrow", "bf16", "float", "1000000, 8, 65, 2, 4, false"},
};

// Each pair of kernels as the compiler prints it.
std::string source() {
  std::string text =
      "#include \"cuda/embedding_backward.cuh\"\nusing namespace hydrac;\nusing namespace hydrac::cuda;\n";
  for (const Shape& shape : kShapes) {
    text += fmt::format("constexpr EmbeddingGradient {0}_gradient{{{1}}};\n", shape.name, shape.gradient);
    text += fmt::format("constexpr EmbeddingLaunch {0}_runs_launch = embedding_runs_launch({0}_gradient);\n",
                        shape.name);
    text += fmt::format(
        "constexpr EmbeddingLaunch {0}_borders_launch = embedding_borders_launch({0}_gradient);\n",
        shape.name);
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({0}_runs_launch.threads, "
        "{0}_runs_launch.blocks_per_sm)\n"
        "{0}_runs(const int* ids, const int* order, const {1}* d_y, {2}* d_table, float* workspace) {{\n"
        "  embedding_gradient_runs<{1}, {2}, {0}_gradient>(ids, order, d_y, d_table, workspace);\n}}\n"
        "extern \"C\" __global__ void __launch_bounds__({0}_borders_launch.threads, "
        "{0}_borders_launch.blocks_per_sm)\n"
        "{0}_borders(float* workspace, {2}* d_table) {{\n"
        "  embedding_gradient_borders<{2}, {0}_gradient>(workspace, d_table);\n}}\n",
        shape.name, shape.d_y, shape.table);
  }
  return text;
}

TEST(EmbeddingResources, NoSpillsOnAnyArchitecture) {
  std::vector<int> known;
  try {
    known = nvrtc_capabilities();
  } catch (const InputError& error) {
    GTEST_SKIP() << "SKIPPED: " << error.what();
  }
  CompileRequest request;
  request.source = source();
  const std::filesystem::path templates = std::filesystem::path(hydrac::test::source_dir()) / "templates";
  for (const char* name : {"cuda/embedding_backward.cuh", "cuda/embedding_geometry.h", "cuda/types.cuh"})
    request.headers.emplace_back(name, test::slurp(templates / name));
  request.headers.emplace_back("hydrac/math.h", test::slurp(templates / "include/hydrac/math.h"));
  request.options = {"-default-device"};  // constexpr functions are plain C++
  request.headers.emplace_back("cstdint", test::slurp(templates / "cuda/nvrtc/cstdint"));
  for (int capability : {75, 80, 86, 89, 90, 100, 120}) {
    if (!std::binary_search(known.begin(), known.end(), capability)) continue;
    request.capability = capability;
    const DeviceCode code = compile(request);
    ASSERT_EQ(code.kernels.size(), 2 * std::size(kShapes));
    for (const KernelResources& kernel : code.kernels) {
      EXPECT_EQ(kernel.spill_store_bytes + kernel.spill_load_bytes, 0)
          << kernel.kernel << " on sm_" << capability;
      EXPECT_EQ(kernel.stack_bytes, 0) << kernel.kernel << " on sm_" << capability;
    }
  }
}

}  // namespace
}  // namespace hydrac::runtime::cuda
