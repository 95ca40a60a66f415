// Finds the checkpoint that a command line means.
#pragma once
#include <filesystem>

namespace hydrac::cli {

struct CheckpointSource {
  std::filesystem::path run, checkpoint;  // folders
};

// The newest intact checkpoint of a run's folder, with a note on stderr for damaged ones; or the checkpoint
// that `folder` names. InputError: there is none, it is damaged, or the run's spec.yaml is not beside it.
CheckpointSource checkpoint_source(const std::filesystem::path& folder);

}  // namespace hydrac::cli
