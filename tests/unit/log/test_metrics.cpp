#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>

#include "runtime/error.h"
#include "runtime/log/metrics.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::spill;
using test::TempDir;

MetricsRecord with_loss(int64_t step, double loss) {
  MetricsRecord record;
  record.step = step;
  record.loss = loss;
  return record;
}

TEST(MetricsLine, KeysInTheirOrderAndOnlyThosePresent) {
  MetricsRecord record{.step = 120,
                       .loss = 2.4312,
                       .eval_loss = 2.51,
                       .eval_accuracy = 0.75,
                       .eval_perplexity = 12.3,
                       .grad_norm = 0.87,
                       .learning_rate = 1e-3,
                       .sequence_len = 64,
                       .curriculum_share = 0.25,
                       .metrics = {{{.name = "mean_depth"}, 1.5}, {{.name = "kl"}, 2e-7}},
                       .sampling_ms = 12.25,
                       .loss_scale = 65536,
                       .skipped_steps = 3,
                       .tokens_per_second = 34512.5,
                       .samples_per_second = 269.6,
                       .mfu = 0.41,
                       .step_ms = 118.25,
                       .step_ms_p50 = 117.5,
                       .step_ms_p95 = 120.25,
                       .step_ms_max = 131,
                       .data_wait_ms = 0.25,
                       .communication_ms = 12.5,
                       .memory_gib = 1.5,
                       .gpu_util = 0.97,
                       .power_watts = 651,
                       .temperature_celsius = 61,
                       .sm_clock_mhz = 1755,
                       .joules_per_token = 0.02};
  EXPECT_EQ(
      metrics_line(record),
      R"({"step":120,"loss":2.4312,"eval_loss":2.51,"eval_accuracy":0.75,"eval_perplexity":12.3,"grad_norm":0.87,"learning_rate":0.001,"sequence_len":64,"curriculum_share":0.25,)"
      R"("sampling_ms":12.25,"loss_scale":65536,)"
      R"("skipped_steps":3,"tokens_per_second":34512.5,"samples_per_second":269.6,"mfu":0.41,"step_ms":118.25,)"
      R"("step_ms_p50":117.5,"step_ms_p95":120.25,"step_ms_max":131,"data_wait_ms":0.25,"communication_ms":12.5,"memory_gib":1.5,)"
      R"("gpu_util":0.97,"power_watts":651,"temperature_celsius":61,"sm_clock_mhz":1755,"joules_per_token":0.02,"mean_depth":1.5,"kl":2e-07})");
  EXPECT_EQ(metrics_line(MetricsRecord{}), R"({"step":0})");
  MetricsRecord sparse;
  sparse.step = 3;
  sparse.eval_loss = 2;
  EXPECT_EQ(metrics_line(sparse), R"({"step":3,"eval_loss":2})");
}

TEST(MetricsLine, ShortestNumbersThatReadBackExactly) {
  EXPECT_EQ(metrics_line(with_loss(1, 0.1)), R"({"step":1,"loss":0.1})");
  EXPECT_EQ(metrics_line(with_loss(1, 1.0 / 3)), R"({"step":1,"loss":0.3333333333333333})");
  EXPECT_EQ(metrics_line(with_loss(1, 6e-5)), R"({"step":1,"loss":6e-05})");
  EXPECT_EQ(metrics_line(with_loss(1, 1e300)), R"({"step":1,"loss":1e+300})");
}

TEST(MetricsLine, NanAndInfinityAreNull) {
  EXPECT_EQ(metrics_line(with_loss(1, NAN)), R"({"step":1,"loss":null})");
  EXPECT_EQ(metrics_line(with_loss(1, -INFINITY)), R"({"step":1,"loss":null})");
}

class MetricsFile : public ::testing::Test {
 protected:
  void append(int64_t last_step, std::initializer_list<int64_t> steps) {
    MetricsWriter writer(file_, last_step);
    for (const int64_t step : steps) writer.append(with_loss(step, 0.5));
  }
  static std::string lines(std::initializer_list<int64_t> steps) {
    std::string text;
    for (const int64_t step : steps) text += metrics_line(with_loss(step, 0.5)) + "\n";
    return text;
  }

  TempDir dir_;
  std::filesystem::path file_ = dir_ / "metrics.jsonl";
};

TEST_F(MetricsFile, ALineARecord) {
  append(-1, {0, 1, 5});
  EXPECT_EQ(slurp(file_), lines({0, 1, 5}));
}

TEST_F(MetricsFile, ALineIsThereAsSoonAsItIsAppended) {
  MetricsWriter writer(file_, -1);
  writer.append(with_loss(1, 0.5));
  EXPECT_EQ(slurp(file_), lines({1}));
}

TEST_F(MetricsFile, AFreshRunBeginsAnew) {
  spill(file_, "anything at all");
  append(-1, {0});
  EXPECT_EQ(slurp(file_), lines({0}));
}

TEST_F(MetricsFile, AResumedRunContinuesAfterItsStep) {
  append(-1, {1, 2, 3, 4, 5});
  append(3, {4, 5, 6});
  EXPECT_EQ(slurp(file_), lines({1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "metrics.jsonl.tmp"));
}

TEST_F(MetricsFile, TheUnfinishedLineOfAKilledRunGoes) {
  spill(file_, lines({1, 2}) + "{\"step\":3,\"lo");
  append(2, {3});
  EXPECT_EQ(slurp(file_), lines({1, 2, 3}));
  spill(file_, lines({1}) + std::string(100, '\0'));
  append(2, {3});
  EXPECT_EQ(slurp(file_), lines({1, 3}));
}

TEST_F(MetricsFile, AResumeWithoutTheFileStartsOne) {
  append(7, {8});
  EXPECT_EQ(slurp(file_), lines({8}));
}

TEST_F(MetricsFile, ALineThatIsNoRecordIsNamedAndNothingIsChanged) {
  for (const char* line : {"hello", "[]", "{}", "{\"step\":\"3\"}", "{\"step\":-3}", ""}) {
    const std::string text = lines({1}) + line + "\n" + lines({3});
    spill(file_, text);
    EXPECT_EQ(message_of<InputError>([&] { append(3, {}); }),
              file_.string() + ":2: this line is no record with a \"step\"; remove or repair it to resume");
    EXPECT_EQ(slurp(file_), text);
  }
}

TEST_F(MetricsFile, AStepNeverAppearsTwice) {
  MetricsWriter writer(file_, 3);
  EXPECT_EQ(message_of<std::logic_error>([&] { writer.append(with_loss(3, 1)); }),
            "metrics of step 3 after those of step 3");
  writer.append(with_loss(4, 1));
  EXPECT_EQ(message_of<std::logic_error>([&] { writer.append(with_loss(4, 1)); }),
            "metrics of step 4 after those of step 4");
}

TEST_F(MetricsFile, WhatCannotBeWrittenIsSaid) {
  const std::string path = (dir_ / "missing/metrics.jsonl").string();
  EXPECT_EQ(message_of<RunError>([&] { MetricsWriter writer(path, -1); }),
            "cannot open " + path + ": No such file or directory");
}

TEST_F(MetricsFile, RunningOutOfSpaceIsSaidAndCostsNoEarlierLine) {
  test::Child child([&](int pipe) {
    ::signal(SIGXFSZ, SIG_IGN);
    MetricsWriter writer(file_, -1);
    writer.append(with_loss(1, 0.5));
    const rlimit limit{30, 30};  // the second line's first bytes
    ::setrlimit(RLIMIT_FSIZE, &limit);
    test::tell(pipe, message_of<RunError>([&] { writer.append(with_loss(2, 0.5)); }));
  });
  EXPECT_EQ(
      child.read(),
      "cannot write " + file_.string() +
          ": File too large; raise the limit on file sizes (ulimit -f) or set output.dir to a folder on "
          "another file system");
  ASSERT_EQ(child.wait(), 0);
  EXPECT_EQ(slurp(file_), lines({1}) + "{\"step\":");
  append(2, {3});
  EXPECT_EQ(slurp(file_), lines({1, 3}));
}

}  // namespace
}  // namespace hydrac::runtime
