#include "runtime/base/folder_links.h"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

void require_inside(const fs::path& path, const fs::path& folder) {
  std::error_code failed;
  const fs::path root = fs::weakly_canonical(folder, failed), end = fs::weakly_canonical(path, failed);
  if (failed) throw InputError(fmt::format("{}: {}", path.string(), failed.message()));
  const fs::path snapshots = root.parent_path();
  const bool is_snapshot = snapshots.filename() == "snapshots";
  if (lies_in(end, root) || (is_snapshot && lies_in(end, snapshots.parent_path() / "blobs"))) return;
  throw InputError(fmt::format("{} is a link that leads out of its folder, to {}: put a copy in its place",
                               path.string(), end.string()));
}

void require_own_files(const fs::path& folder) {
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed))
    require_inside(entry->path(), folder);
  if (failed) throw InputError(fmt::format("cannot list {}: {}", folder.string(), failed.message()));
}

}  // namespace hydrac::runtime
