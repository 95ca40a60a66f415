// The files that a verb's command line asks for, for the verbs that emit, compare and build.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "cli/input/arguments.h"
#include "cli/input/locked_spec.h"
#include "emit/emit.h"
#include "emit/folder/folder.h"

namespace hydrac::cli {

// The files for a loaded spec, with the choices of its lock file; with --vendor-runtime the runtime's too.
// Thread count: from the command line, else the spec, else what the program in `folder` already uses.
// InputError if a program cannot be emitted.
emit::Files emitted_files(const Arguments& arguments, LockedSpec locked, const std::filesystem::path& folder);

// --force overwrites edits, --accept keeps outdated kernels.
emit::Consent consent_of(const Arguments& arguments);

// Prints the difference between these files and what would be emitted now, as a unified diff. A file that is
// not emitted any more is shown as removed.
void print_unified(const std::filesystem::path& folder, const emit::Files& files,
                   const std::vector<std::string>& names);

}  // namespace hydrac::cli
