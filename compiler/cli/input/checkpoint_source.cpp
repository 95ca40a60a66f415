#include "cli/input/checkpoint_source.h"

#include <fmt/format.h>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/train/run/run_folder.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;

namespace {

// The run's newest intact checkpoint.
CheckpointSource newest_of(const fs::path& run) {
  const runtime::CheckpointSearch search = runtime::find_latest(run);
  for (const auto& rejected : search.rejected)
    runtime::print_error(
        runtime::safe_message(fmt::format("passing over {}: {}", rejected.dir.string(), rejected.reason)) +
        "\n");
  if (!search.latest) {
    throw InputError(fmt::format(
        "{} holds no complete checkpoint; name a run's folder, or a checkpoint in it", run.string()));
  }
  return {run, search.latest->dir};
}

}  // namespace

CheckpointSource checkpoint_source(const fs::path& folder) {
  std::error_code error;
  const fs::path named = fs::canonical(folder, error);
  if (error) throw InputError(fmt::format("cannot open {}: {}", folder.string(), error.message()));
  if (!fs::is_directory(named)) {
    throw InputError(
        fmt::format("{} is a file; name a run's folder, or a checkpoint in it", folder.string()));
  }
  if (!named.filename().string().starts_with("checkpoint-") || fs::exists(runtime::metrics_path(named)))
    return newest_of(folder);
  const std::string damage = runtime::checkpoint_damage(named);
  if (!damage.empty()) throw InputError(fmt::format("{} is damaged: {}", folder.string(), damage));
  const fs::path run = named.parent_path();
  if (fs::exists(runtime::spec_path(run))) return {run, named};
  throw InputError(fmt::format("{} does not say what model it is: {} is missing", folder.string(),
                               runtime::spec_path(run).string()));
}

}  // namespace hydrac::cli
