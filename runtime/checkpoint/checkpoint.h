// Crash-safe checkpoints. A checkpoint is a folder `checkpoint-<step>` of the run's folder. It is written
// under another name, with its manifest.json (sizes and checksums of all other files) last, then everything
// is fsynced, and only then it is renamed. A run killed at any moment, or a full disk, leaves the earlier
// checkpoints as they were.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/manifest.h"

namespace hydrac::runtime {

// "checkpoint-<step>" inside `run_dir`.
std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, int64_t step);

// Writes one checkpoint. Every member may throw RunError (path, the system's reason); the files written so
// far are removed then, or when the writer goes out of scope without commit().
class CheckpointWriter {
 public:
  // Creates `run_dir` when it is missing. `step` >= 0.
  CheckpointWriter(std::filesystem::path run_dir, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // `name`: a plain file name, each once, not manifest.json (std::logic_error otherwise).
  void add_file(const std::string& name, const std::function<void(FileWriter&)>& write);
  void add_file(const std::string& name, std::string_view contents);

  // Completes the checkpoint under its name, replacing an older one of the same step. Durable when it
  // returns.
  void commit();

 private:
  void write_file(const std::string& name, const std::function<void(FileWriter&)>& write);
  void abandon() noexcept;

  std::filesystem::path run_dir_, temporary_;
  Manifest manifest_;
  bool open_ = true;  // until commit() or a failure
};

struct Checkpoint {
  std::filesystem::path dir;
  int64_t step;
};

// Compares every file's size and checksum with the manifest of `dir`. Returns "" if the checkpoint is
// complete, otherwise the problem ("model.safetensors has 100 bytes, the manifest says 4096").
std::string checkpoint_damage(const std::filesystem::path& dir);

// The complete checkpoint of the highest step, if any, and the newer ones that were rejected, each with its
// reason. Changes nothing: safe beside a run that is writing. InputError if `run_dir` exists and cannot be
// listed.
struct CheckpointSearch {
  struct Rejected {
    std::filesystem::path dir;
    std::string reason;
  };
  std::optional<Checkpoint> latest;
  std::vector<Rejected> rejected;
};
CheckpointSearch find_latest(const std::filesystem::path& run_dir);

// Finishes or removes what a killed run left unfinished. Only for the process that owns the run's folder,
// before it writes there; call it before find_latest when resuming. Returns one line for each leftover, for
// the user. RunError.
std::vector<std::string> clean_leftovers(const std::filesystem::path& run_dir);

// The newest complete checkpoint that is not renamed yet and that clean_leftovers() would finish, if it is
// newer than all intact named ones. Changes nothing. InputError if `run_dir` cannot be listed.
std::optional<Checkpoint> find_unfinished(const std::filesystem::path& run_dir);

// Keeps the `keep` newest checkpoints (0: all of them) and that of step `best`, and removes the others; call
// it after commit(). One without a manifest that fits its files' sizes is neither counted nor removed.
// RunError.
void remove_old_checkpoints(const std::filesystem::path& run_dir, int64_t keep,
                            std::optional<int64_t> best = std::nullopt);

}  // namespace hydrac::runtime
