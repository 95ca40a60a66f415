// What the end of a run says of steps of unequal length.
#include "runtime/train/step_unevenness.h"

#include <gtest/gtest.h>

namespace hydrac::runtime {
namespace {

FinishedStep step_of(double seconds) {
  FinishedStep step;
  step.seconds = seconds;
  return step;
}

// `every`-th steps are `slow`, the others take 0.1 s; 1 s of warmup first.
StepUnevenness steps(int count, int every, const FinishedStep& slow, bool after_pauses = false) {
  StepUnevenness unevenness;
  unevenness.add(step_of(1));
  for (int i = 1; i <= count; ++i) {
    if (i % every == 0 && after_pauses) unevenness.pause();
    unevenness.add(i % every == 0 ? slow : step_of(0.1));
  }
  return unevenness;
}

TEST(StepUnevenness, IsSilentWhereStepsAreEvenOrFew) {
  EXPECT_EQ(steps(1000, 10, step_of(0.1)).explain(), "");
  EXPECT_EQ(steps(1000, 10, step_of(0.2)).explain(), "") << "9% of the time is above the median";
  EXPECT_EQ(steps(40, 4, step_of(9)).explain(), "") << "few steps";
  EXPECT_EQ(steps(80, 10, step_of(0.5)).explain(), "") << "11 s";
  EXPECT_EQ(StepUnevenness().explain(), "");
}

TEST(StepUnevenness, NamesWhatLongStepsWaitedFor) {
  FinishedStep slow = step_of(0.5);
  slow.waited = 0.3;
  EXPECT_EQ(
      steps(1000, 10, slow).explain(),
      "steps are uneven: 100.0 ms in the median, 140.0 in the mean, 500.0 at most; of the time above the "
      "median 75% waiting for data (data_wait_ms), 25% for no reason known here: other processes on this "
      "machine, or a clock that changes");
  slow.waited = 0;
  slow.communicated = 0.24;
  slow.objective = ObjectiveResult{};
  slow.objective->seconds = 0.16;
  const std::string told = steps(1000, 10, slow).explain();
  EXPECT_EQ(told.substr(told.find("of the")),
            "of the time above the median 60% waiting for other ranks "
            "(communication_ms), 40% sampling replies (sampling_ms)");
}

TEST(StepUnevenness, NamesPausesBeforeLongSteps) {
  const std::string told = steps(1000, 10, step_of(0.5), true).explain();
  EXPECT_EQ(told.substr(told.find("of the")),
            "of the time above the median 100% in the first steps after validation or saving");
}

// What every step waits for makes none longer than the others.
TEST(StepUnevenness, CountsOnlyWhatIsAboveTheMedian) {
  StepUnevenness unevenness;
  for (int i = 0; i <= 1000; ++i) {
    FinishedStep step = step_of(i % 10 == 0 ? 0.5 : 0.1);
    step.waited = 0.09;
    unevenness.add(step);
  }
  const std::string told = unevenness.explain();
  EXPECT_EQ(told.find("data"), std::string::npos) << told;
  EXPECT_NE(told.find("100% for no reason known here"), std::string::npos) << told;
}

TEST(StepUnevenness, ForgetsWhatIsLongPast) {
  StepUnevenness unevenness;
  for (int i = 0; i < 500; ++i) unevenness.add(step_of(i % 2 == 0 ? 1 : 0.1));
  EXPECT_NE(unevenness.explain(), "");
  for (int i = 0; i < 1024; ++i) unevenness.add(step_of(0.1));
  EXPECT_EQ(unevenness.explain(), "");
}

}  // namespace
}  // namespace hydrac::runtime
