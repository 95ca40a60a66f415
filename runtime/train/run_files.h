// The list of what a run makes in its folder. Whatever else lies there is the user's: no run moves, replaces
// or removes it.
//   metrics.jsonl, spec.yaml, events.out.tfevents.*.hydrac
//   rank-<n>.log                      of the ranks other than 0, where there are several
//   trace.json                        where steps were traced
//   range_test.json                   where a range test found the learning rate
//   reference.bin                     scores of pairs by the first weights, where an objective has a
//   reference checkpoint-<step>/                with a manifest.json; and those being written or removed
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

// InputError where something that no run made has a name that a run writes to: a folder called
// checkpoint-best, a pipe or a link called metrics.jsonl.
void require_own_names(const std::filesystem::path& run_dir);

// Remains of an earlier run in `run_dir`, which may be missing. InputError when it cannot be read, or when a
// file that no run made has a name that a run needs.
Remains remains_in(const std::filesystem::path& run_dir);

// The names in `run_dir`, which holds a run, that runs made. metrics.jsonl comes last: what is left of a run
// without some of its other files is still seen to be one.
std::vector<std::string> names_of_run(const std::filesystem::path& run_dir);

}  // namespace hydrac::runtime
