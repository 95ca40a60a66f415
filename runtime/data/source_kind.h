// The kind of a data file, by the end of its name, which may be in capitals.
#pragma once
#include <string_view>

namespace hydrac::runtime {

// True if a name ends in `extension` (".gz"), in letters of either case.
bool has_extension(std::string_view name, std::string_view extension);

enum class SourceKind { text, jsonl, json, tokens, csv };
// .jsonl and .ndjson, .json, .bin (token shards), .csv; everything else is text. A .gz behind it does not
// count.
SourceKind source_kind(std::string_view name);

}  // namespace hydrac::runtime
