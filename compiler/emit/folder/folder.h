// An emitted program on disk: what of a folder is as it would be emitted now, and bringing it there.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "emit/emit.h"

namespace hydrac::emit {

// Paths relative to the folder, sorted.
struct FolderState {
  std::vector<std::string> current;
  std::vector<std::string> changed;   // with other contents than would be emitted, as hydrac wrote them
  std::vector<std::string> edited;    // with contents that the folder's manifest does not have
  std::vector<std::string> kept;      // owned kernels, which fit the program
  std::vector<std::string> outdated;  // owned kernels too, but what hydrac would write there has changed
  std::vector<std::string> missing;
  std::vector<std::string> stale;    // emitted once, by their first lines, and no more
  std::vector<std::string> foreign;  // stand where a file would be emitted, but hydrac did not write them
  std::string writer = {};           // of the folder: "hydrac 0.2.0 (commit 1a13e196789a)"

  bool is_current() const {
    return changed.empty() && edited.empty() && outdated.empty() && missing.empty() && stale.empty() &&
           foreign.empty();
  }
};

// Says which kernels are outdated, and what to do.
std::string outdated_text(const FolderState& state);

// Permissions of the user besides writing a new program or one that nobody touched.
struct Consent {
  bool overwrites_edits = false;  // of files that are not kept
  bool keeps_outdated = false;    // owned kernels stay although what hydrac would write there has changed
};

// Reads nothing but files that would be emitted and those whose names say that they might have been. A folder
// that does not exist misses everything. runtime::InputError when `folder` is something else than a folder,
// something in it cannot be read, or a kept kernel does not fit the program.
FolderState compare(const std::filesystem::path& folder, const Files& files, const Consent& consent = {});

// The text of an emitted file now. runtime::InputError when it cannot be read.
std::string text_of(const std::filesystem::path& folder, const std::string& name);

// How many threads the cpu's program in `folder` runs on; nothing where there is no such program.
std::optional<int64_t> recorded_threads(const std::filesystem::path& folder);

// Writes what is changed or missing in `state`, as compare() found the folder, and removes what is stale; a
// file that is current or kept is not touched, so that nothing that depends on it is built again. `writer`:
// this hydrac, which a folder that is current does not name anew. runtime::InputError, with nothing written,
// where files are foreign, edited or outdated, or where the folder holds other work alone; runtime::RunError
// when the folder cannot be written.
void write(const std::filesystem::path& folder, const Files& files, const FolderState& state,
           const std::string& writer);

}  // namespace hydrac::emit
