// Generated kernels for every architecture: they compile, and nothing that a thread holds spills to memory.
#include "resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <set>

#include "codegen/cuda_body.h"
#include "emulated_body.h"
#include "gpu_model.h"
#include "runtime/error.h"

namespace hydrac::test {
namespace {

// All fused kernels of a shipped spec, in bf16.
std::string source_of(const std::string& spec, const targets::Target& gpu) {
  const GpuModel model(shipped_spec(spec), gpu.has_bf16() ? ir::DType::bf16 : ir::DType::f16);
  std::vector<std::pair<std::string, codegen::CudaKernels>> all;
  std::set<std::string> seen;
  for (const ir::Function& function : model.graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op != "fused") continue;
        codegen::CudaKernels kernels = codegen::cuda_body_kernels(model.graph, node, gpu);
        if (!seen.insert(kernels.kernels[0].text).second) continue;
        std::string name = kernels.kernels[0].name;
        std::ranges::replace_if(
            name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
        all.emplace_back(name + "_" + std::to_string(all.size()), std::move(kernels));
      }
    }
  }
  return cuda_source_of(all);
}

class CudaResources : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      runtime::cuda::nvrtc_version();
    } catch (const runtime::InputError& error) {
      GTEST_SKIP() << "SKIPPED: " << error.what();
    }
  }
};

TEST_P(CudaResources, NoKernelSpillsOnAnyArchitecture) {
  const std::vector<int> known = runtime::cuda::nvrtc_capabilities();
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    const targets::Target* gpu = targets::find(arch);
    ASSERT_NE(gpu, nullptr) << arch;
    if (!std::binary_search(known.begin(), known.end(), gpu->capability)) continue;
    const auto kernels = resources_of(source_of(GetParam(), *gpu), gpu->capability);
    EXPECT_FALSE(kernels.empty());
    if (gpu->capability == 90) std::cout << to_table(kernels);
    for (const runtime::cuda::KernelResources& kernel : kernels) {
      EXPECT_EQ(kernel.spill_store_bytes, 0) << arch << ": " << kernel.kernel;
      EXPECT_EQ(kernel.spill_load_bytes, 0) << arch << ": " << kernel.kernel;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, CudaResources, testing::Values("gpt2-124m", "llama-1b", "hydra-180m"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hydrac::test
