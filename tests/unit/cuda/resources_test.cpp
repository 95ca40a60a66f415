// Generated kernels for every architecture: they compile, and nothing that a thread holds spills to memory.
#include "resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <future>
#include <iostream>
#include <optional>
#include <regex>
#include <set>

#include "codegen/cuda/body.h"
#include "codegen/cuda/program.h"
#include "emulated_body.h"
#include "gpu_model.h"
#include "tests/unit/support/test_name.h"

namespace hydrac::test {
namespace {

// A shipped spec, in 16 bits.
GpuModel model_of(const std::string& spec, const targets::Target& gpu) {
  std::vector<std::string> overrides;
  // What the spec leaves to its data, which is not here.
  if (spec == "quickstart" || spec == "shakespeare-char" || spec == "chatgot-small-char")
    overrides.push_back("model.vocab_size=256");
  if (spec.starts_with("series")) overrides = {"model.num_features=30", "model.num_labels=2"};
  return GpuModel(shipped_spec(spec, overrides), gpu.has_bf16() ? ir::DType::bf16 : ir::DType::f16);
}

// All fused kernels of it.
std::string source_of(const GpuModel& model, const targets::Target& gpu) {
  std::vector<std::pair<std::string, codegen::CudaKernels>> all;
  std::set<std::string> seen;
  for (const ir::Function& function : model.graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op != ir::Op::fused) continue;
        codegen::CudaKernels kernels = codegen::cuda_body_kernels(model.graph, node, gpu);
        if (!seen.insert(to_text(kernels.kernels[0].text)).second) continue;
        std::string name = kernels.kernels[0].name;
        std::ranges::replace_if(
            name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
        all.emplace_back(name + "_" + std::to_string(all.size()), std::move(kernels));
      }
    }
  }
  return cuda_source_of(model.graph, all, gpu);
}

// Its kernels, those of templates included, whose text has one of these words.
std::string program_source(GpuModel model, const targets::Target& gpu,
                           const std::vector<std::string>& words = {""}) {
  codegen::CudaOptions options;
  options.gpu = &gpu;
  options.cudnn_workspace = [](const program::AttentionShape&) { return std::nullopt; };
  options.gemm_workspace_bytes = 4;
  const program::Program program = codegen::build_cuda_program(model.graph, options);
  std::vector<const program::Kernel*> kernels;
  for (const program::Kernel& kernel : program.kernels) {
    const auto is_in = [&](const std::string& word) { return kernel.text.find(word) != std::string::npos; };
    if (std::ranges::any_of(words, is_in)) kernels.push_back(&kernel);
  }
  return codegen::cuda_source(program, kernels);
}

class CudaResources : public CudaKernels, public testing::WithParamInterface<const char*> {};

TEST_P(CudaResources, NoKernelSpillsOnAnyArchitecture) {
  const std::vector<int> known = device_code::nvrtc_capabilities();
  std::vector<std::pair<std::string, std::future<std::vector<device_code::KernelResources>>>> all;
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    const targets::Target* gpu = targets::find(arch);
    ASSERT_NE(gpu, nullptr) << arch;
    if (!std::binary_search(known.begin(), known.end(), gpu->capability)) continue;
    all.emplace_back(arch, std::async(std::launch::async, [spec = std::string(GetParam()), gpu] {
                       return resources_of(source_of(model_of(spec, *gpu), *gpu), gpu->capability);
                     }));
  }
  for (auto& [arch, pending] : all) {
    const std::vector<device_code::KernelResources> kernels = pending.get();
    EXPECT_FALSE(kernels.empty());
    if (arch == "sm_90") std::cout << to_table(kernels);
    for (const device_code::KernelResources& kernel : kernels) expect_no_spills(kernel, arch + ": ");
  }
}

// It may run beside the kernel that writes what it reads. Loads of read-only data (ld.global.nc) are not held
// back by the wait; those of tables that the library's cos() brings along need not be.
TEST_P(CudaResources, NoKernelTouchesMemoryBeforeItWaitsForTheOneBeforeIt) {
  const targets::Target& gpu = *targets::find("sm_90");
  const std::string ptx = ptx_of(program_source(model_of(GetParam(), gpu), gpu), 90);
  const std::regex access(R"(\b(ld|st|red|atom|cp)\.(?!param)[^;]*;)");
  int kernels = 0;
  for (size_t entry = ptx.find(".entry "), next; entry != std::string::npos; entry = next, ++kernels) {
    next = ptx.find(".entry ", entry + 1);
    const std::string text = ptx.substr(entry, next - entry);
    const std::string name = text.substr(0, text.find('('));
    const size_t wait = text.find("griddepcontrol.wait");
    ASSERT_NE(wait, std::string::npos) << name;
    std::smatch early;
    const std::string before = text.substr(0, wait);
    EXPECT_FALSE(std::regex_search(before, early, access)) << name << ": " << early.str();
    if (text.find("__cudart_") == std::string::npos) {
      EXPECT_EQ(text.find("ld.global.nc"), std::string::npos) << name;
    }
  }
  EXPECT_GT(kernels, 10);
}

// The optimizers' kernels with weights, gradients and moments of 16 bits.
TEST_F(CudaKernels, OfNarrowStateSpillNothing) {
  const std::vector<int> known = device_code::nvrtc_capabilities();
  for (const char* arch : {"sm_80", "sm_90", "sm_120"}) {
    const targets::Target& gpu = *targets::find(arch);
    if (!std::binary_search(known.begin(), known.end(), gpu.capability)) continue;
    for (const char* optimizer : {"adamw", "lion", "sgd", "muon"}) {
      spec::Spec spec = shipped_spec("llama-1b", {"train.gradient_accumulation_steps=1",
                                                  std::string("train.optimizer.name=") + optimizer});
      spec.optimizations.weights = spec::WeightType::bf16;
      spec.optimizations.gradients = spec::GradientType::compute;
      spec.optimizations.optimizer_state = spec::StateType::bf16;
      GpuModel model(std::move(spec), ir::DType::bf16);
      std::erase_if(model.graph.functions, [](const ir::Function& f) { return f.name != "update"; });
      int updates = 0;
      for (const device_code::KernelResources& kernel : resources_of(source_of(model, gpu), gpu.capability)) {
        EXPECT_EQ(kernel.spill_store_bytes, 0) << arch << ": " << kernel.kernel;
        updates += kernel.kernel.find(optimizer) != std::string::npos ? 1 : 0;
      }
      EXPECT_GE(updates, 2) << arch << ": " << optimizer;  // one for each type of gradient
    }
  }
}

// Attention and positions of packed documents: heads of 64 and learned positions, heads of 128, windows and
// rope. Kernels of mma.sync use all 255 registers, and may spill a word or two.
TEST_F(CudaKernels, OfDocumentsSpillNextToNothing) {
  const std::vector<int> known = device_code::nvrtc_capabilities();
  for (const char* arch : {"sm_75", "sm_80", "sm_90"}) {
    const targets::Target& gpu = *targets::find(arch);
    if (!std::binary_search(known.begin(), known.end(), gpu.capability)) continue;
    for (const auto& [spec, override] : {std::pair("gpt2-124m", "model.position=learned"),
                                         std::pair("llama-1b", "model.sliding_window=512")}) {
      const bool is_llama = spec == std::string("llama-1b");
      GpuModel model(shipped_spec(spec, {"data.document_mask=true", override,
                                         is_llama ? "model.head_dim=128" : "model.head_dim=64"}),
                     gpu.has_bf16() ? ir::DType::bf16 : ir::DType::f16);
      const std::string source = program_source(std::move(model), gpu, {"documents", "positions"});
      int attentions = 0;
      for (const device_code::KernelResources& kernel : resources_of(source, gpu.capability)) {
        EXPECT_LE(kernel.spill_store_bytes, gpu.capability == 90 ? 0 : 8)
            << arch << ", " << spec << ": " << kernel.kernel;
        attentions += kernel.kernel.find("attention") != std::string::npos ? 1 : 0;
      }
      EXPECT_EQ(attentions, 3) << arch << ", "
                               << spec;  // forward, d_q, d_k and d_v; evaluation's is training's
    }
  }
}

// Attention's forward pass with matmuls of 8 bits; that of evaluation stays as it is.
TEST_F(CudaKernels, OfFp8AttentionSpillNothing) {
  const targets::Target& gpu = *targets::find("sm_90");
  const passes::Fp8 fp8{
      .attention = true, .tokens = 1, .flops_of_16_bits = 1, .flops_of_8_bits = 1, .bytes_per_second = 1};
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{"model.head_dim=64"},
                                             {"model.head_dim=128"},
                                             {"model.head_dim=64", "model.sliding_window=512"},
                                             {"model.head_dim=128", "data.document_mask=true"}}) {
    GpuModel model(shipped_spec("llama-1b", overrides), ir::DType::bf16, {}, std::nullopt, fp8);
    const std::string source = program_source(std::move(model), gpu, {"fp8_operands", "fp8_forward"});
    const std::vector<device_code::KernelResources> kernels = resources_of(source, gpu.capability);
    EXPECT_EQ(kernels.size(), 2u);
    for (const device_code::KernelResources& kernel : kernels) expect_no_spills(kernel);
  }
}

// What no shipped spec has. Merging leaves column spaces in some of these that no loop walks.
TEST_F(CudaKernels, OfOtherOptionsCompile) {
  struct Options {
    const char* spec;
    std::vector<std::string> overrides;
    passes::RecomputeChoice recompute;
  };
  const targets::Target& gpu = *targets::find("sm_90");
  for (const Options& options :
       {Options{"hydra-180m", {}, {.norm = true, .act = true, .qk_norm = true}},
        Options{"hydra-180m", {}, {.block = true}},
        Options{"gpt2-124m", {"model.dropout=0.1"}, {.norm = true, .act = true}},
        Options{"gpt2-124m", {"model.dropout=0.1"}, {.block = true}},
        Options{"llama-1b",
                {"model.hidden_act=geglu_tanh", "model.mlp_bias=true", "model.intermediate_size=77"},
                {.norm = true}},
        // One kernel over heads of queries and of keys, whose columns have one name.
        Options{"hydra-100m", {"model.ccgqa.channel_conv=false"}, {}},
        Options{"hydra-100m", {"data.document_mask=true"}, {}}, Options{"hydra-mor", {}, {.block = true}},
        Options{"llama-1b", {"model.position=none", "model.hidden_act=relu2"}, {.act = true}}}) {
    const GpuModel model(shipped_spec(options.spec, options.overrides), ir::DType::bf16, options.recompute);
    EXPECT_FALSE(resources_of(source_of(model, gpu), gpu.capability).empty()) << options.spec;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, CudaResources,
                         testing::Values("gpt2-124m", "llama-1b", "hydra-180m", "hydra-100m", "hydra-mor",
                                         "quickstart", "shakespeare-char", "chatgot-small-char", "series",
                                         "series-classify", "llama-8b-qlora"),
                         [](const auto& info) { return without_dashes(info.param); });

}  // namespace
}  // namespace hydrac::test
