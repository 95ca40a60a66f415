// Rope of new tokens: where attention over the cache turns them, and where rope stays what it was.
#include <gtest/gtest.h>

#include <algorithm>

#include "driver/compile.h"
#include "tests/unit/core/small_models.h"

namespace hydrac::test {
namespace {

driver::Compiled generating(const std::string& model, const std::string& target) {
  spec::Spec spec = small_spec("num_hidden_layers: 2, vocab_size: 300, num_attention_heads: 4, " + model,
                               "sequence_len: 64, micro_batch_size: 1");
  spec.target = target;
  spec.optimizations.precision = target == "cpu" ? spec::Precision::fp32 : spec::Precision::bf16;
  driver::CompileOptions options;
  options.generation = models::Generation{2, 1, 16, 0, 64};
  return driver::compile(spec, passes::RecomputeChoice{}, options);
}

bool is_decided(const driver::Compiled& compiled) {
  return std::ranges::any_of(compiled.decisions, [](const passes::Decision& decision) {
    return decision.text.starts_with("decode.") && decision.text.ends_with("query and key");
  });
}

// Kernels of a layer of decode by this word in their names.
bool has_kernel(const driver::Compiled& compiled, const std::string& word) {
  for (const ir::Region& region : compiled.graph.function("decode").regions) {
    for (const ir::Node& node : region.nodes) {
      const auto name = node.attributes.find("name");
      if (name != node.attributes.end() &&
          std::get<std::string>(name->second).find(word) != std::string::npos)
        return true;
    }
  }
  return false;
}

TEST(RotateInDecode, TakesARopeThatIsAKernelOfItsOwn) {
  for (const char* pairs : {"rope_interleave: true", "rope_interleave: false", "attention_bias: true"}) {
    const driver::Compiled compiled =
        generating(std::string("hidden_size: 64, num_key_value_heads: 2, ") + pairs, "sm_90");
    EXPECT_TRUE(is_decided(compiled)) << pairs;
    EXPECT_FALSE(has_kernel(compiled, "rope")) << pairs;
  }
}

TEST(RotateInDecode, LeavesARopeThatIsOneKernelWithANorm) {
  const driver::Compiled compiled = generating("hidden_size: 64, qk_norm: true", "sm_90");
  EXPECT_FALSE(is_decided(compiled));
  EXPECT_TRUE(has_kernel(compiled, "rope"));
}

TEST(RotateInDecode, LeavesHalvesThatEndWithinAThreadsColumns) {
  EXPECT_FALSE(is_decided(generating("hidden_size: 96", "sm_90"))) << "24 columns of a head";
  EXPECT_TRUE(is_decided(generating("hidden_size: 96, rope_interleave: true", "sm_90")));
}

TEST(RotateInDecode, LeavesTheCpuItsKernels) {
  const driver::Compiled compiled = generating("hidden_size: 64", "cpu");
  EXPECT_FALSE(is_decided(compiled));
  EXPECT_TRUE(has_kernel(compiled, "rope"));
}

}  // namespace
}  // namespace hydrac::test
