#include <gtest/gtest.h>

#include "runtime/train/speed_meter.h"

namespace hydrac::runtime {
namespace {

TEST(SpeedMeterTest, MeanIsOfTheLastStepsAndMedianLeavesTheFirstOut) {
  SpeedMeter meter;
  EXPECT_EQ(meter.mean_seconds(3), 0);
  EXPECT_EQ(meter.median_seconds(), 0);
  meter.add(100, 0);
  EXPECT_EQ(meter.mean_seconds(3), 100);
  EXPECT_EQ(meter.median_seconds(), 100);
  meter.add(1, 0);
  EXPECT_EQ(meter.median_seconds(), 1);
  meter.add(3, 0);
  EXPECT_EQ(meter.median_seconds(), 2);
  meter.add(5, 0);
  EXPECT_EQ(meter.median_seconds(), 3);
  EXPECT_EQ(meter.mean_seconds(3), 3);
  EXPECT_EQ(meter.mean_seconds(2), 4);
}

TEST(SpeedMeterTest, AnEndlessRunKeepsTheLatestSteps) {
  SpeedMeter meter;
  for (int step = 1; step <= 5000; ++step) meter.add(step, 0);
  EXPECT_EQ(meter.mean_seconds(2), 4999.5);
  EXPECT_EQ(meter.mean_seconds(100'000), (3977 + 5000) / 2.0);
  EXPECT_EQ(meter.median_seconds(), (3977 + 5000) / 2.0);
}

}  // namespace
}  // namespace hydrac::runtime
