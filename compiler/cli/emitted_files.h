// The files that a verb's command line asks for, for the verbs that emit, compare and build.
#pragma once
#include "cli/arguments.h"
#include "emit/emit.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Of a loaded spec; with --vendor-runtime the runtime's too. InputError where a program cannot be emitted.
emit::Files emitted_files(const Arguments& arguments, spec::Spec spec);

}  // namespace hydrac::cli
