#include "runtime/log/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"

namespace hydrac::runtime {

static_assert(std::endian::native == std::endian::little,
              "protobuf and the record framing are little-endian");

namespace {

// Protobuf's wire format: a key is (field number << 3 | wire type).
enum WireType { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

// tensorflow.Event, .Summary and .SessionLog: the fields used here.
enum EventField {
  wall_time_field = 1,
  step_field = 2,
  file_version_field = 3,
  summary_field = 5,
  session_log_field = 7
};
enum SummaryField { value_field = 1, tag_field = 1, simple_value_field = 2 };
enum SessionLogField { status_field = 1 };
constexpr uint64_t session_start = 1;

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | type);
}

template <typename Number>
void put_raw(std::string& out, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, length_delimited);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  put_key(out, wall_time_field, fixed64);
  put_raw(out, wall_time);
  if (step != 0) {
    put_key(out, step_field, varint);
    put_varint(out, static_cast<uint64_t>(step));
  }
  return out;
}

// The framing's checksum: rotated and offset, so that checksums of data that holds checksums stay useful.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return std::rotr(crc, 15) + 0xa282ead8;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::string_view file_prefix = "events.out.tfevents.";
constexpr std::string_view file_suffix = ".hydrac";

// Removes our own files in `folder` whose session began at `first_step` or later.
void remove_later_sessions(const std::filesystem::path& folder, const std::string& first_name) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_tensorboard_name(name) && name >= first_name && ::unlink(entry->path().c_str()) != 0) {
      throw_run_error("remove", entry->path(), errno);
    }
  }
  if (error) throw_run_error("list", folder, error.value());
}

}  // namespace

bool is_tensorboard_name(std::string_view file_name) {
  return file_name.starts_with(file_prefix) && file_name.ends_with(file_suffix);
}

std::string tfrecord(std::string_view payload) {
  std::string out;
  put_raw(out, static_cast<uint64_t>(payload.size()));
  put_raw(out, masked_crc(std::string(out)));
  out.append(payload);
  put_raw(out, masked_crc(payload));
  return out;
}

std::string file_version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  put_bytes(out, file_version_field, "brain.Event:2");
  return out;
}

std::string session_start_event(double wall_time, int64_t step) {
  std::string log;
  put_key(log, status_field, varint);
  put_varint(log, session_start);
  std::string out = event(wall_time, step);
  put_bytes(out, session_log_field, log);
  return out;
}

std::string scalars_event(double wall_time, const MetricsRecord& record) {
  std::string summary;
  const auto add = [&](std::string_view tag, double number) {
    std::string value;
    put_bytes(value, tag_field, tag);
    put_key(value, simple_value_field, fixed32);
    put_raw(value, static_cast<float>(number));
    put_bytes(summary, value_field, value);
  };
  for (const MetricField& field : metric_fields())
    if (const std::optional<double>& number = record.*field.value) add(field.tag, *number * field.tag_factor);
  for (const auto& [text, number] : record.metrics) add(text.group + "/" + text.name, number);
  std::string out = event(wall_time, record.step);
  put_bytes(out, summary_field, summary);
  return out;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, int64_t last_step) {
  const std::string name = fmt::format("{}{:010}{}", file_prefix, last_step + 1, file_suffix);
  file_ = folder / name;
  remove_later_sessions(folder, name);
  fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_run_error("create", file_, errno);
  put(file_version_event(now()));
  put(session_start_event(now(), last_step + 1));
}

TensorBoardWriter::~TensorBoardWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorBoardWriter::append(const MetricsRecord& record) {
  put(scalars_event(now(), record));
}

void TensorBoardWriter::put(std::string_view message) {
  const std::string record = tfrecord(message);
  write_all(fd_, std::as_bytes(std::span(record)), file_);
}

}  // namespace hydrac::runtime
