// The gradients and the loss of accumulated micro-batches are the sums of each one's, added in their order,
// to the bit: what several processes add up then is what one accumulates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "targets/cpu/executor.h"
#include "tests/unit/core/small_models.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

constexpr int64_t kMicroBatches = 3, kB = 2, kT = 520, kV = 61;  // matmuls split sums of so many rows

struct Case {
  const char *name, *model, *train;
  int64_t vocab_size = kV;
  spec::LossKernel loss = spec::LossKernel::materialized;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class MicroBatches : public testing::TestWithParam<Case> {};

spec::Spec spec_of(const Case& c, int64_t micro_batches) {
  spec::Spec spec =
      test::small_spec("hidden_size: 32, num_hidden_layers: 2, intermediate_size: 48, vocab_size: " +
                           std::to_string(c.vocab_size) + ", " + c.model,
                       "sequence_len: 520, micro_batch_size: 2, gradient_accumulation_steps: " +
                           std::to_string(micro_batches) + c.train);
  spec.optimizations.loss = c.loss;
  return spec;
}

runtime::Batch batch_of(int64_t number) {
  runtime::Batch batch;
  for (int64_t i = 0; i < kB * kT; ++i) {
    batch.tokens.push_back(static_cast<int32_t>((i * i * 5 + number) % kV));
    batch.targets.push_back(static_cast<int32_t>((i * 7 + i / 9 + number) % kV));
  }
  batch.target_count = kB * kT;
  return batch;
}

struct Sums {
  std::vector<float> gradients, loss;

  void add(const Sums& other) {
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += other.gradients[i];
    for (size_t i = 0; i < loss.size(); ++i) loss[i] += other.loss[i];
  }
};

Sums sums_of(CpuProgram& program) {
  Sums sums;
  for (const models::ParameterGroup& group : program.compiled().pack.groups) {
    const std::vector<float> part = program.read(group.gradients, 0);
    sums.gradients.insert(sums.gradients.end(), part.begin(), part.end());
  }
  sums.loss = program.read(program.compiled().graph.results.loss, 0);
  return sums;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  int64_t other = 0;
  for (size_t i = 0; i < a.size(); ++i) other += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  EXPECT_EQ(other, 0) << "of " << a.size();
}

TEST_P(MicroBatches, AddUpToTheBit) {
  const test::TempDir cache;
  const float inv_count = 1.0f / (kMicroBatches * kB * kT);
  CpuProgram all(driver::compile(spec_of(GetParam(), kMicroBatches), {2, ""}), cache.path());
  CpuProgram one(driver::compile(spec_of(GetParam(), 1), {2, ""}), cache.path(), all.choices());
  all.initialize();
  Sums expected;
  for (int64_t i = 0; i < kMicroBatches; ++i) {
    all.micro_step(batch_of(i), inv_count);
    one.initialize();
    one.set_counters({0, i});  // so that dropout is that of this micro-batch
    one.micro_step(batch_of(i), inv_count);
    const Sums part = sums_of(one);
    if (i == 0) expected = {std::vector<float>(part.gradients.size()), std::vector<float>(1)};
    expected.add(part);
  }
  const Sums found = sums_of(all);
  expect_same_bits(found.gradients, expected.gradients);
  expect_same_bits(found.loss, expected.loss);
  EXPECT_TRUE(std::ranges::any_of(found.gradients, [](float g) { return g != 0; }));
}

INSTANTIATE_TEST_SUITE_P(
    Programs, MicroBatches,
    testing::Values(
        Case{"tied_frozen_muon",
             "attention_kind: ccgqa, head_dim: 8, num_attention_heads: 2, num_key_value_heads: "
             "1, dropout: 0.1",
             ", optimizer: {name: muon}, freeze: ['model.layers.0.*']"},
        Case{"recursions",
             "num_attention_heads: 2, dropout: 0.1, mor: {recursions: 3, depth_loss_coef: 0, "
             "variance_loss_coef: 0, logit_loss_coef: 0}",
             ""},
        Case{"experts", "num_attention_heads: 2, dropout: 0.1, moe: {experts: 4, top_k: 2, aux_loss_coef: 0}",
             ""},
        Case{"head_in_parts_with_biases",
             "num_attention_heads: 4, norm: layernorm, position: learned, hidden_act: gelu, "
             "attention_dropout: 0.1, tie_word_embeddings: false",
             "", 9000, spec::LossKernel::fused_linear}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::targets
