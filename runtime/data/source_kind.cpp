#include "runtime/data/source_kind.h"

#include <algorithm>

namespace hydrac::runtime {

bool has_extension(std::string_view name, std::string_view extension) {
  const auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return name.size() >= extension.size() &&
         std::ranges::equal(name.substr(name.size() - extension.size()), extension, {}, lower);
}

SourceKind source_kind(std::string_view name) {
  constexpr std::string_view gzip = ".gz";
  if (has_extension(name, gzip)) name.remove_suffix(gzip.size());
  if (has_extension(name, ".json")) return SourceKind::json;
  if (has_extension(name, ".jsonl") || has_extension(name, ".ndjson")) return SourceKind::jsonl;
  if (has_extension(name, ".bin")) return SourceKind::tokens;
  if (has_extension(name, ".csv")) return SourceKind::csv;
  return SourceKind::text;
}

}  // namespace hydrac::runtime
