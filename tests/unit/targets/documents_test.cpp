// Documents packed into one sequence train as documents alone: the same loss and the same gradients, to the
// rounding of floats.
#include <gtest/gtest.h>

#include <cmath>

#include "targets/cpu/executor.h"
#include "tests/unit/core/small_models.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

constexpr int64_t kTokens = 75;  // of each of two documents; no multiple of a tile

spec::Spec spec_of(const std::string& model, int64_t tokens) {
  return test::small_spec(
      "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 24, vocab_size: 31, "
      "max_position_embeddings: " +
          std::to_string(2 * kTokens) + ", " + model,
      "micro_batch_size: 1, sequence_len: " + std::to_string(tokens));
}

// Tokens [begin, begin + count) of one fixed text, in documents of `document` tokens.
runtime::Batch batch_of(int64_t begin, int64_t count, int64_t document) {
  runtime::Batch batch;
  for (int64_t i = begin; i < begin + count; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(i * i % 31));
    batch.targets.push_back(static_cast<int32_t>(i * 7 % 31));
    const int64_t first = (i - begin) / document * document;
    batch.documents.push_back(static_cast<int32_t>(first));
    batch.documents.push_back(static_cast<int32_t>(first + document));
    batch.positions.push_back(static_cast<int32_t>(i - begin - first));
  }
  batch.target_count = count;
  return batch;
}

struct Trained {
  float loss;
  std::vector<float> gradients;
};

Trained micro_step(CpuProgram& program, const runtime::Batch& batch) {
  program.initialize();
  program.micro_step(batch, 1.0f / (2 * kTokens));
  return {program.read(program.compiled().graph.results.loss, 0)[0],
          program.read(program.compiled().pack.groups[0].gradients, 0)};
}

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float number : x) sum += static_cast<double>(number) * number;
  return std::sqrt(sum);
}

class Documents : public testing::TestWithParam<const char*> {};

TEST_P(Documents, PackedTrainAsTheyDoApart) {
  spec::Spec spec = spec_of(GetParam(), 2 * kTokens);
  spec.data.document_mask = true;
  const test::TempDir cache;
  CpuProgram both(driver::compile(spec, {2, ""}), cache.path()),
      alone(driver::compile(spec_of(GetParam(), kTokens), {2, ""}), cache.path());
  const Trained packed = micro_step(both, batch_of(0, 2 * kTokens, kTokens)),
                first = micro_step(alone, batch_of(0, kTokens, kTokens)),
                second = micro_step(alone, batch_of(kTokens, kTokens, kTokens));
  EXPECT_NEAR(packed.loss, first.loss + second.loss, 1e-5);
  ASSERT_EQ(packed.gradients.size(), first.gradients.size());
  std::vector<float> difference = packed.gradients;
  for (size_t i = 0; i < difference.size(); ++i) difference[i] -= first.gradients[i] + second.gradients[i];
  EXPECT_GT(norm(packed.gradients), 0.01);
  EXPECT_LT(norm(difference), 2e-6 * norm(packed.gradients));
  // And they are not one document.
  const Trained one = micro_step(both, batch_of(0, 2 * kTokens, 2 * kTokens));
  EXPECT_GT(std::abs(one.loss - packed.loss), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Documents,
    testing::Values("num_key_value_heads: 2, sliding_window: 20, sliding_window_pattern: 2",
                    "norm: layernorm, position: learned",
                    "attention_kind: ccgqa, num_key_value_heads: 2, head_dim: 8"));

}  // namespace
}  // namespace hydrac::targets
