// TensorBoard event files, written without protobuf: records framed by masked CRC-32Cs around Event messages.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/log/metrics.h"

namespace hydrac::runtime {

// Messages and framing, public for tests and for tools that add to a file.
std::string tfrecord(std::string_view payload);
std::string file_version_event(double wall_time);
std::string session_start_event(double wall_time, int64_t step);
std::string scalars_event(double wall_time, const MetricsRecord& record);

// True if a file of this name is one of TensorBoardWriter's.
bool is_tensorboard_name(std::string_view file_name);

// One file a session, events.out.tfevents.<last_step + 1, ten digits>.hydrac. TensorBoard reads a folder's
// files by name, and a session's first event makes it drop everything that earlier sessions logged from that
// step on. So a resumed run shows each step once, even after a crash. Files of sessions that began at a later
// step are removed.
class TensorBoardWriter {
 public:
  // `last_step`: the step resumed from, -1 for a fresh run. RunError when the file cannot be written.
  TensorBoardWriter(const std::filesystem::path& folder, int64_t last_step);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // Every value that is present, as a scalar under its tag; NaN and infinities as such. RunError.
  void append(const MetricsRecord& record);

  const std::filesystem::path& file() const { return file_; }

 private:
  void put(std::string_view message);

  std::filesystem::path file_;
  int fd_ = -1;
};

}  // namespace hydrac::runtime
