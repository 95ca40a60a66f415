// What records tell beside the loss: speed and its spread, waiting, the device.
#include "runtime/train/step_records.h"

#include <fmt/format.h>

#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::TempDir;

FinishedStep step_of(int64_t number, double seconds, double waited = 0) {
  FinishedStep step;
  step.step = number;
  step.targets = 100;
  step.samples = 10;
  step.seconds = seconds;
  step.waited = waited;
  return step;
}

TEST(StepRecords, SpeedIsTheMeanOfTheLastStepsAndSpreadThatOfTheWindow) {
  FakeProgram program;
  StepRecords records(program, {.log_steps = 2});
  records.add(step_of(1, 9));  // the session's first, which warms up
  for (int i = 1; i <= 100; ++i) records.add(step_of(1 + i, i));
  MetricsRecord record = records.of(step_of(101, 100), {});
  EXPECT_EQ(record.step_ms, 99'500);
  EXPECT_EQ(record.tokens_per_second, 100 / 99.5);
  EXPECT_EQ(record.samples_per_second, 10 / 99.5);
  EXPECT_FALSE(record.step_ms_p50);
  records.complete(record);
  EXPECT_EQ(record.step_ms_p50, 50'500);
  EXPECT_EQ(record.step_ms_p95, 95'000);
  EXPECT_EQ(record.step_ms_max, 100'000);
  EXPECT_FALSE(record.gpu_util);
}

TEST(StepRecords, EnergyIsThatOfTheTokensSinceTheRecordBefore) {
  FakeProgram program;
  program.load = DeviceLoad{.utilization = 0.75,
                            .memory_used_bytes = int64_t{3} << 28,
                            .power_watts = 650,
                            .temperature_celsius = 61,
                            .sm_clock_mhz = 1755,
                            .energy_joules = 1000};
  StepRecords records(program, {});
  records.add(step_of(1, 1));
  MetricsRecord first, second;
  records.complete(first);
  EXPECT_EQ(first.gpu_util, 0.75);
  EXPECT_EQ(first.gpu_memory_gib, 0.75);
  EXPECT_FALSE(first.memory_gib) << "the plan's";
  EXPECT_EQ(first.power_watts, 650);
  EXPECT_EQ(first.temperature_celsius, 61);
  EXPECT_EQ(first.sm_clock_mhz, 1755);
  EXPECT_FALSE(first.joules_per_token) << "nobody knows what came before";
  program.load->energy_joules = 1600;
  records.add(step_of(2, 1));
  records.add(step_of(3, 1));
  records.complete(second);
  EXPECT_EQ(second.joules_per_token, 3);
}

TEST(StepRecords, AStallIsToldOnceAndByHowMuch) {
  for (const int64_t depth : {1, 2}) {
    FakeProgram program;
    program.depth = depth;
    // With two steps in flight a third of a step may pass while the device works.
    for (const auto& [waited, stalls] : {std::pair(0.003, false), {0.015, depth == 1}, {0.03, true}}) {
      StepRecords records(program, {});
      for (int i = 0; i < 50; ++i) records.add(step_of(i + 1, 0.04, waited));
      EXPECT_EQ(records.data_stall(), "") << "too early to tell";
      records.add(step_of(51, 0.04, waited));
      const std::string told = records.data_stall();
      EXPECT_EQ(
          told.substr(0, told.find(':')),
          stalls ? fmt::format("of 40.0 ms a step, {:.1f} are spent waiting for data", 1e3 * waited) : "");
      EXPECT_EQ(records.data_stall(), "");
    }
  }
}

TEST(StepRecords, PausesAreToldWhereTheyTakeAFifth) {
  EXPECT_EQ(pauses(29, 20, 5), "") << "a short run";
  EXPECT_EQ(pauses(100, 10, 9), "");
  EXPECT_EQ(pauses(100, 19.6, 1),
            "of 100 s, validation took 20 (train.eval_steps, eval_batches) and saving 1 (train.save_steps, "
            "save_minutes)");
}

TEST(StepRecords, MetricsTellTheDeviceOrThePlan) {
  const TempDir dir;
  FakeProgram program;
  program.load = DeviceLoad{0.75, int64_t{3} << 28};
  run(small_run(dir / "run"), std::move(program));
  const auto first = whole_records(dir / "run")[0];
  EXPECT_EQ(first["gpu_util"], 0.75);
  EXPECT_EQ(first["memory_gib"], 0.75);
  EXPECT_TRUE(first.contains("step_ms_p95") && first.contains("data_wait_ms"));
  EXPECT_FALSE(first.contains("power_watts"));
  run(small_run(dir / "other"));
  EXPECT_FALSE(whole_records(dir / "other")[0].contains("gpu_util"));
  EXPECT_EQ(whole_records(dir / "other")[0]["memory_gib"], 0.5);
}

}  // namespace
}  // namespace hydrac::runtime
