#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/error.h"
#include "runtime/log/tensorboard.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::spill;
using test::TempDir;

template <typename Number>
Number take(std::string_view& bytes) {
  Number number;
  if (bytes.size() < sizeof number) throw std::runtime_error("short read");
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
}

std::string_view take_bytes(std::string_view& bytes, size_t count) {
  if (bytes.size() < count) throw std::runtime_error("short read");
  const std::string_view part = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return part;
}

// A protobuf message, field by field, as any reader decodes it without a schema.
struct Field {
  uint64_t number;
  uint64_t bits = 0;      // varint, fixed32, fixed64
  std::string_view data;  // length-delimited
};

std::vector<Field> decode(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const uint64_t key = take_varint(message);
    Field field{key >> 3};
    switch (key & 7) {
      case 0:
        field.bits = take_varint(message);
        break;
      case 1:
        field.bits = take<uint64_t>(message);
        break;
      case 2:
        field.data = take_bytes(message, take_varint(message));
        break;
      case 5:
        field.bits = take<uint32_t>(message);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c_portable(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// The payloads of a file's records, whose checksums must hold.
std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> payloads;
  while (!file.empty()) {
    const std::string_view length_bytes = file.substr(0, 8);
    const auto length = take<uint64_t>(file);
    EXPECT_EQ(take<uint32_t>(file), masked(length_bytes));
    const std::string_view payload = take_bytes(file, length);
    EXPECT_EQ(take<uint32_t>(file), masked(payload));
    payloads.emplace_back(payload);
  }
  return payloads;
}

// "step tag=value ..." or what else the event says; the wall time must be there.
std::string describe(std::string_view event) {
  std::string text = "0";
  bool has_wall_time = false;
  for (const Field& field : decode(event)) {
    if (field.number == 1) {
      EXPECT_GT(std::bit_cast<double>(field.bits), 0);
      has_wall_time = true;
    }
    if (field.number == 2) text = std::to_string(field.bits);
    if (field.number == 3) text += fmt::format(" version {}", field.data);
    if (field.number == 7) {
      for (const Field& status : decode(field.data)) {
        text += fmt::format(" session {}={}", status.number, status.bits);
      }
    }
    if (field.number != 5) continue;
    for (const Field& value : decode(field.data)) {
      EXPECT_EQ(value.number, 1U);
      const std::vector<Field> parts = decode(value.data);
      EXPECT_EQ(parts.size(), 2U);
      EXPECT_EQ(parts[0].number, 1U);
      EXPECT_EQ(parts[1].number, 2U);
      text +=
          fmt::format(" {}={}", parts[0].data, std::bit_cast<float>(static_cast<uint32_t>(parts[1].bits)));
    }
  }
  EXPECT_TRUE(has_wall_time);
  return text;
}

std::vector<std::string> events(const std::filesystem::path& file) {
  std::vector<std::string> described;
  for (const std::string& payload : records(slurp(file))) described.push_back(describe(payload));
  return described;
}

MetricsRecord record_of(int64_t step, double loss) {
  MetricsRecord record;
  record.step = step;
  record.loss = loss;
  return record;
}

TEST(TensorBoard, BytesOfAnEvent) {
  // wall time 1.5; step 300; one value {tag "train/loss", simple_value 2.0}
  EXPECT_EQ(scalars_event(1.5, record_of(300, 2.0)),
            std::string("\x09\0\0\0\0\0\0\xf8\x3f"
                        "\x10\xac\x02"
                        "\x2a\x13\x0a\x11\x0a\x0atrain/loss\x15\0\0\0\x40",
                        9 + 3 + 21));
  EXPECT_EQ(file_version_event(1.5), std::string("\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
                                                 "brain.Event:2",
                                                 9 + 15));
  EXPECT_EQ(session_start_event(1.5, 1),
            std::string("\x09\0\0\0\0\0\0\xf8\x3f\x10\x01\x3a\x02\x08\x01", 9 + 6));
}

TEST(TensorBoard, AFreshRunLogsEveryValueUnderItsTag) {
  const TempDir dir;
  TensorBoardWriter writer(dir.path(), -1);
  EXPECT_EQ(writer.file().filename(), "events.out.tfevents.0000000000.hydrac");
  MetricsRecord record{.step = 1,
                       .loss = 2.5,
                       .eval_loss = 3.5,
                       .eval_accuracy = 0.75,
                       .eval_perplexity = 33,
                       .grad_norm = 0.5,
                       .learning_rate = 0.25,
                       .sequence_len = 96,
                       .curriculum_share = 0.5,
                       .metrics = {{{.name = "mean_depth"}, 1.25}, {{.name = "kl", .group = "objective"}, 2}},
                       .sampling_ms = 6,
                       .loss_scale = 512,
                       .skipped_steps = 7,
                       .tokens_per_second = 1000,
                       .samples_per_second = 10,
                       .mfu = 0.5,
                       .step_ms = 8,
                       .step_ms_p50 = 7,
                       .step_ms_p95 = 9,
                       .step_ms_max = 16,
                       .data_wait_ms = 2,
                       .communication_ms = 3,
                       .gpu_memory_gib = 4,
                       .gpu_util = 1,
                       .power_watts = 650,
                       .temperature_celsius = 60,
                       .sm_clock_mhz = 1750,
                       .joules_per_token = 32};
  writer.append(record);
  MetricsRecord planned = record_of(2, INFINITY);
  planned.memory_gib = 2;
  writer.append(planned);
  EXPECT_EQ(
      events(writer.file()),
      (std::vector<std::string>{
          "0 version brain.Event:2", "0 session 1=1",
          "1 train/loss=2.5 eval/loss=3.5 eval/accuracy=0.75 eval/perplexity=33 train/grad_norm=0.5 "
          "train/learning_rate=0.25 train/sequence_len=96 train/curriculum_share=0.5 "
          "objective/sampling_time_s=0.006 "
          "train/loss_scale=512 "
          "train/skipped_steps=7 "
          "train/tokens_per_sec=1000 train/samples_per_sec=10 "
          "train/mfu=0.5 train/step_time_s=0.008 train/step_time_p50_s=0.007 train/step_time_p95_s=0.009 "
          "train/step_time_max_s=0.016 train/data_wait_s=0.002 train/communication_s=0.003 "
          "system/gpu_memory_allocated_mb=4096 system/gpu_utilization_pct=100 system/power_watts=650 "
          "system/temperature_celsius=60 system/sm_clock_mhz=1750 system/joules_per_token=32 "
          "train/mean_depth=1.25 objective/kl=2",
          "2 train/loss=inf system/memory_allocated_mb=2048"}));
}

TEST(TensorBoard, AResumedRunStartsItsOwnFileAtItsFirstStep) {
  const TempDir dir;
  TensorBoardWriter(dir.path(), -1).append(record_of(1, 1));
  TensorBoardWriter writer(dir.path(), 100);
  writer.append(record_of(101, 1));
  EXPECT_EQ(writer.file().filename(), "events.out.tfevents.0000000101.hydrac");
  EXPECT_EQ(events(writer.file()),
            (std::vector<std::string>{"0 version brain.Event:2", "101 session 1=1", "101 train/loss=1"}));
}

TEST(TensorBoard, SessionsThatBeganLaterAreRemovedAndNothingElse) {
  const TempDir dir;
  for (const int64_t last : {-1, 50, 100}) TensorBoardWriter(dir.path(), last).append(record_of(last + 1, 1));
  spill(dir / "events.out.tfevents.9999999999.someone", "not ours");
  const TensorBoardWriter writer(dir.path(), 50);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"events.out.tfevents.0000000000.hydrac",
                                          "events.out.tfevents.0000000051.hydrac",
                                          "events.out.tfevents.9999999999.someone"}));
  EXPECT_EQ(events(writer.file()).size(), 2U);
}

TEST(TensorBoard, WhatCannotBeWrittenIsSaid) {
  const TempDir dir;
  const std::string path = (dir / "missing").string();
  EXPECT_EQ(message_of<RunError>([&] { TensorBoardWriter writer(path, -1); }),
            "cannot list " + path + ": No such file or directory");
}

}  // namespace
}  // namespace hydrac::runtime
