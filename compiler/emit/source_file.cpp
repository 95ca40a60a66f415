#include "emit/source_file.h"

#include <fmt/format.h>

#include <cctype>

#include "codegen/operand_names.h"

namespace hydrac::emit {

std::string namespace_of(const spec::Spec& spec) {
  const std::string name = codegen::identifier(spec.name);
  // No keyword of C++ ends in an underscore, and no name may begin with a digit.
  return std::isdigit(static_cast<unsigned char>(name[0])) ? "model_" + name + "_" : name + "_program";
}

namespace {

// The user's words without what could end a comment of C++, CMake or Markdown.
std::string in_comment(const std::string& words) {
  std::string text;
  for (char c : words) text += c < ' ' || c == '\\' || c == '>' || c == 127 ? '?' : c;
  return text;
}

}  // namespace

std::string provenance(const Origin& origin, const std::string& prefix) {
  return in_comment(fmt::format("{}{}{}. DO NOT EDIT.", prefix, kProvenance, origin.spec)) + "\n" + prefix +
         "README.md has the commands that check and regenerate it. SPDX-License-Identifier: Apache-2.0\n";
}

namespace {

std::string text(const spec::Spec& spec, const Origin& origin, const SourceFile& file, bool header) {
  std::string text = file.is_owned ? "" : provenance(origin, "// ") + "//\n";
  text += "// " + file.comment + "\n";
  if (header) text += "#pragma once\n";
  for (const std::string& include : file.includes)
    text += include.empty() ? "\n" : "#include " + include + "\n";
  if (!file.body.empty()) {
    const std::string name = namespace_of(spec);
    text +=
        fmt::format("\nnamespace hydrac::{} {{\n\n{}\n}}  // namespace hydrac::{}\n", name, file.body, name);
  }
  return text + file.after;
}

}  // namespace

std::string header_text(const spec::Spec& spec, const Origin& origin, const SourceFile& file) {
  return text(spec, origin, file, true);
}

std::string source_text(const spec::Spec& spec, const Origin& origin, const SourceFile& file) {
  return text(spec, origin, file, false);
}

}  // namespace hydrac::emit
