#include "runtime/train/run/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/checkpoint_dirs.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/error.h"
#include "runtime/log/tensorboard.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

constexpr const char* metrics_name = "metrics.jsonl";
constexpr const char* spec_name = "spec.yaml";
constexpr const char* trace_name = "trace.json";
constexpr const char* range_test_name = "range_test.json";
constexpr const char* reference_name = "reference.bin";
constexpr const char* best_name = "checkpoint-best";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// A record begins so; a run that was killed early leaves an empty file or a part of its first line.
bool are_metrics_of_run(const fs::path& file) {
  constexpr std::string_view begin = "{\"step\":";
  const RegularFile opened(file, LastLink::refuse);
  std::string text;
  return opened.problem().empty() && opened.read_all(text, begin.size()) && begin.starts_with(text);
}

bool is_link_to_checkpoint(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return !error && target.string().starts_with("checkpoint-") && !target.has_parent_path();
}

bool is_checkpoint_of_run(const CheckpointDir& found) {
  return found.kind != CheckpointDir::Kind::complete || is_there(found.dir / manifest_name);
}

bool holds_checkpoint(const std::vector<CheckpointDir>& dirs) {
  return std::ranges::any_of(dirs, [](const CheckpointDir& found) {
    return found.kind == CheckpointDir::Kind::complete && is_checkpoint_of_run(found);
  });
}

bool is_rank_log_name(std::string_view name) {
  constexpr std::string_view begin = "rank-", end = ".log";
  if (!name.starts_with(begin) || !name.ends_with(end) || name.size() <= begin.size() + end.size())
    return false;
  name = name.substr(begin.size(), name.size() - begin.size() - end.size());
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

[[noreturn]] void refuse(const fs::path& path) {
  throw InputError(
      fmt::format("{} exists and belongs to no run, which would overwrite it; set output.dir to another "
                  "folder, or rename it",
                  path.string()));
}

}  // namespace

fs::path metrics_path(const fs::path& run_dir) {
  return run_dir / metrics_name;
}

fs::path spec_path(const fs::path& run_dir) {
  return run_dir / spec_name;
}

fs::path trace_path(const fs::path& run_dir) {
  return run_dir / trace_name;
}

fs::path range_test_path(const fs::path& run_dir) {
  return run_dir / range_test_name;
}

fs::path reference_path(const fs::path& run_dir) {
  return run_dir / reference_name;
}

fs::path best_path(const fs::path& run_dir) {
  return run_dir / best_name;
}

fs::path rank_log_path(const fs::path& run_dir, int rank) {
  return run_dir / fmt::format("rank-{}.log", rank);
}

void require_own_names(const fs::path& run_dir) {
  const fs::path metrics = metrics_path(run_dir), best = best_path(run_dir);
  if (is_there(metrics) && !are_metrics_of_run(metrics)) refuse(metrics);
  if (is_there(best) && !is_link_to_checkpoint(best)) refuse(best);
  // A checkpoint that has lost its manifest alone is passed over as damaged.
  for (const CheckpointDir& found : list_checkpoint_dirs(run_dir)) {
    if (!is_checkpoint_of_run(found) && !is_there(found.dir / "state.json")) refuse(found.dir);
  }
  std::error_code error;
  fs::directory_iterator entry(run_dir, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    const bool is_file = name == spec_name || name == trace_name || name == range_test_name ||
                         name == reference_name || is_rank_log_name(name) || is_tensorboard_name(name);
    std::error_code ignored;
    if (is_file && !fs::is_regular_file(entry->symlink_status(ignored))) refuse(entry->path());
    if (is_checkpoint_name(name) && !entry->is_directory(ignored)) refuse(entry->path());
  }
}

Remains remains_in(const fs::path& run_dir) {
  require_own_names(run_dir);
  const fs::path metrics = metrics_path(run_dir);
  const bool has_metrics = is_there(metrics);
  const std::vector<CheckpointDir> checkpoints = list_checkpoint_dirs(run_dir);
  for (const CheckpointDir& found : checkpoints) {
    if (!is_checkpoint_of_run(found)) refuse(found.dir);
  }
  if (holds_checkpoint(checkpoints)) return Remains::run;
  std::error_code ignored;
  if (has_metrics) return fs::file_size(metrics, ignored) > 0 ? Remains::run : Remains::nothing;
  // A run makes its metrics.jsonl first.
  for (const fs::path& path :
       {spec_path(run_dir), trace_path(run_dir), range_test_path(run_dir), reference_path(run_dir)}) {
    if (is_there(path)) refuse(path);
  }
  return Remains::nothing;
}

std::vector<std::string> names_of_run(const fs::path& run_dir) {
  std::vector<std::string> names;
  for (const CheckpointDir& found : list_checkpoint_dirs(run_dir)) names.push_back(found.dir.filename());
  std::error_code error;
  fs::directory_iterator entry(run_dir, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (is_tensorboard_name(name) || is_rank_log_name(name)) names.push_back(name);
  }
  if (error) throw InputError(fmt::format("cannot list {}: {}", run_dir.string(), error.message()));
  for (const char* name : {best_name, trace_name, range_test_name, reference_name, spec_name, metrics_name}) {
    if (is_there(run_dir / name)) names.emplace_back(name);
  }
  return names;
}

}  // namespace hydrac::runtime
