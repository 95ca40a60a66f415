// `micro_batch_size: auto`: the largest divisor of the global batch whose plan fits. `recompute: auto`: the
// fastest choice that does. `fit: auto`: both, and more.
#include "driver/fit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "driver/memory_problem.h"
#include "driver/prediction.h"
#include "runtime/error.h"
#include "spec/batch.h"
#include "spec/fit_keys.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using passes::RecomputeChoice;

spec::Spec open_spec(std::vector<std::string> overrides) {
  return test::spec_of_text(
      "name: test\n"
      "model: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, global_batch_size: 48, max_steps: 10}\n",
      overrides);
}

// Of a plan without spare room for the side queue.
int64_t bytes_with(spec::Spec spec, int64_t size) {
  set_micro_batch(spec, size);
  CompileOptions tight;
  tight.memory_bytes = 1;
  return compile(spec, tight).plan.arena_bytes;
}

int64_t chosen(spec::Spec spec, int64_t memory_bytes = 0) {
  CompileOptions options;
  options.memory_bytes = memory_bytes;
  choose_open_keys(spec, options);
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
  EXPECT_ANY_THROW(choose_open_keys(spec, {}));
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

// Heads are small, so that activations decide.
spec::Spec recomputing_spec(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), {"target=cpu", "model.num_hidden_layers=4",
                                       "model.num_attention_heads=4", "train.global_batch_size=16",
                                       "train.micro_batch_size=16", "optimizations.recompute=auto"});
  return open_spec(overrides);
}

int64_t recomputing_bytes(const RecomputeChoice& choice) {
  return compile(recomputing_spec(), choice, {}).plan.arena_bytes;
}

CompileOptions up_to(int64_t bytes) {
  CompileOptions options;
  options.memory_bytes = bytes;
  return options;
}

std::vector<std::string> tried(const Compiled& compiled) {
  std::vector<std::string> lines;
  for (const passes::Decision& decision : compiled.decisions) {
    if (decision.pass == "recompute: auto") lines.push_back(decision.text);
  }
  return lines;
}

TEST(RecomputeAuto, KeepsEverythingWhereThatFits) {
  const spec::Spec spec = recomputing_spec();
  const int64_t none = recomputing_bytes({});
  const Compiled c = compile(spec, up_to(none));
  EXPECT_EQ(to_string(c.recompute), "none");
  EXPECT_EQ(c.plan.arena_bytes, none);
  const auto lines = tried(c);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], "none: " + std::to_string(none) + " bytes, 0.0% more time a step, fits: taken");
}

// Each choice in any number of layers.
std::vector<RecomputeChoice> choices_of(const spec::Spec& spec, const FitSpace& space) {
  std::vector<RecomputeChoice> choices;
  for (RecomputeChoice choice : space.recompute) {
    if (!choice.any()) choices.push_back(choice);
    for (int layers = space.fewest_layers; choice.any() && layers <= space.most_layers; ++layers) {
      choice.layers = layers == spec.model.num_hidden_layers ? 0 : layers;
      choices.push_back(choice);
    }
  }
  return choices;
}

TEST(RecomputeAuto, TakesTheCheapestThatFits) {
  const spec::Spec spec = recomputing_spec();
  spec::Spec open = spec;
  open.optimizations.fit = spec::Fit::auto_;
  for (const RecomputeChoice& limit :
       {RecomputeChoice{.act = true, .layers = 1}, RecomputeChoice{.act = true, .layers = 3},
        RecomputeChoice{.norm = true, .act = true}, RecomputeChoice{.block = true, .layers = 3}}) {
    const int64_t bytes = recomputing_bytes(limit);
    ASSERT_LT(bytes, recomputing_bytes({}));
    double least = 1e9;
    for (const RecomputeChoice& choice : choices_of(spec, fit_space(open))) {
      const Compiled c = compile(spec, choice, up_to(1));
      if (c.plan.device_bytes() <= bytes) least = std::min(least, predicted_seconds(c));
    }
    const Compiled taken = compile(spec, up_to(bytes));
    EXPECT_LE(taken.plan.device_bytes(), bytes);
    EXPECT_NEAR(predicted_seconds(taken) / least, 1, 1e-9)
        << in_words(limit) << ": " << in_words(taken.recompute);
  }
}

TEST(RecomputeAuto, TakesNoMoreLayersThanTheSpecSays) {
  const spec::Spec spec = recomputing_spec({"optimizations.recompute_layers=2"});
  EXPECT_EQ(compile(spec, up_to(1)).recompute.layers, 2);
  EXPECT_EQ(to_string(compile(spec, up_to(recomputing_bytes({}))).recompute), "none");
}

TEST(RecomputeAuto, PassesOverWhatDoesNotFitAndSaysSo) {
  const spec::Spec spec = recomputing_spec();
  const Compiled c = compile(spec, up_to(recomputing_bytes({.norm = true, .act = true})));
  const auto lines = tried(c);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("to fit " + std::to_string(c.plan.arena_bytes) + " bytes: it may take "))
      << lines[0];
  EXPECT_TRUE(lines[1].starts_with("none: ")) << lines[1];
  for (size_t i = 1; i + 1 < lines.size(); ++i) EXPECT_FALSE(lines[i].ends_with("taken")) << lines[i];
  EXPECT_TRUE(lines.back().starts_with(in_words(c.recompute) + ": ")) << lines.back();
  EXPECT_TRUE(lines.back().ends_with("fits: taken")) << lines.back();
}

TEST(RecomputeAuto, TakesTheLeanestWhereNothingFits) {
  const spec::Spec spec = recomputing_spec();
  const Compiled c = compile(spec, up_to(1 << 20));
  EXPECT_LT(c.plan.arena_bytes, recomputing_bytes({.norm = true, .act = true}));
  EXPECT_LE(c.plan.arena_bytes, recomputing_bytes({.block = true}));
  EXPECT_LE(c.plan.arena_bytes, recomputing_bytes({.norm = true, .attn = true, .mlp = true}));
  EXPECT_TRUE(memory_problem(c, up_to(1 << 20)).has_value());
}

TEST(RecomputeAuto, NeedsToKnowTheMemory) {
  const spec::Spec spec = recomputing_spec({"target=sm_90"});
  try {
    compile(spec, CompileOptions{});
    FAIL() << "compiled";
  } catch (const runtime::InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "optimizations.recompute: auto fits the memory, and the memory of sm_90 is not known: name the "
        "GPU (target: h100), or give --memory or optimizations.memory_limit");
  }
}

// `fit: auto` on a spec whose head, activations and moments all count.
spec::Spec fitting_spec(const std::vector<std::string>& overrides) {
  return test::spec_of_text(
      "name: test\n"
      "target: cpu\n"
      "model: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 1, vocab_size: 20000}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, global_batch_size: 32, max_steps: 10}\n"
      "optimizations: {fit: auto}\n",
      overrides);
}

struct Planned {
  int64_t bytes = 0;
  double seconds = 0;
  int64_t movable = 0;            // of moments, all of which the host has here
  double seconds_of_movable = 0;  // which the update takes for these
  std::string text;               // for a person to find it
  int64_t micro_batch_size = 0;
  std::string other_keys;  // but for the number of layers
};

// Of every combination, compiled one by one.
std::vector<Planned> brute_force(const spec::Spec& spec) {
  const FitSpace space = fit_space(spec);
  std::vector<Planned> all;
  for (const int64_t size : space.micro_batch_sizes)
    for (const RecomputeChoice& recompute : choices_of(spec, space))
      for (const spec::LossKernel loss : space.losses)
        for (const MomentStorage& moments : space.moments) {
          const Compiled c =
              compile(with_choice(spec, {size, recompute, loss, moments}), recompute, up_to(1));
          const int64_t movable = space.keeps_moments ? bytes_on_host(c, ir::Role::optimizer_state) : 0;
          all.push_back({c.plan.device_bytes(), predicted_seconds(c), movable, seconds_over_bus(c, movable),
                         fmt::format("{} of {}, {}, {} on {}: {} bytes, {} s", size, in_words(recompute),
                                     to_string(loss), to_string(moments.type),
                                     moments.on_host.any() ? "the host" : "the device", c.plan.device_bytes(),
                                     predicted_seconds(c)),
                         size,
                         fmt::format("{} {} {} {}", to_string(recompute), to_string(loss),
                                     to_string(moments.type), moments.on_host.any())});
        }
  EXPECT_EQ(std::ssize(all), space.combinations());
  return all;
}

// With as many moments on the GPU as the limit has room for, in thousandths and in pages.
double seconds_within(const Planned& planned, int64_t limit) {
  if (planned.movable == 0) return planned.seconds;
  const auto movable = static_cast<double>(planned.movable);
  const int thousandths =
      static_cast<int>(1000 * std::min(static_cast<double>(limit - planned.bytes) / movable, 0.999));
  const double kept = std::floor(thousandths / 1000.0 * movable / plan::kPage) * plan::kPage;
  return planned.seconds - planned.seconds_of_movable * kept / movable;
}

// The defaults where they fit.
Planned best_within(const std::vector<Planned>& all, const Planned& defaults, int64_t limit) {
  if (defaults.bytes <= limit) return defaults;
  Planned fastest{.seconds = 1e9};
  for (Planned planned : all) {
    if (planned.bytes > limit) continue;
    planned.seconds = seconds_within(planned, limit);
    if (planned.seconds < fastest.seconds) fastest = planned;
  }
  return fastest;
}

// Limits from what nothing fits to what everything does.
void expect_the_best(const spec::Spec& spec) {
  const std::vector<Planned> all = brute_force(spec);
  const auto [least, most] = std::ranges::minmax(all, {}, &Planned::bytes);
  const FitSpace space = fit_space(spec);
  const auto defaults = *std::ranges::find(all, space.micro_batch_sizes.back(), &Planned::micro_batch_size);
  for (int step = 0; step <= 6; ++step) {
    const int64_t limit = least.bytes + (most.bytes - least.bytes) * step / 6;
    spec::Spec chosen = spec;
    const ChosenKeys keys = choose_open_keys(chosen, up_to(limit));
    ASSERT_FALSE(keys.problem) << limit;
    ASSERT_FALSE(open_keys(chosen).any());
    const Compiled c = compile(chosen, up_to(1));
    EXPECT_LE(c.plan.device_bytes(), limit);
    const Planned best = best_within(all, defaults, limit);
    EXPECT_NEAR(predicted_seconds(c) / best.seconds, 1, 1e-9)
        << "within " << limit << ": " << best.text << "\n"
        << in_words(c.recompute) << ", " << to_string(chosen.optimizations.loss) << ", micro-batch "
        << chosen.train.micro_batch_size.value;
    EXPECT_FALSE(memory_problem(compile(chosen, up_to(limit)), up_to(limit)));
  }
  spec::Spec chosen = spec;
  EXPECT_TRUE(choose_open_keys(chosen, up_to(least.bytes - 1)).problem);
}

TEST(Fit, IsTheBestOfAllCombinationsOnACpu) {
  expect_the_best(fitting_spec({}));
}
TEST(Fit, IsTheBestOfAllCombinationsOnAGpu) {
  expect_the_best(fitting_spec({"target=a100", "train.global_batch_size=3"}));
}
TEST(Fit, IsTheBestOfAllCombinationsOfAFixedBatch) {
  expect_the_best(fitting_spec({"target=gtx1650ti", "train.micro_batch_size=32", "model.qk_norm=true",
                                "optimizations.loss=fused_linear"}));
}
TEST(Fit, IsTheBestOfAllCombinationsWithNarrowMoments) {
  expect_the_best(fitting_spec({"target=a100", "optimizations.fit=numerics", "train.micro_batch_size=32",
                                "train.optimizer.name=lion", "model.vocab_size=200000"}));
}

TEST(Fit, IsTheBestOfAllCombinationsOfManyLayers) {
  expect_the_best(fitting_spec({"target=a100", "model.num_hidden_layers=6", "model.vocab_size=300",
                                "train.global_batch_size=4", "train.sequence_len=256",
                                "optimizations.loss=fused_linear"}));
}
TEST(Fit, IsTheBestNumberOfLayersOfWhatTheSpecRecomputes) {
  expect_the_best(fitting_spec({"target=cpu", "model.num_hidden_layers=7", "train.global_batch_size=8",
                                "optimizations.recompute=block", "optimizations.loss=fused_linear"}));
}

TEST(Fit, TakesAsFewLayersAsFit) {
  const spec::Spec open = fitting_spec({"target=cpu", "model.num_hidden_layers=6", "train.micro_batch_size=8",
                                        "model.vocab_size=300", "optimizations.recompute=block"});
  const auto bytes = [&](int layers) {
    spec::Spec spec = open;
    spec.optimizations.fit = spec::Fit::none;
    return compile(spec, {.block = true, .layers = layers}, up_to(1)).plan.arena_bytes;
  };
  for (const int layers : {1, 2, 4}) {
    spec::Spec spec = open;
    const ChosenKeys keys = choose_open_keys(spec, up_to(bytes(layers)));
    EXPECT_FALSE(keys.problem);
    EXPECT_EQ(spec.optimizations.recompute_layers, layers);
    EXPECT_EQ(spec.optimizations.recompute.mode, spec::Recompute::Mode::block);
    ASSERT_GE(keys.decisions.size(), 2u);
    EXPECT_NE(keys.decisions[1].text.find(fmt::format("taken: recompute_layers: {}, ", layers)),
              std::string::npos)
        << keys.decisions[1].text;
  }
  spec::Spec written = fitting_spec({"target=cpu", "model.num_hidden_layers=6", "train.micro_batch_size=8",
                                     "optimizations.recompute=block", "optimizations.recompute_layers=5"});
  choose_open_keys(written, up_to(1));
  EXPECT_EQ(written.optimizations.recompute_layers, 5);
}

TEST(Fit, IsTheSameEachTime) {
  const spec::Spec spec = fitting_spec({"target=h100", "train.micro_batch_size=32"});
  spec::Spec once = spec, again = spec;
  const ChosenKeys first = choose_open_keys(once, up_to(100 << 20));
  const ChosenKeys second = choose_open_keys(again, up_to(100 << 20));
  EXPECT_TRUE(once == again);
  ASSERT_EQ(first.decisions.size(), second.decisions.size());
  for (size_t i = 0; i < first.decisions.size(); ++i)
    EXPECT_EQ(first.decisions[i].text, second.decisions[i].text);
}

TEST(Fit, LeavesTheDefaultsWhereTheyFit) {
  spec::Spec spec = fitting_spec({"target=h100"});
  const ChosenKeys keys = choose_open_keys(spec, {});
  EXPECT_EQ(spec.train.micro_batch_size, 32);
  EXPECT_EQ(spec.optimizations.recompute, spec::Recompute{});
  EXPECT_EQ(spec.optimizations.loss, spec::LossKernel::materialized);
  EXPECT_FALSE(spec.optimizations.offload.optimizer_state.any());
  ASSERT_EQ(keys.decisions.size(), 3u);
  EXPECT_TRUE(keys.decisions[1].text.starts_with(
      "taken: micro_batch_size: 32, recompute: none, loss: materialized, offload.optimizer_state: false: "))
      << keys.decisions[1].text;
  EXPECT_TRUE(keys.decisions[1].text.ends_with(" ms a step predicted, no more than with unlimited memory"));
  EXPECT_TRUE(keys.decisions[2].text.ends_with(" combinations planned: the defaults fit"));
}

TEST(Fit, LeavesWhatTheSpecWrites) {
  const std::vector<std::string> written = {"target=h100", "train.micro_batch_size=16",
                                            "optimizations.recompute=none", "optimizations.loss=materialized",
                                            "optimizations.offload.optimizer_state=false"};
  for (size_t open = 1; open < written.size(); ++open) {
    std::vector<std::string> overrides = written;
    overrides.erase(overrides.begin() + static_cast<ptrdiff_t>(open));
    overrides.insert(overrides.end(),
                     {"train.sequence_len=256", "model.vocab_size=200000"});  // heads in parts
    const spec::Spec before = fitting_spec(overrides);
    spec::Spec spec = before;
    choose_open_keys(spec, up_to(1));  // nothing fits: the leanest values of what is open
    EXPECT_EQ(spec.train.micro_batch_size == 16, open != 1);
    EXPECT_EQ(spec.optimizations.recompute == spec::Recompute{}, open != 2);
    EXPECT_EQ(spec.optimizations.loss == spec::LossKernel::materialized, open != 3);
    EXPECT_EQ(spec.optimizations.offload.optimizer_state.value, open == 4);
    EXPECT_EQ(spec.optimizations.optimizer_state, spec::StateType::fp32);
  }
}

TEST(Fit, ChangesNumericsOnlyWhereItIsAllowedTo) {
  for (const char* fit : {"auto", "numerics"}) {
    spec::Spec spec = fitting_spec({"target=h100", std::string("optimizations.fit=") + fit});
    choose_open_keys(spec, up_to(1));
    EXPECT_EQ(spec.optimizations.optimizer_state == spec::StateType::int8, fit == std::string("numerics"));
  }
  spec::Spec spec =
      fitting_spec({"target=h100", "optimizations.fit=numerics", "optimizations.optimizer_state=fp32"});
  choose_open_keys(spec, up_to(1));
  EXPECT_EQ(spec.optimizations.optimizer_state, spec::StateType::fp32);
}

TEST(Fit, SaysTheLeastThatWouldDo) {
  spec::Spec spec = fitting_spec({"train.micro_batch_size=32"});
  const ChosenKeys keys = choose_open_keys(spec, up_to(1 << 20));
  ASSERT_TRUE(keys.problem);
  EXPECT_EQ(keys.problem->kind, diag::Kind::out_of_memory);
  EXPECT_EQ(keys.problem->where, (diag::Location{"test.yaml", 6, 22}));
  const int64_t least = compile(spec, up_to(1)).plan.arena_bytes;
  EXPECT_EQ(keys.problem->message, "none of the 75 combinations of keys fits: the least needs " +
                                       bytes_text(least) + ", and it may take 1.00 MiB");
  EXPECT_TRUE(keys.problem->suggestion.starts_with("the least is recompute: ")) << keys.problem->suggestion;
  EXPECT_NE(keys.problem->suggestion.find(", which a limit of 0.0"), std::string::npos)
      << keys.problem->suggestion;
}

TEST(Fit, NamesTheRunnerUp) {
  const spec::Spec open = fitting_spec({"target=h100", "train.micro_batch_size=32"});
  const std::vector<Planned> all = brute_force(open);
  const auto [least, most] = std::ranges::minmax(all, {}, &Planned::bytes);
  const int64_t limit = (least.bytes + most.bytes) / 2;
  const FitSpace space = fit_space(open);
  const FitFound found = search_fit(open, {}, space, limit);
  ASSERT_TRUE(found.best && found.runner_up);
  std::map<std::string, double> least_of_keys;
  for (const Planned& planned : all) {
    if (planned.bytes > limit) continue;
    const auto [least, is_new] =
        least_of_keys.try_emplace(planned.other_keys, seconds_within(planned, limit));
    if (!is_new) least->second = std::min(least->second, seconds_within(planned, limit));
  }
  std::vector<double> fitting;
  for (const auto& [keys, seconds] : least_of_keys) fitting.push_back(seconds);
  std::ranges::sort(fitting);
  fitting.erase(std::unique(fitting.begin(), fitting.end()), fitting.end());  // the same programs
  EXPECT_NEAR(found.best->seconds / fitting[0], 1, 1e-9);
  EXPECT_NEAR(found.runner_up->seconds / fitting[1], 1, 1e-9);
  EXPECT_LE(std::ssize(found.planned), space.combinations());

  const spec::Spec more = fitting_spec({"target=h100"});  // micro-batches too
  EXPECT_LT(std::ssize(search_fit(more, {}, fit_space(more), limit).planned),
            fit_space(more).combinations() / 2);
}

TEST(Fit, NeedsToKnowTheMemory) {
  spec::Spec spec = fitting_spec({"target=sm_86"});
  EXPECT_THROW(choose_open_keys(spec, {}), runtime::InputError);
}

TEST(Fit, IsAnsweredBeforeAProgramIsCompiled) {
  EXPECT_THROW(compile(fitting_spec({"train.micro_batch_size=32"}), {}), std::logic_error);
}

}  // namespace
}  // namespace hydrac::driver
