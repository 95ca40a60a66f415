// Programs with an objective: what they find of replies, and what weights of targets do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "driver/compile.h"
#include "runtime/train/generation/next_logits.h"
#include "runtime/train/generation/reply_scores.h"
#include "runtime/train/generation/sampled_replies.h"
#include "spec/load.h"
#include "targets/cpu/executor.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kSets = 2, kReplies = 3, kWidth = 64;

spec::Spec spec_of(const std::vector<std::string>& overrides) {
  const std::string text =
      "name: replies\ntarget: cpu\nmodel: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "intermediate_size: 64, vocab_size: 256, initializer_range: 0.2}\nadapter: {type: lora, r: 4}\n"
      "objective: {name: polychromic, prompts: 2, replies: 3, kl: 0.5, prompt_tokens: 8, max_new_tokens: 8}\n"
      "data: {path: none.jsonl, format: chat, tokenizer: byte}\n"
      "train: {sequence_len: 40, micro_batch_size: 2, max_steps: 1}\noptimizations: {threads: 2}\n";
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text("replies.yaml", text, overrides, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  return *spec;
}

constexpr runtime::ReplyPlaces kPlaces{.rows = 2, .tokens = 40, .longest = 16, .batches = 2};

// Of different lengths, the third and the fourth equal.
std::vector<runtime::SampledReply> some_replies() {
  return {{0, {5, 6, 7}, {8, 9}},           {1, {5, 6, 7}, {200}},       {2, {5, 6, 7}, {20, 30, 40, 50}},
          {3, {5, 6, 7}, {20, 30, 40, 50}}, {4, {99, 98}, {97, 96, 95}}, {5, {99}, {1, 2, 3, 4, 5, 6, 7, 8}}};
}

class Objective : public testing::Test {
 protected:
  static void SetUpTestSuite() { kernels_ = new test::TempDir; }
  static void TearDownTestSuite() {
    delete kernels_;
    kernels_ = nullptr;
  }

  CpuProgram& program(const std::vector<std::string>& overrides = {}) {
    driver::CompileOptions options;
    options.threads = 2;
    programs_.push_back(
        std::make_unique<CpuProgram>(driver::compile(spec_of(overrides), options), kernels_->path()));
    programs_.back()->steps().initialize();
    return *programs_.back();
  }

  // So that the adapter changes something.
  static void fill_adapter(runtime::StepProgram& program) {
    for (const runtime::NamedTensor& tensor : program.tensors().parameters) {
      std::vector<float> numbers(static_cast<size_t>(tensor.bytes()) / sizeof(float));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.1f * std::sin(static_cast<float>(i));
      program.upload(tensor, std::as_bytes(std::span(numbers)));
    }
  }

  static std::vector<runtime::TargetLosses> score(runtime::StepProgram& program,
                                                  std::span<const runtime::SampledReply> replies) {
    clear_replies(program);
    std::vector<runtime::TargetLosses> losses;
    for (const runtime::Batch& batch : reply_batches(replies, kPlaces))
      losses.push_back(runtime::score(program, batch));
    return losses;
  }

  static std::vector<float> embeddings(CpuProgram& program) {
    return program.read(program.compiled().graph.results.reply_embeddings, 0);
  }

  std::vector<std::unique_ptr<CpuProgram>> programs_;

 private:
  static inline test::TempDir* kernels_ = nullptr;
};

TEST_F(Objective, TakesSoManyMicroBatchesAsRepliesNeed) {
  EXPECT_EQ(program().layout().gradient_accumulation_steps, 1 + kPlaces.batches);
  EXPECT_EQ(program().layout().reply_micro_batches, kPlaces.batches);
}

TEST_F(Objective, ARankHasRoomForTheRepliesToItsPromptsAlone) {
  const runtime::ProgramLayout& layout = program({"parallel.data=2"}).layout();
  EXPECT_EQ(layout.cache.sequences, kReplies);
  EXPECT_EQ(layout.results.reply_distance.elements, 1);
  EXPECT_EQ(layout.reply_micro_batches, 1);
  EXPECT_EQ(layout.gradient_accumulation_steps, 2);
}

TEST(SumsOfRanks, AreThoseOfOneProcessWhereRepliesFillAMicroBatchEach) {
  EXPECT_EQ(sums_of_ranks(spec_of({"parallel.data=2", "objective.replies=4"})), "");
  EXPECT_EQ(sums_of_ranks(spec_of({"parallel.data=2"})), "2 ranks of 1 and 1 of replies");
  EXPECT_EQ(sums_of_ranks(spec_of({"parallel.data=2", "objective.replies=8"})),
            "2 ranks of 1 and 2 of replies");
  EXPECT_EQ(sums_of_ranks(spec_of({"parallel.data=2", "objective.replies=4", "parallel.zero=2"})),
            "2 ranks of 1 and 1 of replies, one at a time");
  EXPECT_EQ(sums_of_ranks(spec_of({"objective.replies=8"})), "");
}

TEST_F(Objective, LossesAddUpToWhatEvaluationFinds) {
  runtime::StepProgram& steps = program().steps();
  fill_adapter(steps);
  const std::vector<runtime::SampledReply> replies = some_replies();
  const auto batches = reply_batches(replies, kPlaces);
  for (const runtime::Batch& batch : batches) {
    double sum = 0;
    for (const float loss : runtime::score(steps, batch).own) sum += static_cast<double>(loss);
    EXPECT_NEAR(sum, steps.evaluate(batch), 1e-4 * sum);
  }
}

TEST_F(Objective, TheBasesLossesAreThoseWithoutTheAdapter) {
  runtime::StepProgram& steps = program().steps();
  const std::vector<runtime::SampledReply> replies = some_replies();
  const auto before = score(steps, replies);
  EXPECT_EQ(before[0].own, before[0].base);  // an adapter begins as none
  fill_adapter(steps);
  const auto after = score(steps, replies);
  EXPECT_EQ(after[0].base, before[0].base);
  EXPECT_NE(after[0].own, before[0].own);
}

TEST_F(Objective, EmbeddingsAreSumsOverARepliesTokensWhereverItLies) {
  CpuProgram& built = program();
  std::vector<runtime::SampledReply> replies = some_replies();
  score(built.steps(), replies);
  const std::vector<float> found = embeddings(built);
  for (int64_t i = 0; i < kWidth; ++i)
    EXPECT_NEAR(found[static_cast<size_t>(2 * kWidth + i)], found[static_cast<size_t>(3 * kWidth + i)], 1e-4);
  std::swap(replies[0].segment, replies[5].segment);
  score(built.steps(), replies);
  const std::vector<float> moved = embeddings(built);
  for (int64_t i = 0; i < kWidth; ++i)
    EXPECT_NEAR(found[static_cast<size_t>(i)], moved[static_cast<size_t>(5 * kWidth + i)], 1e-4);
}

TEST_F(Objective, DistancesAreThoseOfTheEmbeddings) {
  for (const char* layer : {"objective.embed_layer=1", "objective.embed_layer=2"}) {
    CpuProgram& built = program({layer});
    score(built.steps(), some_replies());
    const std::vector<float> x = embeddings(built);
    const auto product = [&](int64_t i, int64_t j) {
      double sum = 0;
      for (int64_t c = 0; c < kWidth; ++c)
        sum += static_cast<double>(x[static_cast<size_t>(i * kWidth + c)]) *
               static_cast<double>(x[static_cast<size_t>(j * kWidth + c)]);
      return sum;
    };
    const runtime::ReplyDistances found = reply_distances(built.steps());
    ASSERT_EQ(found.mean.size(), static_cast<size_t>(kSets));
    for (int64_t set = 0; set < kSets; ++set) {
      double mean = 0;
      for (int64_t r = set * kReplies; r < (set + 1) * kReplies; ++r) {
        double own = 0;
        for (int64_t other = set * kReplies; other < (set + 1) * kReplies; ++other)
          if (other != r)
            own += (1 - product(r, other) / std::sqrt(product(r, r) * product(other, other))) / 2;
        EXPECT_NEAR(found.of_each[static_cast<size_t>(r)], own, 1e-5);
        mean += own / kReplies;
      }
      EXPECT_NEAR(found.mean[static_cast<size_t>(set)], mean, 1e-5);
      EXPECT_GT(mean, 0.01);
    }
  }
}

// What a token is sampled with is what it is scored with.
TEST_F(Objective, ScoresSayWhatPrefillAndDecodeSay) {
  runtime::StepProgram& steps = program().steps();
  fill_adapter(steps);
  const runtime::SampledReply reply = some_replies()[4];
  const std::vector<float> losses = score(steps, std::span(&reply, 1)).at(1).own;
  const auto loss_of = [](std::span<const float> logits, int32_t token) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    return std::log(sum) - static_cast<double>(logits[static_cast<size_t>(token)]);
  };
  const auto targets = targets_of(std::span(&reply, 1), kPlaces)[0];
  ASSERT_EQ(targets.batch, 1u);
  const runtime::Prompt prompt{0, reply.prompt};
  runtime::NextLogits logits(steps);
  EXPECT_NEAR(loss_of(logits.prefill({&prompt, 1}).row(0), reply.reply[0]), losses[targets.first], 1e-4);
  Ids tokens(kSets * kReplies, 0), positions(kSets * kReplies, 0);
  for (size_t i = 0; i + 1 < reply.reply.size(); ++i) {
    tokens[0] = reply.reply[i];
    positions[0] = static_cast<int32_t>(reply.prompt.size() + i);
    EXPECT_NEAR(loss_of(logits.decode(tokens, positions).row(0), reply.reply[i + 1]),
                losses[targets.first + i + 1], 1e-4);
  }
}

TEST_F(Objective, WhatIsDiscardedOfTheLossStaysInTheGradient) {
  CpuProgram& built = program();
  runtime::StepProgram& steps = built.steps();
  fill_adapter(steps);
  const std::vector<runtime::SampledReply> replies = some_replies();
  std::vector<runtime::Batch> batches = reply_batches(replies, kPlaces);
  for (runtime::Batch& batch : batches) std::ranges::fill(batch.weights, 0.25f);
  steps.begin_replies();
  steps.micro_step(batches[0], 1);
  steps.end_replies();
  batches[1].weights.clear();  // of data: all 1
  const double loss = steps.evaluate(batches[1]);
  steps.micro_step(batches[1], 1);
  steps.update();
  const runtime::StepResult both = steps.finish_step();
  EXPECT_NEAR(both.loss, loss, 1e-3);
  CpuProgram& other = program();
  fill_adapter(other.steps());
  other.steps().micro_step(batches[1], 1);
  other.steps().update();
  EXPECT_NE(other.steps().finish_step().grad_norm, both.grad_norm);
}

// A head whose logits are never whole in memory.
TEST_F(Objective, LossesAreTheSameWithTheHeadInParts) {
  const std::vector<std::string> wide = {"model.vocab_size=16411", "train.sequence_len=320"};
  std::vector<std::string> in_parts = wide;
  in_parts.emplace_back("optimizations.loss=fused_linear");
  const runtime::ReplyPlaces places{.rows = 2, .tokens = 320, .longest = 16, .batches = 1};
  const std::vector<runtime::SampledReply> replies = some_replies();
  const runtime::Batch batch = reply_batches(replies, places)[0];
  const auto whole = runtime::score(program(wide).steps(), batch),
             parts = runtime::score(program(in_parts).steps(), batch);
  const auto& functions = programs_.back()->compiled().graph.function("score").regions;
  EXPECT_TRUE(
      std::ranges::any_of(functions, [](const ir::Region& r) { return r.name == "head" && r.layers > 1; }));
  for (size_t i = 0; i < whole.own.size(); ++i) {
    EXPECT_NEAR(whole.own[i], parts.own[i], 1e-4);
    EXPECT_NEAR(whole.base[i], parts.base[i], 1e-4);
  }
}

}  // namespace
}  // namespace hydrac::targets
