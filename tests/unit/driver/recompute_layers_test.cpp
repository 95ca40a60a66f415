// optimizations.recompute_layers: the first layers recompute, the others keep what they made. The plan's
// memory and the predicted time lie between those of none and of all, layer by layer, and kernels are those.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>

#include "driver/compile.h"
#include "driver/prediction.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using Words = std::vector<std::string>;

constexpr int kSixLayers = 6;

Compiled recomputing(const std::string& what, int layers, Words overrides) {
  overrides.push_back("optimizations.recompute=" + what);
  overrides.push_back(fmt::format("optimizations.recompute_layers={}", layers));
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 4, vocab_size: 512}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 128, micro_batch_size: 16, max_steps: 10}\n",
      overrides);
  CompileOptions tight;
  tight.memory_bytes = 1;  // without room for the side stream
  return compile(spec, tight);
}

// Everything that cuts the loop over layers, or treats layers in ways of its own; but for
// offload.activations, where each loop has two layers' tensors on the GPU whatever is recomputed.
const std::vector<Words> kLayerVariants = {
    {},
    {"target=cpu", "model.dropout=0.1", "train.gradient_accumulation_steps=2"},
    {"target=a100", "optimizations.precision=fp32", "model.norm=layernorm", "model.attention_bias=true"},
    {"target=gtx1650ti", "optimizations.loss=fused_linear", "optimizations.streams=1"},
    {"optimizations.fused_matmuls=all", "optimizations.residual=compute", "model.qk_norm=true"},
    {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all"},
    {"model.sliding_window=32", "model.sliding_window_pattern=2", "data.document_mask=true"},
    {"model.attention_kind=ccgqa", "model.ccgqa.compression=2", "model.num_key_value_heads=2"},
    {"model.mor.recursions=3"},
    {"train.freeze=[model.embed_tokens.weight, model.layers.0.*, model.layers.1.*, model.layers.4.*]"},
    {"adapter.type=lora", "adapter.base=nf4"},
    {"train.optimizer.name=muon"},
    {"optimizations.offload.weights=2", "optimizations.offload.optimizer_state=true"},
    {"parallel.data=2"},
    {"parallel.data=2", "parallel.zero=2", "train.gradient_accumulation_steps=2"},
    {"parallel.data=2", "parallel.zero=3"},
    {"parallel.tensor=2"}};

TEST(RecomputeLayers, EachTakesMemoryAndAddsTime) {
  for (const Words& variant : kLayerVariants) {
    for (const char* what : {"block", "[norm, act]"}) {
      SCOPED_TRACE(fmt::format("{}, {}", what, fmt::join(variant, " ")));
      const Compiled none = recomputing("none", 0, variant), all = recomputing(what, 0, variant);
      ASSERT_LT(all.plan.device_bytes(), none.plan.device_bytes());
      const double layer = (predicted_seconds(all) - predicted_seconds(none)) / kSixLayers;
      int64_t before = none.plan.device_bytes();
      for (const int layers : {2, 3, 5}) {
        const Compiled some = recomputing(what, layers, variant);
        EXPECT_LE(some.plan.device_bytes(), before) << layers;
        // The last layer of all saves nothing: it recomputes while everything that is kept is there.
        EXPECT_TRUE(layers == kSixLayers - 1 || some.plan.device_bytes() >= all.plan.device_bytes())
            << layers;
        EXPECT_LE(predicted_seconds(some), predicted_seconds(none) + layers * layer + 1e-5) << layers;
        before = some.plan.device_bytes();
      }
    }
  }
}

TEST(RecomputeLayers, AllOfThemAreTheProgramOfNoNumber) {
  const auto text = [](int layers) {
    const Compiled c = recomputing("block", layers, {});
    return to_text(c.graph, c.program) + to_text(c.graph, c.plan);
  };
  EXPECT_EQ(text(kSixLayers), text(0));
  EXPECT_NE(text(kSixLayers - 1), text(0));
}

// Kernels of a kind that differ in what they store have names that depend on the others.
std::string without_name(const program::Kernel& kernel) {
  return std::regex_replace(kernel.text, std::regex("\\b" + kernel.name + "(?=_|\\b)"), "kernel");
}

// So that no bit changes.
TEST(RecomputeLayers, HaveKernelsThatNoneOrAllHave) {
  for (const Words& variant : std::vector<Words>{{}, {"optimizations.fused_matmuls=all"}, {"target=cpu"}}) {
    for (const char* what : {"block", "[norm, act]", "[attn, mlp]"}) {
      SCOPED_TRACE(fmt::format("{}, {}", what, fmt::join(variant, " ")));
      std::set<std::string> known;
      for (const Compiled& c : {recomputing("none", 0, variant), recomputing(what, 0, variant)})
        for (const program::Kernel& kernel : c.program.kernels) known.insert(without_name(kernel));
      for (const program::Kernel& kernel : recomputing(what, 2, variant).program.kernels)
        EXPECT_TRUE(known.contains(without_name(kernel))) << kernel.name;
    }
  }
}

// The sums over rows of a router's gradients, whatever is computed again beside them: fused with what makes
// their operands they would add up in another order.
TEST(RecomputeLayers, SumARoutersGradientsInTheSameKernels) {
  const auto sums = [](const char* what) {
    std::map<std::string, std::string> texts;
    for (const program::Kernel& kernel : recomputing(what, 0, {"model.mor.recursions=3"}).program.kernels)
      if (kernel.name.find("token_score_") != std::string::npos &&
          kernel.name.find("_gradient") != std::string::npos)
        texts[kernel.name] = kernel.text;
    return texts;
  };
  const auto expected = sums("none");
  EXPECT_EQ(expected.size(), 4u);  // of the weight and of the bias, each with its partial sums
  for (const char* what : {"block", "[norm, act]", "[attn, mlp]"}) EXPECT_EQ(sums(what), expected) << what;
}

TEST(RecomputeLayers, SaveWhatTheyDoNotKeep) {
  const int64_t none = saved_bytes(recomputing("none", 0, {})),
                all = saved_bytes(recomputing("block", 0, {}));
  EXPECT_GT(none, all);
  for (const int layers : {1, 4})
    EXPECT_EQ(saved_bytes(recomputing("block", layers, {})), none - layers * (none - all) / kSixLayers);
}

}  // namespace
}  // namespace hydrac::driver
