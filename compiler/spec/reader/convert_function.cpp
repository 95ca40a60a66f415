// A function's map, {cpp: FILE, function: NAME}.
#include <fmt/format.h>

#include "diag/render.h"
#include "diag/suggest.h"
#include "spec/reader/convert.h"

namespace hydrac::spec {

using diag::Kind;

namespace {

// A C identifier, which is also what C++ functions that can be lifted are called.
bool is_c_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto good = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), good) &&
         text.size() <= 128;
}

// The text at `name` of a function's map.
bool member(const Node& map, const KeyRow& key, std::string_view name, bool needed, std::string& out,
            diag::Location& where, diag::Diagnostics& diagnostics) {
  const Entry* entry = map.find(name);
  if (entry == nullptr) {
    if (needed)
      diagnostics.report(Kind::missing_key, map.where, fmt::format("{}.{} is missing", key.path, name),
                         "write {cpp: FILE, function: NAME}");
    return !needed;
  }
  KeyRow row = key;
  row.path = fmt::format("{}.{}", key.path, name);
  row.rule = not_empty();
  where = entry->value.where;
  return convert(entry->value, row, out, diagnostics);
}

}  // namespace

bool convert(const Node& node, const KeyRow& key, CppFunction& out, diag::Diagnostics& diagnostics) {
  const std::vector<std::string> known = {"cpp", "function", "text"};
  bool good = true;
  for (const Entry& entry : node.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end() || entry.key.starts_with("x-"))
      continue;
    const std::string meant = diag::nearest(entry.key, known);
    diagnostics.report(
        Kind::unknown_key, entry.where,
        fmt::format("there is no key {} in {}", diag::printable(entry.key), key.path),
        meant.empty() ? "a function is {cpp: FILE, function: NAME}" : fmt::format("did you mean {}?", meant));
    good = false;
  }
  diag::Location text_where;
  good &= member(node, key, "cpp", true, out.cpp, out.cpp_where, diagnostics);
  good &= member(node, key, "function", true, out.function, out.function_where, diagnostics);
  good &= member(node, key, "text", false, out.text, text_where, diagnostics);
  // A text goes with the `cpp` beside it, not with one that another spec or the command line lays over that.
  if (text_where.file != out.cpp_where.file) out.text.clear();
  if (good && !is_c_identifier(out.function)) {
    diagnostics.report(Kind::bad_name, out.function_where,
                       fmt::format("{}.function \"{}\" is no name that a C++ function can have", key.path,
                                   diag::printable(out.function)),
                       "write its name alone, without ( ) and ::");
    good = false;
  }
  return good;
}

}  // namespace hydrac::spec
