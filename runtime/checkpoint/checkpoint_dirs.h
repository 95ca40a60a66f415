// The names a run's folder holds checkpoints under, and the two operations that change them: each leaves a
// state that clean_leftovers() understands, whenever the process is killed.
//   checkpoint-<step>            complete (or damaged from outside)
//   checkpoint-<step>.tmp-<pid>  being written, or waiting for its name
//   checkpoint-<step>.old-<pid>  being removed
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hydrac::runtime {

struct CheckpointDir {
  enum class Kind { complete, temporary, removed };
  std::filesystem::path dir;
  int64_t step;
  Kind kind;
};

// True if a checkpoint may have this name, complete or not.
bool is_checkpoint_name(const std::string& name);

// The checkpoint folders in `run_dir`, newest first, then by name; none if there is no such folder.
// InputError if it cannot be read.
std::vector<CheckpointDir> list_checkpoint_dirs(const std::filesystem::path& run_dir);

// The name of `step`'s checkpoint while it is written ("tmp") or removed ("old") by this process.
std::filesystem::path transient_path(const std::filesystem::path& run_dir, int64_t step, const char* suffix);

// Renames the complete checkpoint at `temporary` to its final name, durably, and removes an older one of that
// name. RunError.
void publish_checkpoint(const std::filesystem::path& temporary, const std::filesystem::path& run_dir,
                        int64_t step);

// Out of sight first, so that no half-removed folder ever has a checkpoint's name. RunError.
void remove_checkpoint(const std::filesystem::path& run_dir, int64_t step);

// With everything in it. RunError.
void remove_folder(const std::filesystem::path& dir);

}  // namespace hydrac::runtime
