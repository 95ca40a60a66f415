// The folder of a run; run_files.h lists its files. A new run never overwrites an earlier one: the files of
// the earlier run are first moved to a new folder <folder>.1, or the next free number. So the same command
// works twice in a row, and everything stays.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/run/run_files.h"

namespace hydrac::runtime {

// Hears a line for the user at once.
using Note = std::function<void(std::string_view line)>;

// One process at a time trains in a folder. The kernel's lock ends with the process, however that ends. On
// file systems without locks for folders (some network ones) there is none.
class RunFolder {
 public:
  // A folder for a new run: created, or emptied of an earlier run by moving that aside, which `note` then
  // tells the user. Files that belong to no run stay untouched. InputError if another process trains there,
  // if existing files can be neither kept nor moved, or if the folder is a part of a .git or its like.
  // RunError if it cannot be created.
  static RunFolder create(const std::filesystem::path& run_dir, const Note& note);
  // The folder of an earlier run. InputError when there is none, or when another process trains there.
  static RunFolder open(const std::filesystem::path& run_dir);

  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&& other) noexcept;

  // The folder's path now: as it was named, or moved by somebody. RunError when it was removed.
  std::filesystem::path place() const;

 private:
  RunFolder(int fd, std::filesystem::path run_dir) : fd_(fd), run_dir_(std::move(run_dir)) {}
  int fd_;  // of the folder, holding the lock; -1 after a move
  std::filesystem::path run_dir_;
};

// True if there are records or checkpoints of a run. InputErrors of create().
bool holds_run(const std::filesystem::path& run_dir);

// The newest complete checkpoint in `run_dir`, with a note for each newer one that is damaged. nullopt: a run
// that had saved nothing yet. InputError if there is no run, or if all of its checkpoints are damaged.
std::optional<Checkpoint> checkpoint_to_resume(const std::filesystem::path& run_dir, const Note& note);

// Throws the InputErrors of create() as far as they can be seen without changing anything.
void check_new_run(const std::filesystem::path& run_dir);

}  // namespace hydrac::runtime
