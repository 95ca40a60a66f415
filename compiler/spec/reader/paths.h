// The places of a spec's files: one rule for all keys that keys.def marks as paths, `extends` and functions'
// files.
#pragma once
#include <filesystem>
#include <string>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// `path`, a file or a glob as written at `where`, as seen from the working folder. What a file says is
// relative to the file's folder, what the command line says to the working folder. What a file says and is
// there only from the working folder, as specs before 0.2 name data, is taken with a warning.
std::string path_from(const diag::Location& where, const std::string& path, diag::Diagnostics& diagnostics);

// The tree's paths as seen from the working folder; names on Hugging Face's hub (hub/hub.h) become paths of
// its cache, fetched if need be. False if one cannot be had.
bool resolve_paths(Node& tree, diag::Diagnostics& diagnostics);

// `path`, as seen from the working folder, as a spec in `folder` says it.
std::string path_in(const std::filesystem::path& folder, const std::string& path);

}  // namespace hydrac::spec
