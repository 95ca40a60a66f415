#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "runtime/log/progress.h"
#include "runtime/log/units.h"

namespace hydrac::runtime {
namespace {

MetricsRecord record_of(int64_t step, std::optional<double> eval_loss = {}) {
  MetricsRecord record;
  record.step = step;
  record.loss = 2.43118;
  record.eval_loss = eval_loss;
  record.grad_norm = 0.871;
  record.learning_rate = 1e-3;
  record.tokens_per_second = 34512;
  return record;
}

// What `use` makes a Progress print.
template <typename Use>
std::string printed(const ProgressOptions& options, Use use) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    Progress progress(out, options);
    use(progress);
  }
  std::fclose(out);
  const std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ProgressLine, EverythingThatIsKnown) {
  EXPECT_EQ(progress_line(record_of(120, 2.51), 400, 42.2),
            "step 120/400  loss 2.4312  eval 2.5100  grad 0.87  lr 1.0e-03  34.5k tok/s  eta 0:42");
  EXPECT_EQ(progress_line(MetricsRecord{}, 400, {}), "step 0/400");
  MetricsRecord bad;
  bad.loss = NAN;
  EXPECT_EQ(progress_line(bad, 400, INFINITY), "step 0/400  loss nan  eta ?");
}

TEST(ProgressLine, ANarrowTerminalLosesWhatIsMissedLeast) {
  const auto line = [](size_t columns) { return progress_line(record_of(120, 2.51), 400, 42.2, columns); };
  EXPECT_EQ(line(83), "step 120/400  loss 2.4312  eval 2.5100  lr 1.0e-03  34.5k tok/s  eta 0:42");
  EXPECT_EQ(line(72), "step 120/400  loss 2.4312  eval 2.5100  34.5k tok/s  eta 0:42");
  EXPECT_EQ(line(50), "step 120/400  loss 2.4312  eval 2.5100  eta 0:42");
  EXPECT_EQ(line(40), "step 120/400  loss 2.4312  eta 0:42");
  EXPECT_EQ(line(30), "step 120/400  loss 2.4312");
  EXPECT_EQ(line(20), "step 120/400");
  EXPECT_EQ(line(4), "step");
}

TEST(ProgressLine, LossScalingIsShownWhereThereIsRoom) {
  MetricsRecord record = record_of(120);
  record.loss_scale = 65536;
  record.skipped_steps = 0;
  EXPECT_EQ(progress_line(record, 400, {}),
            "step 120/400  loss 2.4312  grad 0.87  lr 1.0e-03  scale 65536  34.5k tok/s");
  record.skipped_steps = 3;
  const std::string line =
      "step 120/400  loss 2.4312  grad 0.87  lr 1.0e-03  scale 65536  skipped 3  34.5k tok/s";
  EXPECT_EQ(progress_line(record, 400, {}), line);
  EXPECT_EQ(progress_line(record, 400, {}, line.size() - 1),
            "step 120/400  loss 2.4312  grad 0.87  lr 1.0e-03  skipped 3  34.5k tok/s");
}

TEST(ProgressLine, TheLengthOfSequencesIsShownWhereItGrows) {
  MetricsRecord record = record_of(120);
  record.sequence_len = 128;
  EXPECT_EQ(progress_line(record, 400, {}),
            "step 120/400  loss 2.4312  grad 0.87  lr 1.0e-03  length 128  34.5k tok/s");
}

TEST(ProgressLine, MetricsWithALabelAreShownWhereThereIsRoom) {
  MetricsRecord record = record_of(120);
  record.metrics = {{{"mean_depth", "depth", 2}, 1.5}, {{"kl"}, 0.25}, {{"reward", "reward", 3, 4}, 2}};
  EXPECT_EQ(progress_line(record, 400, {}),
            "step 120/400  loss 2.4312  depth 1.50  reward 2.000  grad 0.87  lr 1.0e-03  34.5k tok/s");
  EXPECT_EQ(progress_line(record, 400, {}, 40), "step 120/400  loss 2.4312  reward 2.000");
}

TEST(ProgressOnATerminal, OneLineUpdatesItself) {
  const std::string out = printed({.max_steps = 4, .terminal = true}, [](Progress& progress) {
    progress.update(record_of(1), 10);
    progress.update(record_of(2, 2.5), 12);
    progress.update(record_of(3), 14);
  });
  EXPECT_EQ(out,
            "\r\x1b[Kstep 1/4  loss 2.4312  grad 0.87  lr 1.0e-03  34.5k tok/s"
            "\r\x1b[Kstep 2/4  loss 2.4312  eval 2.5000  lr 1.0e-03  34.5k tok/s  eta 0:04"
            "\r\x1b[Kstep 3/4  loss 2.4312  eval 2.5000  lr 1.0e-03  34.5k tok/s  eta 0:02\n")
      << "79 columns, where the terminal's width is unknown";
}

TEST(ProgressOnATerminal, MessagesStandAboveTheLine) {
  const std::string out = printed({.max_steps = 4, .terminal = true}, [](Progress& progress) {
    progress.message("starting");
    progress.update({.step = 1}, 0);
    progress.message("saved");
    progress.finish();
    progress.message("done");
  });
  EXPECT_EQ(out, "starting\n\r\x1b[Kstep 1/4\r\x1b[Ksaved\nstep 1/4\ndone\n");
}

TEST(ProgressElsewhere, ALineEveryFewStepsAtEvaluationsAndAtTheEnd) {
  const std::string out =
      printed({.max_steps = 7, .log_steps = 3, .terminal = false}, [](Progress& progress) {
        for (int64_t step = 1; step <= 7; ++step) {
          MetricsRecord record;
          record.step = step;
          if (step == 5) record.eval_loss = 2.5;
          progress.update(record, static_cast<double>(step));
          if (step == 4) progress.message("saved");
        }
      });
  EXPECT_EQ(
      out,
      "step 3/7  eta 0:04\nsaved\nstep 5/7  eval 2.5000  eta 0:02\nstep 6/7  eta 0:01\nstep 7/7  eta 0:00\n");
}

TEST(ProgressQuiet, SaysNothing) {
  EXPECT_EQ(printed({.max_steps = 1, .quiet = true, .terminal = true},
                    [](Progress& progress) {
                      progress.message("saved");
                      progress.update(record_of(1), 0);
                    }),
            "");
}

TEST(ProgressEstimate, FollowsTheTimeASteptakesAndStartsAtTheResumedStep) {
  const std::string out =
      printed({.max_steps = 1100, .log_steps = 1, .terminal = false}, [](Progress& progress) {
        progress.update({.step = 1000}, 5);
        progress.update({.step = 1001}, 6);
        progress.update({.step = 1011}, 16);
        progress.update({.step = 1012}, 18);
      });
  EXPECT_EQ(out,
            "step 1000/1100\nstep 1001/1100  eta 1:39\nstep 1011/1100  eta 1:29\nstep 1012/1100  eta 1:32\n");
}

TEST(Units, Counts) {
  EXPECT_EQ(counted(1, "sequence"), "1 sequence");
  EXPECT_EQ(counted(0, "sequence"), "0 sequences");
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(1.5), "1.5");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(999.6), "1k");
  EXPECT_EQ(human_count(1000), "1k");
  EXPECT_EQ(human_count(34512), "34.5k");
  EXPECT_EQ(human_count(99960), "100k");
  EXPECT_EQ(human_count(1.25e6), "1.25M");
  EXPECT_EQ(human_count(123.6e6), "124M");
  EXPECT_EQ(human_count(3.2e9), "3.2G");
  EXPECT_EQ(human_count(1.1e12), "1.1T");
  EXPECT_EQ(human_count(-2500), "-2.5k");
  EXPECT_EQ(human_count(NAN), "?");
}

TEST(Units, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(24536678), "23.4 MiB");
  EXPECT_EQ(human_bytes((uint64_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(human_bytes(uint64_t{141} << 30), "141 GiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Units, Durations) {
  EXPECT_EQ(human_duration(0.4), "0:00");
  EXPECT_EQ(human_duration(42), "0:42");
  EXPECT_EQ(human_duration(59.6), "1:00");
  EXPECT_EQ(human_duration(725), "12:05");
  EXPECT_EQ(human_duration(11279), "3:07:59");
  EXPECT_EQ(human_duration(2 * 86400 + 3 * 3600 + 4 * 60 + 5), "2d 03:04:05");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(INFINITY), "?");
}

}  // namespace
}  // namespace hydrac::runtime
