// Tiles that a spec may ask for (optimizations.attention_tiles): their kernels compile for each architecture,
// and nothing that a thread holds spills to memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cuda/attention/geometry.h"
#include "resources.h"

namespace hydrac::test {
namespace {

using cuda::AttentionKernel;
using cuda::AttentionProblem;
using cuda::TileShape;

// Capability, head_dim, whether probabilities are dropped.
using Config = std::tuple<int, int, bool>;

struct Template {
  AttentionKernel kernel;
  const char* name;
  const char* arguments;
};
constexpr Template kTemplates[] = {
    {AttentionKernel::forward, "forward", "HEADS(q), HEADS(k), HEADS(v), HEADS(x), lse"},
    {AttentionKernel::query_gradients, "query_gradients",
     "HEADS(q), HEADS(k), HEADS(v), HEADS(out), lse, HEADS(d_out), HEADS(x), terms"},
    {AttentionKernel::key_gradients, "key_gradients",
     "HEADS(q), HEADS(k), HEADS(v), HEADS(d_out), terms, HEADS(x), HEADS(y)"}};

AttentionProblem problem_of(const Config& config) {
  const auto [capability, head_dim, drops] = config;
  return {capability, 2, capability >= 80, drops, 8, 1024, 12, 12, head_dim};
}

std::string kernel_text(const Template& of, const TileShape& shape) {
  return fmt::format(
      R"(
extern "C" __global__ void __launch_bounds__(
    attention_launch(problem<{1}, {2}>, AttentionKernel::{0}).threads,
    attention_launch(problem<{1}, {2}>, AttentionKernel::{0}).blocks_per_sm)
{0}_{1}x{2}(const Storage* q, const Storage* k, const Storage* v, const Storage* out, float* lse, const Storage* d_out,
            Storage* x, Storage* y, QueryTerms* terms, unsigned key, unsigned threshold) {{
  constexpr AttentionProblem own = problem<{1}, {2}>;
  using Own = AttentionConfig<Storage, D, attention_family(own), attention_tile(own, AttentionKernel::{0}), CausalMask,
                              LinearScores, own.has_dropout>;
  constexpr SequenceShape sequence{{1024, 12, 12, 0.125f}};
  attention_{0}<Own>(sequence, {3}, AttentionDropout{{key, threshold, 1.25f}});
}}
)",
      of.name, shape.rows, shape.columns, of.arguments);
}

// All that the problem may have, of all kernels.
std::string source_of(const Config& config) {
  const auto [capability, head_dim, drops] = config;
  std::string source = fmt::format(
      R"(#include "cuda/attention/attention.cuh"
using namespace hydrac;
using namespace hydrac::cuda;
using Storage = {};
constexpr int D = {};
template <int rows, int columns>
constexpr AttentionProblem problem{{{}, 2, {}, {}, 8, 1024, 12, 12, D, true, false, false, 132,
                                   {{{{rows, columns}}, {{rows, columns}}, {{rows, columns}}}}}};
#define HEADS(tensor) {{tensor, 1024 * 12 * D, 12 * D, D}}
)",
      capability >= 80 ? "bf16" : "f16", head_dim, capability, capability >= 80, drops);
  for (const Template& of : kTemplates) {
    for (const TileShape shape : {TileShape{64, 32}, {64, 64}, {64, 128}, {128, 32}, {128, 64}, {128, 128}}) {
      if (tile_obstacle(problem_of(config), of.kernel, shape) == cuda::TileObstacle::none)
        source += kernel_text(of, shape);
    }
  }
  return source;
}

std::string name_of(const Config& config) {
  const auto [capability, head_dim, drops] = config;
  return fmt::format("sm_{}_{}{}", capability, head_dim, drops ? "_dropout" : "");
}

class CudaAttentionTiles : public CudaKernels, public testing::WithParamInterface<Config> {};

TEST_P(CudaAttentionTiles, SpillNothing) {
  const int capability = std::get<0>(GetParam());
  const std::vector<int> known = device_code::nvrtc_capabilities();
  if (!std::binary_search(known.begin(), known.end(), capability))
    GTEST_SKIP() << "NVRTC has no sm_" << capability;
  const std::vector<device_code::KernelResources> kernels = resources_of(source_of(GetParam()), capability);
  EXPECT_GE(kernels.size(), 5u);
  for (const device_code::KernelResources& kernel : kernels) expect_no_spills(kernel);
}

INSTANTIATE_TEST_SUITE_P(Of, CudaAttentionTiles,
                         testing::Values(Config{75, 64, false}, Config{80, 64, false}, Config{80, 128, true},
                                         Config{90, 64, true}, Config{90, 128, false}),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace hydrac::test
