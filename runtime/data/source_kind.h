// The kind of a data file, by the end of its name, which may be in capitals.
#pragma once
#include <algorithm>
#include <string_view>

namespace hydrac::runtime {

// True if a name ends in `extension` (".gz"), in letters of either case.
inline bool has_extension(std::string_view name, std::string_view extension) {
  const auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return name.size() >= extension.size() &&
         std::ranges::equal(name.substr(name.size() - extension.size()), extension, {}, lower);
}

enum class SourceKind { text, jsonl, json, tokens, csv };
// .jsonl and .ndjson, .json, .bin (token shards), .csv; everything else is text. A .gz behind it does not
// count.
inline SourceKind source_kind(std::string_view name) {
  constexpr std::string_view gzip = ".gz";
  if (has_extension(name, gzip)) name.remove_suffix(gzip.size());
  if (has_extension(name, ".json")) return SourceKind::json;
  if (has_extension(name, ".jsonl") || has_extension(name, ".ndjson")) return SourceKind::jsonl;
  if (has_extension(name, ".bin")) return SourceKind::tokens;
  if (has_extension(name, ".csv")) return SourceKind::csv;
  return SourceKind::text;
}

}  // namespace hydrac::runtime
