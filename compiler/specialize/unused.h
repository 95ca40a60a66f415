// What of a specialized text nothing uses. Includes Clang's headers: see ast.h.
#pragma once
#include <map>
#include <set>
#include <string>

#include "specialize/instances.h"

namespace hydrac::specialize {

// What can go of a text, by where it begins.
struct Unused {
  std::size_t end = 0;
  std::string replacement;
  std::size_t with = 0;  // where something begins that must go too, or 0
  // Of one of several variables that a declaration declares, where the comma before it stands, or 0; and
  // whether it is the last of them.
  std::size_t comma = 0;
  bool is_last = false;
  bool operator==(const Unused&) const = default;
};
using AllUnused = std::map<std::size_t, Unused>;

// Of a scope with one file, what `roots` do not need: declarations, local constants and aliases, calls of
// functions that do nothing, parameters. Files out of scope that something used comes from are added to
// `outside`.
AllUnused unused_of(const Places& places, const std::set<std::string>& roots, std::set<std::string>& outside);

// Adds parameters that their functions do not name, with the arguments of all calls.
void find_unused_parameters(const Places& places, const std::set<std::string>& roots, AllUnused& unused);

// Whether to leave out the evaluation changes nothing but the value.
bool is_pure(const clang::Stmt* statement);

}  // namespace hydrac::specialize
