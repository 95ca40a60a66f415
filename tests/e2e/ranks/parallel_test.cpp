// Several ranks train as one process that accumulates as many micro-batches, byte for byte, and end as one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// A step of `micro_batches`, by as many ranks or by one process.
Words by_ranks(int micro_batches) {
  return {"train.gradient_accumulation_steps=1", fmt::format("parallel.data={}", micro_batches)};
}
Words by_one(int micro_batches) {
  return {fmt::format("train.gradient_accumulation_steps={}", micro_batches)};
}

Words in_folder(const std::string& name) {
  return {"output.dir=runs/" + name};
}

// No kernel knows how many steps there are: few programs are compiled.
const Words kBase = {"base.yaml", "train.lr_scheduler.name=constant"};
const Words kForever = {"train.max_steps=100000000", "train.save_steps=50", "train.save_total_limit=3",
                        "train.eval_steps=0"};

// By bytes: a manifest has the sums of all other files.
void expect_checkpoint_of_one(const fs::path& a, const fs::path& b) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "choices.json",
                           "config.json", "manifest.json"})
    EXPECT_TRUE(slurp(a / name) == slurp(b / name)) << name << " of " << a << " differs";
}

// Texts that are shorter and longer than a sequence.
std::string documents() {
  std::string text;
  for (int line = 0; line < 120; ++line)
    text += fmt::format("{{\"text\": \"{}\"}}\n",
                        std::string(static_cast<size_t>(5 + line * 7 % 40), 'a' + line % 26));
  return text;
}

// Dropout, clipping and validation are base.yaml's.
TEST(Parallel, TwoRanksTrainAsOneProcessThatAccumulates) {
  const Workplace place;
  run_well(place, with(with(kBase, by_one(2)), in_folder("one")));
  run_well(place, with(with(kBase, by_ranks(2)), in_folder("two")));
  for (const char* step : {"checkpoint-2", "checkpoint-12"})
    expect_checkpoint_of_one(place / "runs/two" / step, place / "runs/one" / step);
  EXPECT_EQ(metrics_of(place / "runs/two"), metrics_of(place / "runs/one"));
  const std::string log = slurp(place / "runs/two/rank-1.log");
  EXPECT_TRUE(log.starts_with("rank 1 of 2, process ")) << log;
  EXPECT_NE(log.find("step 12/12  loss "), std::string::npos) << log;
}

TEST(Parallel, FourRanksTrainAsOneProcessThatAccumulates) {
  const Workplace place;
  test::spill(place / "documents.jsonl", documents());
  const Words words = with(kBase, {"data.path=documents.jsonl", "train.optimizer.name=muon",
                                   "train.max_grad_norm=0.1", "train.freeze=[model.layers.0.mlp.*]"});
  run_well(place, with(with(words, by_one(4)), in_folder("one")));
  run_well(place, with(with(words, by_ranks(4)), in_folder("four")));
  expect_checkpoint_of_one(place / "runs/four/checkpoint-12", place / "runs/one/checkpoint-12");
  EXPECT_EQ(metrics_of(place / "runs/four"), metrics_of(place / "runs/one"));
}

// What a sample is does not depend on who computes it, also where the length of its sequences changes.
TEST(Parallel, RanksThatWarmSequencesUpTrainAsOneProcess) {
  const Workplace place;
  const Words words = with(kBase, {"train.sequence_warmup={start: 4, steps: 8}", "data.tokenizer=char"});
  run_well(place, with(with(words, by_one(2)), in_folder("one")));
  run_well(place, with(with(words, by_ranks(2)), in_folder("two")));
  for (const char* step : {"checkpoint-6", "checkpoint-12"})
    expect_checkpoint_of_one(place / "runs/two" / step, place / "runs/one" / step);
  EXPECT_EQ(metrics_of(place / "runs/two"), metrics_of(place / "runs/one"));
}

Words sharing(int ranks, int level = 1) {
  return with(by_ranks(ranks), {fmt::format("parallel.zero={}", level)});
}

class Zero : public testing::TestWithParam<int> {};

// The first checkpoint of two ranks that share the update is continued by one process, that one's by two
// that have all of it, and theirs by two that share it: moments are those of one model.
TEST_P(Zero, RanksThatShareTheUpdateTrainAsOneProcess) {
  const Workplace place;
  const Words base = with(kBase, {"train.max_grad_norm=0.1"});
  const auto train = [&](const Words& how, const std::string& run, int steps) {
    run_well(place, with(with(with(base, how), in_folder(run)), {fmt::format("train.max_steps={}", steps)}));
  };
  train(by_one(2), "one", 12);
  train(sharing(2, GetParam()), "two", 12);
  for (const char* step : {"checkpoint-2", "checkpoint-12"})
    expect_checkpoint_of_one(place / "runs/two" / step, place / "runs/one" / step);
  EXPECT_EQ(metrics_of(place / "runs/two"), metrics_of(place / "runs/one"));

  const Words resumed = {"--resume", "--exact"};
  train(sharing(2, GetParam()), "mixed", 3);
  train(with(by_one(2), resumed), "mixed", 6);
  train(with(sharing(2, GetParam() - 1), resumed), "mixed", 9);
  train(with(sharing(2, GetParam()), resumed), "mixed", 12);
  expect_checkpoint_of_one(place / "runs/mixed/checkpoint-12", place / "runs/one/checkpoint-12");
}

// Matrices of three layers, of which one rank has two whole and the other one; momentum is that of one model.
TEST_P(Zero, RanksOrthogonalizeMatricesOfSomeLayersEach) {
  const Workplace place;
  const Words base =
      with(kBase, {"train.max_grad_norm=0.1", "train.optimizer.name=muon", "model.num_hidden_layers=3"});
  const auto train = [&](const Words& how, const std::string& run, int steps) {
    run_well(place, with(with(with(base, how), in_folder(run)), {fmt::format("train.max_steps={}", steps)}));
  };
  train(by_ranks(2), "whole", 6);
  const Words resumed = {"--resume", "--exact"};
  train(sharing(2, GetParam()), "mixed", 2);
  train(with(by_one(2), resumed), "mixed", 3);
  train(with(sharing(2, GetParam() - 1), resumed), "mixed", 4);
  train(with(sharing(2, GetParam()), resumed), "mixed", 6);
  expect_checkpoint_of_one(place / "runs/mixed/checkpoint-6", place / "runs/whole/checkpoint-6");
}

// In sums of two micro-batches each bits are others than one process's, and not than zero: 0's where whole
// gradients are summed. Sums of parts are the same at every run, and what a resumed run says.
TEST_P(Zero, RanksSumTwoMicroBatchesEach) {
  const Workplace place;
  const auto train = [&](int level, const std::string& run, int steps, const Words& more = {}) {
    run_well(place, with(with(with(kBase, sharing(2, level)), in_folder(run)),
                         with({"train.gradient_accumulation_steps=2",
                               fmt::format("train.max_steps={}", steps), "train.max_grad_norm=0.1"},
                              more)));
  };
  train(GetParam(), "shared", 4);
  if (GetParam() == 1) {
    train(0, "whole", 4);
    expect_checkpoint_of_one(place / "runs/shared/checkpoint-4", place / "runs/whole/checkpoint-4");
    return;
  }
  train(GetParam(), "again", 3);
  train(GetParam(), "again", 4, {"--resume", "--exact"});
  expect_checkpoint_of_one(place / "runs/shared/checkpoint-4", place / "runs/again/checkpoint-4");
  const Outcome other = place.run(
      with(with(kBase, sharing(2)), {"output.dir=runs/again", "train.gradient_accumulation_steps=2",
                                     "train.max_steps=5", "train.max_grad_norm=0.1", "--resume", "--exact"}));
  EXPECT_NE(other.code, 0);
  EXPECT_NE(other.err.find("2 ranks of 2, one at a time"), std::string::npos) << other.err;
}

// Frozen layers, groups of exact and of 8-bit moments, parts that end in padding.
TEST_P(Zero, FourRanksShareTheUpdateWhateverTheOptimizer) {
  const Workplace place;
  test::spill(place / "documents.jsonl", documents());
  const std::vector<Words> optimizers = {
      {"train.optimizer.name=lion", "train.freeze=[model.layers.0.mlp.*]", "data.path=documents.jsonl"},
      {"train.optimizer.name=sgd", "model.hidden_size=48", "model.num_attention_heads=2",
       "optimizations.loss=fused_linear"},
      {"optimizations.optimizer_state=int8", "model.tie_word_embeddings=true"},
      // Behind the sequences' end nobody writes the gradient of positions.
      {"model.position=learned", "model.max_position_embeddings=256"},
      {"adapter.type=lora", "train.lr_scheduler.name=adaptive"},
      // Of five layers two ranks have two whole, one has one, and one none.
      {"train.optimizer.name=muon", "model.num_hidden_layers=5", "optimizations.optimizer_state=int8"},
      {"train.optimizer.name=muon", "model.hidden_size=48", "model.num_attention_heads=2",
       "train.freeze=[model.layers.0.mlp.*]"},
  };
  int number = 0;
  for (const Words& optimizer : optimizers) {
    SCOPED_TRACE(optimizer[0]);
    const Words words = with(with(kBase, {"train.max_steps=4", "train.max_grad_norm=0.1"}), optimizer);
    const std::string one = fmt::format("one-{}", number), four = fmt::format("four-{}", number++);
    run_well(place, with(with(words, by_one(4)), in_folder(one)));
    run_well(place, with(with(words, sharing(4, GetParam())), in_folder(four)));
    const bool adapts = optimizer[0].starts_with("adapter");
    for (const char* name :
         {adapts ? "adapter_model.safetensors" : "model.safetensors", "optimizer.safetensors"}) {
      const std::string saved = slurp(place / "runs" / four / "checkpoint-4" / name);
      EXPECT_FALSE(saved.empty());
      EXPECT_TRUE(saved == slurp(place / "runs" / one / "checkpoint-4" / name)) << name;
    }
    EXPECT_EQ(metrics_of(place / "runs" / four), metrics_of(place / "runs" / one));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Zero, testing::Values(1, 2, 3));

// Layers gather their weights whatever they compute: held-out batches, of which one rank has one more, and a
// sample's tokens.
TEST(SharedWeights, RanksEvaluateAndSampleTogether) {
  const Workplace place;
  const Words words = with(
      kBase, {"train.max_steps=4", "train.eval_batches=3", "sample.max_new_tokens=8",
              "optimizations.recompute=block", "model.mlp_bias=true", "model.tie_word_embeddings=false"});
  const auto sampled = [&](const Words& how, const std::string& run) {
    const Outcome outcome = place.run(with(with(words, how), in_folder(run)));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out.substr(outcome.out.rfind("checkpoint-4"));
  };
  EXPECT_EQ(sampled(sharing(2, 3), "two"), sampled(by_one(2), "one"));
  expect_checkpoint_of_one(place / "runs/two/checkpoint-4", place / "runs/one/checkpoint-4");
  EXPECT_EQ(metrics_of(place / "runs/two"), metrics_of(place / "runs/one"));
}

// Its kernels are compiled by the first test.
class Ends : public testing::Test {
 protected:
  // Starts two ranks and waits until they train.
  void start(const Words& more = {}) {
    process_ = std::make_unique<Process>(place_.path(), with(with(with(kBase, by_ranks(2)), kForever), more));
    ASSERT_TRUE(process_->wait_for("step 60/"));
    const std::string log = slurp(place_ / "runs/base/rank-1.log"), before = "process ";
    rank_1_ = std::stoi(log.substr(log.rfind(before) + before.size()));
  }
  // Byte for byte what one process makes of the first `steps` steps, from the beginning.
  void expect_same_as_one(int64_t steps) {
    const std::string until = fmt::format("train.max_steps={}", steps);
    const Words one = with(with(kBase, by_one(2)), kForever);
    run_well(place_, with(with(one, in_folder("one")), {until}));
    const std::string checkpoint = fmt::format("checkpoint-{}", steps);
    expect_checkpoint_of_one(place_ / "runs/base" / checkpoint, place_ / "runs/one" / checkpoint);
  }
  // One that has ended may stay, as a zombie, until someone asks how.
  bool rank_1_runs() const {
    std::ifstream stat(fmt::format("/proc/{}/stat", rank_1_));
    const std::string text((std::istreambuf_iterator<char>(stat)), {});
    const size_t name = text.rfind(") ");
    return name != std::string::npos && text[name + 2] != 'Z';
  }
  // Within two minutes, which is for machines that do much else.
  bool rank_1_ends() const {
    for (int i = 0; i < 2400 && rank_1_runs(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return !rank_1_runs();
  }
  int64_t newest() const {
    int64_t step = 0;
    for (const auto& entry : fs::directory_iterator(place_ / "runs/base")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("checkpoint-")) step = std::max<int64_t>(step, std::stoll(name.substr(11)));
    }
    return step;
  }

  const Workplace place_;
  std::unique_ptr<Process> process_;
  int rank_1_ = 0;
};

TEST_F(Ends, ASignalToAnyRankSavesAndStopsAll) {
  start();
  ASSERT_EQ(::kill(rank_1_, SIGTERM), 0);
  const Outcome stopped = process_->finish();
  EXPECT_EQ(stopped.code, 4) << stopped.err;
  EXPECT_TRUE(rank_1_ends());
  expect_same_as_one(newest());
}

// The checkpoint is whole; one process, and then two ranks again, go on from it as if nothing had happened.
TEST_F(Ends, AKilledRankEndsAllAndNothingIsLost) {
  start();
  ASSERT_EQ(::kill(rank_1_, SIGKILL), 0);
  const Outcome killed = process_->finish();
  EXPECT_EQ(killed.code, 3) << killed.err;
  const std::string end = fmt::format(
      "rank 1 (process {}) was killed by signal 9 (Killed); the other ranks "
      "end too\nthe newest checkpoint is runs/base/checkpoint-{}\n",
      rank_1_, newest());
  EXPECT_TRUE(killed.err.ends_with(end)) << killed.err;
  const int64_t saved = newest();
  run_well(place_, with(with(with(with(kBase, {"--resume", "--exact"}), by_one(2)), kForever),
                        {fmt::format("train.max_steps={}", saved + 5)}));
  run_well(place_, with(with(with(with(kBase, {"--resume", "--exact"}), by_ranks(2)), kForever),
                        {fmt::format("train.max_steps={}", saved + 10)}));
  expect_same_as_one(saved + 10);
}

TEST_F(Ends, RanksThatShareTheUpdateSaveTogether) {
  start({"parallel.zero=2"});
  ASSERT_EQ(::kill(rank_1_, SIGTERM), 0);
  const Outcome stopped = process_->finish();
  EXPECT_EQ(stopped.code, 4) << stopped.err;
  EXPECT_TRUE(rank_1_ends());
  expect_same_as_one(newest());
}

TEST_F(Ends, WithRank0AllRanksEnd) {
  start();
  process_->send(SIGKILL);
  const Outcome killed = process_->finish();
  EXPECT_EQ(killed.code, 1000 + SIGKILL);
  EXPECT_TRUE(rank_1_ends());
  EXPECT_NE(slurp(place_ / "runs/base/rank-1.log").find("rank 0 ended without a word"), std::string::npos);
}

// Rank 1 is named, and the first signal to rank 0 ends the run: saved, if rank 1 was stopped after it had
// agreed to end, else in the middle of a step or before one.
TEST_F(Ends, ARankThatIsStoppedIsNamedAndHoldsNobodyUp) {
  start();
  ASSERT_EQ(::kill(rank_1_, SIGSTOP), 0);
  process_->send(SIGTERM);
  const Outcome stopped = process_->finish();
  const std::string who = fmt::format("rank 1 (process {})", rank_1_);
  EXPECT_NE(stopped.err.find(fmt::format("note: {} has not answered for ", who)), std::string::npos)
      << stopped.err;
  const std::string end = fmt::format(
      "the run was asked to stop, and {} does not answer\nthe newest checkpoint is runs/base/checkpoint-{}\n",
      who, newest());
  if (stopped.code == 4)
    EXPECT_TRUE(stopped.out.ends_with("; --resume continues it\n")) << stopped.out;
  else
    EXPECT_TRUE(stopped.code == 3 && stopped.err.ends_with(end)) << stopped.code << stopped.err;
  EXPECT_TRUE(rank_1_ends());
  expect_same_as_one(newest());
}

TEST(Parallel, LaunchersStartRanksToo) {
  const Workplace place;
  std::map<std::string, std::string> environment = {
      {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_PORT", std::to_string(::getpid())}};
  const Words words = with(with(kBase, by_ranks(2)), {"train.max_steps=3"});
  Process second(place.path(), words, environment);
  environment["RANK"] = "0";
  const Outcome first = place.run(words, environment);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("step 3/3"), std::string::npos) << first.out;
  const Outcome other = second.finish();
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.out, "");
}

TEST(Parallel, RanksThatDisagreeEndAtOnce) {
  const Workplace place;
  std::map<std::string, std::string> environment = {
      {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_PORT", std::to_string(::getpid())}};
  // Quiet: whether ranks share cores is the machine's.
  const Words words = with(with(kBase, by_ranks(2)), {"-q", "train.max_steps=3"});
  Process second(place.path(), with(words, {"train.seed=7"}), environment);
  environment["RANK"] = "0";
  const Outcome first = place.run(words, environment);
  EXPECT_EQ(first.code, 2);
  EXPECT_EQ(first.err,
            "hydrac: error: the ranks must train alike: rank 1 has train.seed = 7, where rank 0 has "
            "train.seed = 1337\n");
  EXPECT_NE(second.finish().code, 0);
  EXPECT_FALSE(fs::exists(place / "runs"));
}

// Of the gradients and the loss, three quarters to those who add them up, and as much back.
TEST(Parallel, ThePlanSaysWhatARankNeedsAndSends) {
  const Workplace place;
  const Outcome checked = place.run(with({"check", "base.yaml", "--json"}, by_ranks(4)));
  ASSERT_EQ(checked.code, 0) << checked.err;
  const nlohmann::json json = nlohmann::json::parse(checked.out);
  const int64_t gradients = json["memory"]["bytes"]["gradient"];
  EXPECT_EQ(
      json["ranks"],
      (nlohmann::json{
          {"count", 4}, {"tensor", 1}, {"zero", 0}, {"bytes_sent_per_step", 2 * 3 * (gradients + 4) / 4}}));
  const Outcome text = place.run(with({"check", "base.yaml"}, by_ranks(4)));
  EXPECT_NE(text.out.find("\n4 ranks have such an arena each, "), std::string::npos) << text.out;
}

// As many bytes of gradients and parameters, but for padding; the squares of rows, the loss. A quarter of the
// moments, and of the gradients.
TEST(SharedPlan, SaysWhatARankNeedsAndSends) {
  const Workplace place;
  const auto checked = [&](const Words& words) {
    const Outcome outcome = place.run(with({"check", "base.yaml", "--json"}, words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const auto bytes = [](const nlohmann::json& json, const char* role) {
    return json["memory"]["bytes"][role].get<int64_t>();
  };
  const nlohmann::json whole = checked(by_ranks(4)), shared = checked(sharing(4)),
                       sharded = checked(sharing(4, 2));
  const int64_t gradients = bytes(shared, "gradient"), row = 1024 * 4;
  EXPECT_LT(gradients - bytes(whole, "gradient"), 4 * row);
  EXPECT_EQ(bytes(shared, "optimizer_state"), 2 * gradients / 4);
  const int64_t sent = 3 * (2 * gradients + 2 * (bytes(whole, "gradient") / 1024 + 4)) / 4;
  EXPECT_EQ(shared["ranks"],
            (nlohmann::json{{"count", 4}, {"tensor", 1}, {"zero", 1}, {"bytes_sent_per_step", sent}}));
  EXPECT_EQ(sharded["ranks"],
            (nlohmann::json{{"count", 4}, {"tensor", 1}, {"zero", 2}, {"bytes_sent_per_step", sent}}));
  EXPECT_EQ(bytes(sharded, "optimizer_state"), bytes(shared, "optimizer_state"));
  // The rank's part of all, and what vectors have until the end of a micro-batch.
  EXPECT_EQ(bytes(sharded, "gradient"), gradients / 4 + 4 * row);
  const Outcome text = place.run(with({"check", "base.yaml"}, sharing(4)));
  EXPECT_NE(text.out.find(", and the optimizer's state of 1/4 of the parameters; a rank sends "),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find(" of sums and parameters a step"), std::string::npos) << text.out;
  const Outcome of_shards = place.run(with({"check", "base.yaml"}, sharing(4, 2)));
  EXPECT_NE(of_shards.out.find(", and the optimizer's state and gradients of 1/4 of the parameters; "),
            std::string::npos)
      << of_shards.out;
  const Outcome explained =
      place.run(with({"explain", "base.yaml"}, with(sharing(4, 2), {"model.vocab_size=257"})));
  EXPECT_NE(explained.out.find("a layer's gradients are summed as soon as they are finished, and a rank "
                               "keeps 1/4 of the sums"),
            std::string::npos)
      << explained.out;
}

TEST(Parallel, WhatCannotBeIsRefused) {
  const Workplace place;
  const auto refusal = [&](const Words& words, const std::map<std::string, std::string>& environment = {}) {
    const Outcome outcome = place.run(words, environment);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(refusal({"base.yaml"}, {{"RANK", "0"}, {"WORLD_SIZE", "3"}}),
            "hydrac: error: torchrun started 3 ranks, and the spec is of 1: write parallel.data=3, or start "
            "as many\n");
  const std::string bench = refusal({"bench", "base.yaml", "parallel.data=2"});
  EXPECT_NE(bench.find("hydrac bench is about one process, and parallel.data is 2"), std::string::npos)
      << bench;
  EXPECT_NE(bench.find("parallel.data=1"), std::string::npos) << bench;
}

}  // namespace
}  // namespace hydrac::e2e
