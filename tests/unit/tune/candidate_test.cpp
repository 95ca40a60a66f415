// What the tuner may change: keys that a spec leaves open, and no value that the spec has already.
#include "tune/candidate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "spec/batch.h"
#include "spec/fit_keys.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::tune {
namespace {

spec::Spec spec_with(const std::vector<std::string>& overrides) {
  spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "model: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, global_batch_size: 48, max_steps: 10}\n",
      overrides);
  if (waits_for_plan(spec)) set_micro_batch(spec, 8);
  return spec;
}

const std::vector<std::string>* values_of(const std::vector<Knob>& knobs, const std::string& key) {
  const auto found = std::ranges::find(knobs, key, &Knob::key);
  return found == knobs.end() ? nullptr : &found->values;
}

const Equipment kTwoCores{2, {"onednn", "openblas"}};

TEST(Knobs, OfACpu) {
  const auto knobs = knobs_of(spec_with({"target=cpu"}), true, kTwoCores, Effort::normal);
  EXPECT_EQ(*values_of(knobs, kBlas), (std::vector<std::string>{"onednn", "openblas"}));
  EXPECT_EQ(*values_of(knobs, "optimizations.threads"), std::vector<std::string>{"1"});
  EXPECT_EQ(*values_of(knobs, "train.micro_batch_size"),
            (std::vector<std::string>{"6", "12", "4", "16", "3", "24"}));
  EXPECT_EQ(*values_of(knobs, "optimizations.loss"), (std::vector<std::string>{"fused_linear", "chunked"}));
  EXPECT_EQ(values_of(knobs, "optimizations.streams"), nullptr);
}

TEST(Knobs, OfAGpu) {
  const auto knobs = knobs_of(spec_with({"target=h100"}), true, {}, Effort::normal);
  EXPECT_EQ(*values_of(knobs, "optimizations.attention"), (std::vector<std::string>{"generated", "cudnn"}));
  EXPECT_EQ(*values_of(knobs, "optimizations.fused_matmuls"), (std::vector<std::string>{"all", "none"}));
  EXPECT_EQ(*values_of(knobs, "optimizations.streams"), std::vector<std::string>{"1"});
  EXPECT_EQ(values_of(knobs, "optimizations.threads"), nullptr);
  EXPECT_EQ(values_of(knobs_of(spec_with({"target=a100"}), true, {}, Effort::normal),
                      "optimizations.fused_matmuls"),
            nullptr);
}

TEST(Knobs, LeaveWhatTheSpecWrites) {
  const auto knobs =
      knobs_of(spec_with({"target=cpu", "optimizations.threads=2", "optimizations.loss=chunked",
                          "train.micro_batch_size=4", "optimizations.recompute=[act]"}),
               false, kTwoCores, Effort::max);
  ASSERT_EQ(knobs.size(), 1u);
  EXPECT_EQ(knobs[0].key, kBlas);
}

TEST(Knobs, TakeAutoForOpen) {
  const auto knobs =
      knobs_of(spec_with({"target=h100", "optimizations.attention=auto", "optimizations.recompute=auto"}),
               true, {}, Effort::quick);
  EXPECT_NE(values_of(knobs, "optimizations.attention"), nullptr);
  EXPECT_EQ(values_of(knobs, "optimizations.recompute")->front(), "none");
}

// What planning chose is where the search begins: its values are the defaults, and others are tried.
TEST(Knobs, BeginAtWhatFitChose) {
  spec::Spec spec = spec_with({"target=h100", "optimizations.fit=auto"});
  spec::Spec chosen = spec;
  chosen.optimizations.recompute = {.mode = spec::Recompute::Mode::list, .act = true};
  chosen.optimizations.loss = spec::LossKernel::chunked;
  chosen.optimizations.offload.optimizer_state = true;
  take_chosen_keys(spec, chosen);
  EXPECT_FALSE(waits_for_fit(spec));
  const auto knobs = knobs_of(spec, true, {}, Effort::quick);
  EXPECT_EQ(*values_of(knobs, "optimizations.recompute"),
            (std::vector<std::string>{"none", "[norm]", "[norm, act]"}));
  EXPECT_EQ(*values_of(knobs, "optimizations.loss"),
            (std::vector<std::string>{"materialized", "fused_linear"}));
  EXPECT_EQ(*values_of(knobs, "optimizations.offload.optimizer_state"), std::vector<std::string>{"false"});
}

TEST(Knobs, LeaveWhatTheSpecWritesToFit) {
  spec::Spec spec = spec_with({"target=h100", "optimizations.fit=auto", "optimizations.recompute=block",
                               "optimizations.offload.optimizer_state=true"});
  spec::Spec chosen = spec_with({"target=h100", "optimizations.loss=chunked"});
  take_chosen_keys(spec, chosen);
  EXPECT_EQ(spec.optimizations.recompute.mode, spec::Recompute::Mode::block);
  EXPECT_TRUE(spec.optimizations.offload.optimizer_state);
  EXPECT_EQ(spec.optimizations.loss, spec::LossKernel::chunked);
  const auto knobs = knobs_of(spec, true, {}, Effort::quick);
  EXPECT_EQ(values_of(knobs, "optimizations.recompute"), nullptr);
  EXPECT_EQ(values_of(knobs, "optimizations.offload.optimizer_state"), nullptr);
}

TEST(Numerics, AreApart) {
  EXPECT_TRUE(numerics_of(spec_with({"target=cpu"})).empty());
  std::vector<std::string> texts;
  const std::vector<std::string> overrides = {"target=h100", "train.micro_batch_size=8"};
  EXPECT_TRUE(numerics_of(spec_with(overrides)).empty()) << "nobody asked";
  for (const Candidate& c : numerics_of(spec_with({overrides[0], overrides[1], "tune.numerics=true"})))
    texts.push_back(c.text());
  EXPECT_EQ(texts, (std::vector<std::string>{"precision fp8", "residual compute", "optimizer_state bf16",
                                             "optimizer_state int8", "weights bf16"}));
}

}  // namespace
}  // namespace hydrac::tune
