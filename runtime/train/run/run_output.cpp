#include "runtime/train/run/run_output.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "runtime/train/run/run_files.h"

namespace hydrac::runtime {

RunOutput::RunOutput(StepProgram& program, const TrainOptions& options, Console& console)
    : program_(program), options_(options), console_(console), place_(options.run_dir) {}

// metrics.jsonl first: by it a later run knows that the spec.yaml beside it is ours.
void RunOutput::open_logs(int64_t last_step) {
  metrics_.emplace(metrics_path(options_.run_dir), last_step);
  replace_file(spec_path(options_.run_dir), options_.spec_text);
  tensorboard_.emplace(options_.run_dir, last_step);
}

void RunOutput::append(const MetricsRecord& record) {
  metrics_->append(record);
  tensorboard_->append(record);
  notice_move();
}

// The run's open files move with the folder; a file opened by name would not.
void RunOutput::notice_move() {
  place_ = folder_->place();
  if (!checkpoint_.empty()) checkpoint_ = place_ / checkpoint_.filename();
}

void RunOutput::save(const CheckpointContents& contents, std::optional<int64_t> best_step) {
  program_.with_whole_state([&] { checkpoint_ = write_checkpoint(contents); });
  if (best_step == contents.position.counters.step) link_best(place_, *best_step);
  remove_old_checkpoints(place_, options_.save_total_limit, best_step);
  console_.message(fmt::format("saved {}", checkpoint_.string()));
  if (!std::exchange(said_note_, true) && !options_.checkpoint_note.empty())
    console_.message(options_.checkpoint_note);
}

// Again where the folder was moved to while it was written.
std::filesystem::path RunOutput::write_checkpoint(const CheckpointContents& contents) {
  for (;;) {
    notice_move();
    try {
      std::filesystem::path checkpoint = save_checkpoint(place_, program_, contents);
      if (folder_->place() == place_) return checkpoint;
    } catch (const RunError&) {
      if (folder_->place() == place_) throw;
    }
  }
}

void RunOutput::end_trace(StepTrace& trace) {
  notice_move();
  const std::filesystem::path path = trace_path(place_);
  trace.end(path);
  console_.message(fmt::format("wrote {}: ui.perfetto.dev or chrome://tracing shows it", path.string()));
}

}  // namespace hydrac::runtime
