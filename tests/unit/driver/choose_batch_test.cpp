// `micro_batch_size: auto`: the largest divisor of the global batch whose plan fits.
#include "driver/choose_batch.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "driver/fit_memory.h"
#include "spec/batch.h"
#include "spec/load.h"

namespace hydrac::driver {
namespace {

spec::Spec open_spec(std::vector<std::string> overrides) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text(
      "test.yaml",
      "name: test\n"
      "model: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, global_batch_size: 48, max_steps: 10}\n",
      overrides, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  return *spec;
}

// Of a plan without spare room for the second branch.
int64_t bytes_with(spec::Spec spec, int64_t size) {
  set_micro_batch(spec, size);
  CompileOptions tight;
  tight.memory_bytes = 1;
  return compile(spec, tight).plan.arena_bytes;
}

int64_t chosen(spec::Spec spec, int64_t memory_bytes = 0) {
  CompileOptions options;
  options.memory_bytes = memory_bytes;
  choose_micro_batch(spec, options);
  EXPECT_EQ(spec.train.micro_batch_size * spec.train.gradient_accumulation_steps, 48);
  return spec.train.micro_batch_size;
}

TEST(ChooseBatch, TakesTheLargestDivisorThatFitsAGpu) {
  const spec::Spec spec = open_spec({"target=h100"});
  EXPECT_EQ(chosen(spec), 48);
  const int64_t bytes = bytes_with(spec, 16);
  EXPECT_EQ(chosen(spec, bytes), 16);
  EXPECT_EQ(chosen(spec, bytes - 1), 12);
  EXPECT_EQ(chosen(spec, 1), 1) << "then memory_problem() says so";
}

TEST(ChooseBatch, StaysInTheCachesOfACpu) {
  EXPECT_EQ(chosen(open_spec({"target=cpu"})), 48);  // 3072 tokens
  EXPECT_EQ(chosen(open_spec({"target=cpu", "train.sequence_len=256"})), 16);
  EXPECT_EQ(chosen(open_spec({"target=cpu", "train.sequence_len=8192"})), 1);
}

// More sequences at once are not worth computing again.
TEST(ChooseBatch, ComesBeforeRecomputeAuto) {
  const spec::Spec plain = open_spec({"target=h100"});
  const int64_t bytes = bytes_with(plain, 16);
  EXPECT_EQ(chosen(open_spec({"target=h100", "optimizations.recompute=auto"}), bytes), 16);
}

TEST(ChooseBatch, NeedsTheMemoryToBeKnown) {
  spec::Spec spec = open_spec({"target=sm_86"});
  EXPECT_ANY_THROW(choose_micro_batch(spec, {}));
}

// What a user is told to write has to divide the global batch.
TEST(ChooseBatch, OfAProgramThatDoesNotFitIsProposedAsADivisor) {
  const spec::Spec spec = open_spec({"target=h100", "train.micro_batch_size=24"});
  CompileOptions options;
  options.memory_bytes = bytes_with(spec, 16) - 1;
  const auto problem = memory_problem(compile(spec, options), options);
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->suggestion.find("micro_batch_size: 12"), std::string::npos) << problem->suggestion;
}

}  // namespace
}  // namespace hydrac::driver
