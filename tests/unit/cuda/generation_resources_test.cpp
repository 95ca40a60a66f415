// The kernels of generation with a cache, for every architecture and kind of model: they compile without
// spills.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "codegen/cuda/program.h"
#include "driver/compile.h"
#include "resources.h"
#include "tests/unit/core/small_models.h"

namespace hydrac::test {
namespace {

// Those of templates that only generation has.
std::string source_of(const program::Program& program) {
  const std::set<std::string> headers = {"cuda/attention_decode.cuh", "cuda/cache_append.cuh",
                                         "cuda/row_history.cuh", "cuda/top_logits.cuh"};
  std::vector<const program::Kernel*> kernels;
  for (const program::Kernel& kernel : program.kernels) {
    if (headers.contains(kernel.header)) kernels.push_back(&kernel);
  }
  return codegen::cuda_source(program, kernels);
}

struct Case {
  std::string model;
  models::Generation generation;
  spec::Precision precision = spec::Precision::fp16;
};

driver::Compiled llama(int64_t sequences, spec::FusedMatmuls fused_matmuls) {
  spec::Spec spec = shipped_spec("llama-1b");
  spec.target = "sm_90";
  spec.optimizations.precision = spec::Precision::bf16;
  spec.optimizations.fused_matmuls = fused_matmuls;
  driver::CompileOptions options;
  options.generation = models::Generation{sequences, 1, 128, 64, 384};
  return driver::compile(spec, passes::RecomputeChoice{}, options);
}

std::vector<const program::Kernel*> matmuls_of(const driver::Compiled& compiled) {
  std::vector<const program::Kernel*> matmuls;
  for (const program::Kernel& kernel : compiled.program.kernels) {
    if (kernel.header != "cuda/matmul/matmul.cuh") continue;
    EXPECT_NE(kernel.text.find("MatmulSchedule::few_rows"), std::string::npos) << "only decode has any";
    matmuls.push_back(&kernel);
  }
  return matmuls;
}

// The matmuls of a token of each sequence of llama-1b, split and paired ones.
TEST_F(CudaKernels, OfMatmulsOfFewRowsDoNotSpill) {
  for (const int64_t sequences : {3, 64}) {
    const driver::Compiled compiled = llama(sequences, spec::FusedMatmuls::all);
    const std::vector<const program::Kernel*> matmuls = matmuls_of(compiled);
    EXPECT_EQ(matmuls.size(), 4u) << "q, k and v; what attention gives; up with its activation; down";
    for (const device_code::KernelResources& kernel :
         resources_of(codegen::cuda_source(compiled.program, matmuls), 90))
      expect_no_spills(kernel, fmt::format("{} sequences: ", sequences));
  }
}

TEST_F(CudaKernels, OfMatmulsOfFewRowsAreThoseOfManySequences) {
  EXPECT_EQ(matmuls_of(llama(64, spec::FusedMatmuls::auto_)).size(), 4u);
  EXPECT_EQ(matmuls_of(llama(33, spec::FusedMatmuls::auto_)).size(), 4u);
  EXPECT_EQ(matmuls_of(llama(32, spec::FusedMatmuls::auto_)).size(), 0u);
  EXPECT_EQ(matmuls_of(llama(64, spec::FusedMatmuls::none)).size(), 0u);
}

const std::string kSizes = "hidden_size: 512, num_hidden_layers: 2, vocab_size: 30000, ";
const Case kCases[] = {
    {kSizes + "num_attention_heads: 8, num_key_value_heads: 2, head_dim: 128", {1, 1, 64, 64}},
    {kSizes + "num_attention_heads: 16, num_key_value_heads: 1, head_dim: 256", {2, 2, 64, 64}},
    {kSizes + "num_attention_heads: 8, head_dim: 80, sliding_window: 100, sliding_window_pattern: 2",
     {64, 8, 64, 64}},
    {kSizes + "num_attention_heads: 8, num_key_value_heads: 1, head_dim: 64, attention_softcap: 30",
     {3, 1, 64, 64},
     spec::Precision::fp32},
    {kSizes + "num_attention_heads: 16, num_key_value_heads: 4, head_dim: 64",
     {128, 1, 64, 64},
     spec::Precision::bf16},
    {kSizes + "num_attention_heads: 16, num_key_value_heads: 4, head_dim: 128",
     {128, 1, 64, 64},
     spec::Precision::bf16},
    {kSizes + "num_attention_heads: 8, num_key_value_heads: 2, head_dim: 16, attention_kind: ccgqa",
     {64, 8, 64, 64}},
};

// `pages`: of 64 tokens, of the cache; 0: each text has room.
void expect_no_spills_of(const Case& c, const targets::Target& target, int64_t pages) {
  if (c.precision == spec::Precision::bf16 && target.capability < 80) return;
  spec::Spec spec = small_spec(c.model, "sequence_len: 1024, micro_batch_size: 1");
  spec.target = target.name;
  spec.optimizations.precision = c.precision;
  driver::CompileOptions options;
  options.generation = c.generation;
  options.generation->pages = pages;
  options.generation->page_tokens = pages > 0 ? 64 : 0;
  const driver::Compiled compiled = driver::compile(spec, passes::RecomputeChoice{}, options);
  const auto kernels = resources_of(source_of(compiled.program), target.capability);
  EXPECT_GE(kernels.size(), 4u);
  for (const device_code::KernelResources& kernel : kernels)
    expect_no_spills(kernel, fmt::format("{}, {}, {} pages: ", target.name, c.model, pages));
}

TEST_F(CudaKernels, OfGenerationDoNotSpill) {
  const std::string sizes = "hidden_size: 512, num_hidden_layers: 2, vocab_size: 30000, ";
  const Case cases[] = {
      {sizes + "num_attention_heads: 8, num_key_value_heads: 2, head_dim: 128", {1, 1, 64, 64}},
      {sizes + "num_attention_heads: 16, num_key_value_heads: 1, head_dim: 256", {2, 2, 64, 64}},
      {sizes + "num_attention_heads: 8, head_dim: 80, sliding_window: 100, sliding_window_pattern: 2",
       {64, 8, 64, 64}},
      {sizes + "num_attention_heads: 8, num_key_value_heads: 1, head_dim: 64, attention_softcap: 30",
       {3, 1, 64, 64},
       spec::Precision::fp32},
      {sizes + "num_attention_heads: 16, num_key_value_heads: 4, head_dim: 64",
       {128, 1, 64, 64},
       spec::Precision::bf16},
      {sizes + "num_attention_heads: 16, num_key_value_heads: 4, head_dim: 128",
       {128, 1, 64, 64},
       spec::Precision::bf16},
      {sizes + "num_attention_heads: 8, num_key_value_heads: 2, head_dim: 16, attention_kind: ccgqa",
       {64, 8, 64, 64}},
      {sizes + "num_attention_heads: 8, num_key_value_heads: 2, mod: {capacity: 0.125}", {64, 8, 64, 64}},
  };
  const std::vector<int> known = device_code::nvrtc_capabilities();
  std::set<int> seen;
  for (const targets::Target& target : targets::all()) {
    if (target.is_cpu() || !seen.insert(target.capability).second) continue;
    if (!std::ranges::binary_search(known, target.capability)) continue;
    for (const Case& c : kCases) expect_no_spills_of(c, target, 0);
  }
}

TEST_F(CudaKernels, OfGenerationFromPagesDoNotSpill) {
  const std::vector<int> known = device_code::nvrtc_capabilities();
  for (const char* name : {"sm_75", "sm_80", "sm_90"}) {
    const targets::Target& target = *targets::find(name);
    if (!std::ranges::binary_search(known, target.capability)) continue;
    for (const Case& c : kCases) expect_no_spills_of(c, target, 100);
  }
}

// Of the shape of all-MiniLM-L6-v2, whose heads are narrow.
TEST_F(CudaKernels, OfAnEncoderDoNotSpill) {
  const std::vector<int> known = device_code::nvrtc_capabilities();
  for (const char* name : {"sm_75", "sm_80", "sm_90"}) {
    const targets::Target& target = *targets::find(name);
    if (!std::ranges::binary_search(known, target.capability)) continue;
    spec::Spec spec =
        small_spec("hidden_size: 128, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 512",
                   "sequence_len: 64, micro_batch_size: 1");
    spec.target = target.name;
    spec.optimizations.precision = spec::Precision::fp16;
    spec.objective.name = spec::ObjectiveName::polychromic;
    spec.encoder = small_encoder();
    spec.encoder->hidden_size = 384;
    spec.encoder->num_attention_heads = 12;
    spec.encoder->max_position_embeddings = 512;
    spec.encoder->max_tokens = 256;
    const driver::Compiled compiled = driver::compile(spec, passes::RecomputeChoice{}, {});
    std::vector<const program::Kernel*> attention;
    for (const program::Kernel& kernel : compiled.program.kernels)
      if (kernel.text.find("DocumentMask<FullMask>") != std::string::npos) attention.push_back(&kernel);
    EXPECT_FALSE(attention.empty());
    for (const device_code::KernelResources& kernel :
         resources_of(codegen::cuda_source(compiled.program, attention), target.capability))
      expect_no_spills(kernel, fmt::format("{}: ", name));
  }
}

}  // namespace
}  // namespace hydrac::test
