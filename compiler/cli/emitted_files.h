// The files that a verb's command line asks for, for the verbs that emit, compare and build.
#pragma once
#include <filesystem>

#include "cli/arguments.h"
#include "cli/locked_spec.h"
#include "emit/emit.h"
#include "emit/folder.h"

namespace hydrac::cli {

// Of a loaded spec, with the choices of its lock file; with --vendor-runtime the runtime's too. Where neither
// spec nor command line says how many threads run it, as many as run the program that is in `folder` now.
// InputError where a program cannot be emitted.
emit::Files emitted_files(const Arguments& arguments, LockedSpec locked, const std::filesystem::path& folder);

// --force overwrites edits.
emit::Edits edits_of(const Arguments& arguments);

}  // namespace hydrac::cli
