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
                          "train.micro_batch_size=4", "optimizations.recompute=[act]",
                          "optimizations.recompute_layers=1"}),
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

TEST(Knobs, CountLayersThatRecompute) {
  const auto tried = [](const std::vector<std::string>& overrides, Effort effort) {
    const auto knobs = knobs_of(spec_with(overrides), true, {}, effort);
    const auto* values = values_of(knobs, "optimizations.recompute_layers");
    return values ? *values : std::vector<std::string>();
  };
  using Values = std::vector<std::string>;
  const std::string eight = "model.num_hidden_layers=8", block = "optimizations.recompute=block";
  EXPECT_EQ(tried({"target=h100", eight}, Effort::quick), (Values{"4"}));
  EXPECT_EQ(tried({"target=h100", eight, block}, Effort::normal), (Values{"2", "4", "6"}));
  EXPECT_EQ(tried({"target=h100"}, Effort::max), (Values{"1"}));
  EXPECT_EQ(tried({"target=h100", eight, block, "optimizations.recompute_layers=3"}, Effort::max), Values{});
}

// What planning chose is where the search begins: its values are the defaults, and others are tried.
TEST(Knobs, BeginAtWhatFitChose) {
  spec::Spec spec = spec_with({"target=h100", "optimizations.fit=auto"});
  spec::Spec chosen = spec;
  chosen.optimizations.recompute = {.mode = spec::Recompute::Mode::list, .act = true};
  chosen.optimizations.loss = spec::LossKernel::chunked;
  chosen.optimizations.offload.optimizer_state = 1;
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
  EXPECT_TRUE(spec.optimizations.offload.optimizer_state.any());
  EXPECT_EQ(spec.optimizations.loss, spec::LossKernel::chunked);
  const auto knobs = knobs_of(spec, true, {}, Effort::quick);
  EXPECT_EQ(values_of(knobs, "optimizations.recompute"), nullptr);
  EXPECT_EQ(values_of(knobs, "optimizations.offload.optimizer_state"), nullptr);
}

passes::MatmulChoice matmul(const std::string& name, bool is_ours, bool can_be_ours = true,
                            const std::string& together = "") {
  return {"micro_step", name, is_ours, can_be_ours, together};
}

// Each matmul that the other one could compute, weight gradients together before one by one.
TEST(Knobs, OfMatmuls) {
  const Parts parts{
      {matmul("attn.qkv", true), matmul("attn.out", false, false), matmul("mlp.up", false),
       matmul("d_a", true, true, "d_a"), matmul("d_b", true, true, "d_a"), matmul("d_c", false, true, "d_c"),
       matmul("d_d", false, true, "d_c"), matmul("attn.qkv", true)},
      0};
  std::vector<std::string> tried;
  const auto list = [&](const std::vector<std::string>& overrides, Effort effort) {
    tried.clear();
    for (const Knob& knob : knobs_of(spec_with(overrides), true, {}, effort, parts))
      if (knob.key.starts_with(kMatmul))
        tried.push_back(knob.key.substr(kMatmul.size()) + ": " + knob.values[0]);
    return tried;
  };
  EXPECT_EQ(list({"target=h100"}, Effort::normal),
            (std::vector<std::string>{"attn.qkv: the library's", "mlp.up: ours", "d_a d_b: the library's",
                                      "d_c d_d: ours", "d_a: the library's", "d_b: the library's"}));
  EXPECT_EQ(list({"target=h100"}, Effort::quick).size(), 4u);
  EXPECT_TRUE(list({"target=h100", "optimizations.fused_matmuls=all"}, Effort::normal).empty());
  EXPECT_TRUE(list({"target=h100", "optimizations.library_matmuls=[mlp.up]"}, Effort::normal).empty());
}

TEST(Candidate, WritesMatmulsAsTwoLists) {
  const Candidate candidate = Candidate{}
                                  .with(std::string(kMatmul) + "mlp.up", kOurs)
                                  .with(std::string(kMatmul) + "d_c d_d", kOurs)
                                  .with(std::string(kMatmul) + "attn.qkv", kLibrarys)
                                  .with("optimizations.streams", "1");
  EXPECT_EQ(candidate.text(), "attn.qkv the library's, d_c and d_d ours, mlp.up ours, streams 1");
  std::map<std::string, std::string> keys;
  for (const LockedKey& key : candidate.keys()) {
    keys[key.path] = key.text;
    EXPECT_TRUE(may_be_locked(key.path)) << key.path;
  }
  EXPECT_EQ(keys, (std::map<std::string, std::string>{{"optimizations.library_matmuls", "[attn.qkv]"},
                                                      {"optimizations.own_matmuls", "[d_c, d_d, mlp.up]"},
                                                      {"optimizations.streams", "1"}}));
}

// Where attention is a part of a step that is worth it: tiles that the GPU has room for.
TEST(Knobs, OfTiles) {
  const std::vector<std::string> wide = {"target=h100", "model.num_attention_heads=1",
                                         "train.sequence_len=2048"};
  const auto forward = [&](const std::vector<std::string>& overrides, double share) {
    const auto knobs = knobs_of(spec_with(overrides), true, {}, Effort::normal, {{}, share});
    const auto* values = values_of(knobs, "optimizations.attention_tiles.forward");
    return values ? *values : std::vector<std::string>{};
  };
  EXPECT_EQ(forward(wide, 0.06), (std::vector<std::string>{"64x128", "128x64", "128x128"}));
  EXPECT_TRUE(forward(wide, 0.05).empty());
  std::vector<std::string> cudnn = wide;
  cudnn.push_back("optimizations.attention=cudnn");
  EXPECT_TRUE(forward(cudnn, 0.5).empty());
  std::vector<std::string> old = wide;
  old[0] = "target=a100";
  EXPECT_EQ(forward(old, 0.5), (std::vector<std::string>{"64x32", "64x64", "64x128", "128x32", "128x128"}));
  const auto gradients = knobs_of(spec_with(wide), true, {}, Effort::normal, {{}, 0.5});
  EXPECT_EQ(*values_of(gradients, "optimizations.attention_tiles.dkv"), (std::vector<std::string>{"128x64"}));
  std::vector<std::string> many = wide;  // heads for all multiprocessors: one kernel makes all gradients
  many[2] = "train.sequence_len=4096";
  EXPECT_EQ(values_of(knobs_of(spec_with(many), true, {}, Effort::normal, {{}, 0.5}),
                      "optimizations.attention_tiles.dkv"),
            nullptr);
  EXPECT_EQ(*values_of(knobs_of(spec_with(many), true, {}, Effort::max, {{}, 0.5}),
                       "optimizations.attention_tiles.dkv"),
            (std::vector<std::string>{"64x64", "128x64"}));
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
