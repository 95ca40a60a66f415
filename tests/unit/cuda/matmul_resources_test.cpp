// Matmuls with fused epilogues compile behind the real kernels without spilling.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "codegen/cuda/body.h"
#include "codegen/cuda/program.h"
#include "driver/compile.h"
#include "emulated_body.h"
#include "fused_matmuls.h"
#include "gpu_model.h"
#include "resources.h"

namespace hydrac::test {
namespace {

class MatmulKernels : public CudaKernels {};

// Behind the real matmul, at the sizes that are trained. What is taken by itself spills nothing.
TEST_F(MatmulKernels, WithEpiloguesCompileAndWhereTheyPaySpillNothing) {
  struct Options {
    const char* spec;
    std::vector<std::string> overrides;
    passes::RecomputeChoice recompute = {};
  };
  const targets::Target& gpu = *targets::find("sm_90");
  int paying = 0;
  for (const Options& options :
       {Options{"gpt2-124m", {}}, Options{"gpt2-124m", {}, {.act = true}}, Options{"llama-1b", {}},
        Options{"llama-1b", {}, {.norm = true, .act = true}},
        Options{"llama-1b", {"adapter.type=lora", "adapter.r=16"}},
        Options{"llama-1b", {"adapter.type=lora", "adapter.r=16"}, {.norm = true, .act = true}},
        Options{"shakespeare-char", {"model.vocab_size=100"}},
        Options{"shakespeare-char", {"model.vocab_size=100", "optimizations.residual=compute"}},
        Options{"shakespeare-char",
                {"model.vocab_size=100", "optimizations.residual=compute", "model.dropout=0",
                 "model.norm=rmsnorm"}}}) {
    const auto lowered = [&](const passes::FusedMatmuls& matmuls) {
      return GpuModel(shipped_spec(options.spec, options.overrides), ir::DType::bf16, options.recompute,
                      matmuls);
    };
    const GpuModel model = lowered(kWhereverPossible), by_itself = lowered({.chip = cuda::kHopper});
    std::set<std::string> taken;  // texts
    for (const auto& [node, layer] : fused_matmuls(by_itself.graph))
      taken.insert(to_text(codegen::cuda_body_kernels(by_itself.graph, *node, gpu).kernels[0].text));
    std::vector<std::pair<std::string, codegen::CudaKernels>> all;
    std::set<std::string> pays;
    for (const auto& [node, layer] : fused_matmuls(model.graph)) {
      const std::string name = "matmul_" + std::to_string(all.size());
      all.emplace_back(name, codegen::cuda_body_kernels(model.graph, *node, gpu));
      if (taken.contains(to_text(all.back().second.kernels[0].text))) pays.insert(kernel_name(name, 0));
    }
    ASSERT_FALSE(all.empty()) << options.spec;
    const std::vector<device_code::KernelResources> kernels =
        resources_of(cuda_source_of(model.graph, all, gpu), gpu.capability);
    std::cout << options.spec << "\n" << to_table(kernels);
    for (const device_code::KernelResources& kernel : kernels) {
      if (!pays.contains(kernel.kernel)) continue;
      ++paying;
      expect_no_spills(kernel);
    }
  }
  EXPECT_GT(paying, 0);
}

// Each kernel is compiled by itself, with the sizes that its own text names: those of a tail too.
TEST_F(MatmulKernels, WithTailsDeclareWhatTheyName) {
  spec::Spec spec = shipped_spec("llama-1b", {"adapter.type=lora", "adapter.r=16"});
  spec.target = "h100";
  spec.optimizations.precision = spec::Precision::bf16;
  const driver::Compiled compiled = driver::compile(spec, passes::RecomputeChoice{}, {});
  int tails = 0;
  for (const program::Kernel& kernel : compiled.program.kernels) {
    if (kernel.text.find("tail_left") == std::string::npos) continue;
    ++tails;
    const std::vector<const program::Kernel*> alone = {&kernel};
    for (const device_code::KernelResources& used :
         resources_of(codegen::cuda_source(compiled.program, alone), 90))
      expect_no_spills(used);
  }
  EXPECT_GE(tails, 4);
}

TEST_F(MatmulKernels, OfSmallMatmulsCompileAndSpillNothing) {
  const targets::Target& gpu = *targets::find("sm_90");
  for (const passes::RecomputeChoice& recompute :
       {passes::RecomputeChoice{}, passes::RecomputeChoice{.act = true}}) {
    const GpuModel model(small_spec(kTiny, kTinyTrain), ir::DType::bf16, recompute,
                         passes::FusedMatmuls{.chip = cuda::kHopper});
    std::vector<std::pair<std::string, codegen::CudaKernels>> all;
    for (const auto& [node, layer] : fused_matmuls(model.graph))
      all.emplace_back("matmul_" + std::to_string(all.size()),
                       codegen::cuda_body_kernels(model.graph, *node, gpu));
    ASSERT_FALSE(all.empty());
    const std::vector<device_code::KernelResources> kernels =
        resources_of(cuda_source_of(model.graph, all, gpu), gpu.capability);
    std::cout << to_table(kernels);
    for (const device_code::KernelResources& kernel : kernels) expect_no_spills(kernel);
  }
}

}  // namespace
}  // namespace hydrac::test
