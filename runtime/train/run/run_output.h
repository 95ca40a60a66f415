// Files that a run writes to its folder while it trains: logs, checkpoints, a trace. Only the leading rank of
// several has it. The folder may be moved meanwhile; later writes follow it.
#pragma once
#include <filesystem>
#include <optional>

#include "runtime/log/metrics.h"
#include "runtime/log/tensorboard.h"
#include "runtime/train/console.h"
#include "runtime/train/run/run_checkpoint.h"
#include "runtime/train/run/run_folder.h"
#include "runtime/train/step_trace.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

class RunOutput {
 public:
  // All three must outlive it.
  RunOutput(StepProgram& program, const TrainOptions& options, Console& console);

  // Keeps the folder's lock from here on.
  void hold(RunFolder folder) { folder_.emplace(std::move(folder)); }
  // The newest checkpoint, with which an earlier session ended.
  void continue_from(const std::filesystem::path& checkpoint) { checkpoint_ = checkpoint; }

  // Records of steps after `last_step`, an earlier session's that no checkpoint has, are dropped.
  void open_logs(int64_t last_step);
  void append(const MetricsRecord& record);
  // Saves a checkpoint of `program` in its current state; it is the best so far if `best_step` is its step.
  // Removes all but the newest ones and the best. After a RunError earlier checkpoints are still there.
  void save(const CheckpointContents& contents, std::optional<int64_t> best_step);
  void end_trace(StepTrace& trace);

  // True if somebody has moved the folder, as far as was noticed when something was last written.
  bool was_moved() const { return place_ != options_.run_dir; }
  const std::filesystem::path& place() const { return place_; }
  const std::filesystem::path& checkpoint() const { return checkpoint_; }  // the newest; empty: there is none

 private:
  void notice_move();
  std::filesystem::path write_checkpoint(const CheckpointContents& contents);

  StepProgram& program_;
  const TrainOptions& options_;
  Console& console_;
  std::optional<RunFolder> folder_;
  std::optional<MetricsWriter> metrics_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::filesystem::path place_;
  std::filesystem::path checkpoint_;
  bool said_note_ = false;  // options_.checkpoint_note
};

}  // namespace hydrac::runtime
