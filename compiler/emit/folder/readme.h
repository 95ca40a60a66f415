// Texts of an emitted folder for the people who own it: README.md, and what git and clang-format read.
#pragma once
#include <string>

#include "emit/emit.h"
#include "emit/settings.h"

namespace hydrac::emit {

// README.md: what the folder is; how to build, run and regenerate it; conflicts; owning a kernel.
std::string readme(const driver::Compiled& compiled, DataKind data, const Origin& origin);

// Marks the files as generated, so that reviews fold them, and the tables of data as not worth a diff.
std::string git_attributes(const Origin& origin);

// The style that the files are laid out in (specialize/format.h), for kernels that a team edits.
std::string clang_format(const Origin& origin);

}  // namespace hydrac::emit
