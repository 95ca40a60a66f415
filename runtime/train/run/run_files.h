// The names that a run creates in its folder. Everything else there is the user's: no run moves, replaces or
// removes it.
//   metrics.jsonl, spec.yaml, events.out.tfevents.*.hydrac
//   rank-<n>.log                      of ranks other than 0
//   trace.json                        if steps were traced
//   range_test.json                   if a range test found the learning rate
//   reference.bin                     scores of pairs by the first weights, if the objective has a reference
//   checkpoint-<step>/                with a manifest.json; also while it is written or removed
//   checkpoint-best                   a link to one of them
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hydrac::runtime {

std::filesystem::path metrics_path(const std::filesystem::path& run_dir);
std::filesystem::path spec_path(const std::filesystem::path& run_dir);
std::filesystem::path trace_path(const std::filesystem::path& run_dir);
std::filesystem::path range_test_path(const std::filesystem::path& run_dir);
std::filesystem::path reference_path(const std::filesystem::path& run_dir);
std::filesystem::path best_path(const std::filesystem::path& run_dir);
std::filesystem::path rank_log_path(const std::filesystem::path& run_dir, int rank);

enum class Remains {
  nothing,  // or a run that had not come to its first record
  run,      // records or checkpoints
};

// InputError if something that no run made has a name that a run writes to: a folder called checkpoint-best,
// a pipe or a link called metrics.jsonl.
void require_own_names(const std::filesystem::path& run_dir);

// Remains of an earlier run in `run_dir`, which may be missing. InputError if it cannot be read, or if a file
// that no run made has a name that a run needs.
Remains remains_in(const std::filesystem::path& run_dir);

// The names in `run_dir`, which holds a run, that runs made. metrics.jsonl comes last, so that a partly moved
// run is still recognized as one.
std::vector<std::string> names_of_run(const std::filesystem::path& run_dir);

}  // namespace hydrac::runtime
