#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/checkpoint_dirs.h"
#include "runtime/error.h"

namespace hydrac::runtime {

using Kind = CheckpointDir::Kind;

CheckpointWriter::CheckpointWriter(std::filesystem::path run_dir, int64_t step)
    : run_dir_(std::move(run_dir)) {
  if (step < 0) throw std::logic_error(fmt::format("checkpoint of step {}", step));
  manifest_.step = step;
  temporary_ = transient_path(run_dir_, step, "tmp");
  std::error_code error;
  std::filesystem::create_directories(run_dir_, error);
  if (error) throw_run_error("create the folder", run_dir_, error.value());
  remove_folder(temporary_);  // left by a killed process that had our number
  if (::mkdir(temporary_.c_str(), 0777) != 0) throw_run_error("create the folder", temporary_, errno);
}

CheckpointWriter::~CheckpointWriter() {
  abandon();
}

void CheckpointWriter::abandon() noexcept {
  if (!std::exchange(open_, false)) return;
  std::error_code ignored;  // a failure is already on its way, and a leftover is cleaned by the next run
  std::filesystem::remove_all(temporary_, ignored);
}

void CheckpointWriter::write_file(const std::string& name, const std::function<void(FileWriter&)>& write) {
  if (!open_) throw std::logic_error("CheckpointWriter used after commit or a failure");
  try {
    FileWriter file(temporary_ / name);
    write(file);
    file.close_durably();
    manifest_.files.push_back({name, file.size(), file.crc32c()});
  } catch (...) {
    abandon();
    throw;
  }
}

void CheckpointWriter::add_file(const std::string& name, const std::function<void(FileWriter&)>& write) {
  const bool twice = std::any_of(manifest_.files.begin(), manifest_.files.end(),
                                 [&](const ManifestFile& file) { return file.name == name; });
  if (!is_plain_name(name) || name == manifest_name || twice) {
    throw std::logic_error(fmt::format("a checkpoint cannot have a file called {}", name));
  }
  write_file(name, write);
}

void CheckpointWriter::add_file(const std::string& name, std::string_view contents) {
  add_file(name, [contents](FileWriter& file) { file.write(contents); });
}

void CheckpointWriter::commit() {
  const std::string json = manifest_json(manifest_);
  write_file(manifest_name, [&](FileWriter& file) { file.write(json); });
  try {
    sync_folder(temporary_);
    publish_checkpoint(temporary_, run_dir_, manifest_.step);
  } catch (...) {
    abandon();
    throw;
  }
  open_ = false;
}

std::string checkpoint_damage(const std::filesystem::path& dir) {
  return manifest_damage(dir, std::nullopt, ManifestCheck::contents);
}

CheckpointSearch find_latest(const std::filesystem::path& run_dir) {
  CheckpointSearch search;
  for (const CheckpointDir& found : list_checkpoint_dirs(run_dir)) {
    if (found.kind != Kind::complete) continue;
    std::string damage = manifest_damage(found.dir, found.step, ManifestCheck::contents);
    if (damage.empty()) {
      search.latest = Checkpoint{found.dir, found.step};
      break;
    }
    search.rejected.push_back({found.dir, std::move(damage)});
  }
  return search;
}

namespace {

// Killed between its last fsync and getting its name; see publish_checkpoint.
bool waits_for_its_name(const CheckpointDir& found, const std::filesystem::path& run_dir) {
  return found.kind == Kind::temporary &&
         manifest_damage(found.dir, found.step, ManifestCheck::contents).empty() &&
         !manifest_damage(checkpoint_path(run_dir, found.step), found.step, ManifestCheck::contents).empty();
}

}  // namespace

std::optional<Checkpoint> find_unfinished(const std::filesystem::path& run_dir) {
  for (const CheckpointDir& found : list_checkpoint_dirs(run_dir)) {  // the newest first
    if (waits_for_its_name(found, run_dir)) return Checkpoint{found.dir, found.step};
    const bool intact = found.kind == Kind::complete &&
                        manifest_damage(found.dir, found.step, ManifestCheck::contents).empty();
    if (intact) break;
  }
  return std::nullopt;
}

std::vector<std::string> clean_leftovers(const std::filesystem::path& run_dir) {
  std::vector<std::string> report;
  for (const CheckpointDir& found : list_checkpoint_dirs(run_dir)) {
    if (found.kind == Kind::complete) continue;
    const std::filesystem::path final_path = checkpoint_path(run_dir, found.step);
    if (waits_for_its_name(found, run_dir)) {
      publish_checkpoint(found.dir, run_dir, found.step);
      report.push_back(fmt::format("finished {}, which a killed run had written", final_path.string()));
    } else {
      remove_folder(found.dir);
      report.push_back(fmt::format("removed {}, left by a killed run", found.dir.string()));
    }
  }
  return report;
}

void remove_old_checkpoints(const std::filesystem::path& run_dir, int64_t keep, std::optional<int64_t> best) {
  if (keep <= 0) return;
  int64_t kept = 0;
  for (const CheckpointDir& found : list_checkpoint_dirs(run_dir)) {
    if (found.kind != Kind::complete) continue;
    if (!manifest_damage(found.dir, found.step, ManifestCheck::sizes).empty()) continue;
    if (++kept > keep && found.step != best) remove_checkpoint(run_dir, found.step);
  }
}

}  // namespace hydrac::runtime
