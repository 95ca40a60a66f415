// Unused declarations of a specialized text. Includes Clang's headers: see ast.h.
#pragma once
#include <map>
#include <set>
#include <string>

#include "specialize/instances.h"

namespace hydrac::specialize {

// Declarations that can go, by the place where they begin.
struct Unused {
  std::size_t end = 0;
  std::string replacement;
  std::size_t with = 0;  // where something begins that must go too, or 0
  // For one of several variables in a declaration: the place of the comma before it, or 0; and whether it is
  // the last one.
  std::size_t comma = 0;
  bool is_last = false;
  bool operator==(const Unused&) const = default;
};
using AllUnused = std::map<std::size_t, Unused>;

// Finds what `roots` do not need in a scope with one file: declarations, local constants and aliases, calls
// of functions that do nothing, parameters. Adds to `outside` the files out of scope that something used
// comes from.
AllUnused unused_of(const Places& places, const std::set<std::string>& roots, std::set<std::string>& outside);

// Adds parameters that their functions do not name, with the arguments of all calls.
void find_unused_parameters(const Places& places, const std::set<std::string>& roots, AllUnused& unused);

// True if the evaluation can be left out without changing anything but the value.
bool is_pure(const clang::Stmt* statement);

}  // namespace hydrac::specialize
