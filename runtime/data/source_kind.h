// The kind of a data file and how it is packed, by the end of its name, which may be in capitals.
#pragma once
#include <string_view>

namespace hydrac::runtime {

// True if a name ends in `extension` (".gz"), in letters of either case.
bool has_extension(std::string_view name, std::string_view extension);

enum class Packing { none, gzip, zstd };
// By .gz and .zst.
Packing packing(std::string_view name);

enum class SourceKind { text, jsonl, json, table, tokens, csv };
// .jsonl and .ndjson; .json; .parquet and .arrow (tables); .bin (token shards); .csv. Everything else is
// text. An extension of packing() behind it does not count.
SourceKind source_kind(std::string_view name);

// True if a file of that kind is a list of records with named fields: JSONL, JSON, tables.
constexpr bool has_records(SourceKind kind) {
  return kind == SourceKind::jsonl || kind == SourceKind::json || kind == SourceKind::table;
}

}  // namespace hydrac::runtime
