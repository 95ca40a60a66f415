// A spec in the making, between the written tree and the finished Spec.
#pragma once
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "diag/diagnostic.h"
#include "spec/spec.h"

namespace hydrac::spec {

struct Draft {
  Spec spec;
  diag::Diagnostics& diagnostics;
  diag::Location top;  // where keys that nobody wrote would be written
  bool whole = true;   // false: a file could not be read, so keys may be missing for that reason only

  // Keys whose value is wrong or missing, which was reported already. Nothing is checked against them.
  std::set<std::string, std::less<>> broken;

  // Keys that hold what they would hold if nobody had written them.
  std::set<std::string, std::less<>> usual;

  bool usable(std::initializer_list<std::string_view> paths) const {
    for (const std::string_view path : paths)
      if (broken.contains(path)) return false;
    return true;
  }

  // Written, and with another value than it would have had anyway.
  bool chosen(std::string_view path) const { return spec.is_set(path) && !usual.contains(path); }

  // The place to point at when these keys do not fit together: the first of them that was written.
  diag::Location place(std::initializer_list<std::string_view> paths) const {
    for (const std::string_view path : paths)
      if (diag::Location where = spec.where(path); where.known()) return where;
    return top;
  }

  void report(diag::Kind kind, std::initializer_list<std::string_view> paths, std::string message,
              std::string suggestion = "") {
    diagnostics.report(kind, place(paths), std::move(message), std::move(suggestion));
  }
};

}  // namespace hydrac::spec
