// Output of `hydrac --version`.
#pragma once
#include <string>

namespace hydrac::cli {

// "hydrac 0.2.0 (commit 1a13e196789a, built with GNU 12.2.0)"
std::string version_line();

// "hydrac 0.2.0 (commit 1a13e196789a)": what folders say that this hydrac wrote.
std::string version_name();

// One line for each library that hydrac opens at run time: its version, or that it is not there.
std::string library_versions();

}  // namespace hydrac::cli
