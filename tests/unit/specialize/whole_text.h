// Specialized code as one source, as a program with a single file would hold it.
#pragma once
#include <fmt/format.h>

#include <string>

#include "specialize/format.h"
#include "specialize/specialize.h"

namespace hydrac::specialize::test {

inline std::string include_lines(const Specialized& parts) {
  std::string text;
  for (const std::string& include : parts.includes)
    text += include.empty() ? "\n" : "#include " + include + "\n";
  return text;
}

inline std::string whole_text(const SpecializeRequest& request) {
  const Specialized parts = specialize(request);
  const auto inside = [&](const std::string& code) {
    return code.find_first_not_of(" \n") == std::string::npos
               ? ""
               : fmt::format("namespace {0} {{\n\n{1}\n}}  // namespace {0}\n\n", request.scope, code);
  };
  std::string text = include_lines(parts) + "\n" + inside(parts.shared);
  for (const Specialized::Entry& entry : parts.entries) text += inside(entry.own) + entry.text + "\n";
  return formatted(text);
}

}  // namespace hydrac::specialize::test
