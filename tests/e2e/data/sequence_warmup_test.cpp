// Runs whose sequences grow.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

TEST(SequenceWarmup, EveryRecordAndTheConsoleTellTheLength) {
  const Workplace place;
  const Outcome outcome =
      place.run({"base.yaml", "data.tokenizer=char", "train.sequence_warmup={start: 4, steps: 9}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("training sequences grow: 4 tokens in the first step, 16 from step 10 on\n"),
            std::string::npos)
      << outcome.out;
  const int64_t expected[] = {4, 4, 4, 8, 8, 8, 12, 12, 12, 16, 16, 16};
  const auto records = records_of(place / "runs/base");
  ASSERT_EQ(records.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(records[i]["sequence_len"], expected[i]) << i;
    EXPECT_NE(
        outcome.out.find(fmt::format("step {}/12  loss {:.4f}", i + 1, records[i]["loss"].get<double>())),
        std::string::npos);
  }
  EXPECT_NE(outcome.out.find("  length 12  "), std::string::npos) << outcome.out;
}

// A row of 16 that is cut after 8 is two sequences of 8, which a batch of twice as many sequences has: the
// same text in the same order, the same rows in every matmul. All of a row is in one tile of attention's, so
// that its sums are in the same order too.
TEST(SequenceWarmup, TrainsAsABatchOfShorterSequencesBitForBit) {
  const Workplace place;
  const Words common = {"base.yaml",
                        "-q",
                        "data.tokenizer=char",
                        "data.shuffle=false",
                        "model.dropout=0",
                        "model.attention_dropout=0",
                        "model.max_position_embeddings=16",
                        "train.eval_steps=0",
                        "train.max_steps=6"};
  const Outcome cut =
      place.run(with(common, {"train.sequence_warmup={start: 8, steps: 6}", "output.dir=runs/cut"}));
  ASSERT_EQ(cut.code, 0) << cut.err;
  const Outcome shorter =
      place.run(with(common, {"train.sequence_len=8", "train.micro_batch_size=4", "output.dir=runs/short"}));
  ASSERT_EQ(shorter.code, 0) << shorter.err;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_TRUE(slurp(place / "runs/cut/checkpoint-6" / name) ==
                slurp(place / "runs/short/checkpoint-6" / name))
        << name << " differs";
  const auto a = records_of(place / "runs/cut"), b = records_of(place / "runs/short");
  ASSERT_EQ(a.size(), 6u);
  ASSERT_EQ(b.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(a[i]["loss"], b[i]["loss"]) << i;
  // And whole rows are others.
  ASSERT_EQ(place.run(with(common, {"output.dir=runs/whole"})).code, 0);
  EXPECT_NE(records_of(place / "runs/whole")[0]["loss"], a[0]["loss"]);
}

// Killed while sequences are short, and again while they are longer.
TEST(SequenceWarmup, AKilledRunEndsAsIfItHadNotBeen) {
  const Workplace place;
  const Words growing = {"base.yaml", "train.sequence_warmup={start: 4, steps: 10}", "train.save_steps=1"};
  ASSERT_EQ(place.run(with(growing, {"-q", "output.dir=runs/whole"})).code, 0);
  for (const char* step : {"checkpoint-3", "checkpoint-7"}) {
    Process process(place.path(), with(growing, {"--resume", "auto"}));
    ASSERT_TRUE(process.wait_for(step));
    process.send(SIGKILL);
    process.finish();
  }
  const Outcome rest = place.run(with(growing, {"--resume"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"})
    EXPECT_TRUE(slurp(place / "runs/base/checkpoint-12" / name) ==
                slurp(place / "runs/whole/checkpoint-12" / name))
        << name << " differs";
  EXPECT_EQ(without_timing(slurp(place / "runs/base/metrics.jsonl")),
            without_timing(slurp(place / "runs/whole/metrics.jsonl")));
}

TEST(SequenceWarmup, AnotherOneIsNoContinuation) {
  const Workplace place;
  const Words growing = {"base.yaml", "-q", "train.lr_scheduler.name=constant",
                         "train.sequence_warmup={start: 4, steps: 10}"};
  ASSERT_EQ(place.run(growing).code, 0);
  const Outcome outcome =
      place.run(with(growing, {"--resume", "train.max_steps=16", "train.sequence_warmup.steps=12"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("\n  train.sequence_warmup.steps: 10 in the checkpoint, 12 now\n"),
            std::string::npos)
      << outcome.err;
}

TEST(SequenceWarmup, ProgramsForEveryTargetTakeDocumentsAndKnowTheSchedule) {
  const Workplace place;
  for (const Words& target :
       {Words{"target=cpu", "--threads", "2"}, Words{"target=h200", "optimizations.precision=bf16"},
        Words{"target=gtx1650ti", "optimizations.precision=fp16"}}) {
    const Outcome outcome = place.run(with({"emit", "base.yaml", "-o", "program", "-q", "data.tokenizer=char",
                                            "train.sequence_warmup={start: 4, steps: 10}"},
                                           target));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(slurp(place / "program/settings.cpp")
                  .find("data.sequence_warmup = {.sequence_len = T, .start = 4, .steps = 10, "
                        ".samples_per_step = 4};"),
              std::string::npos);
    EXPECT_NE(slurp(place / "program/layout.cpp").find("inputs.documents"), std::string::npos);
  }
}

// With train.epochs the run's length is known when the data is.
TEST(SequenceWarmup, LongerThanTheRunIsAnErrorAlsoWhereTheDataSaysItsLength) {
  const Workplace place;
  const Outcome outcome =
      place.run({"base.yaml", "train.epochs=0.1", "train.sequence_warmup={start: 4, steps: 1000000}"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("sequence_warmup.steps (1000000) is more than max_steps ("), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace hydrac::e2e
