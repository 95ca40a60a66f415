#include "runtime/data/source_kind.h"

#include <algorithm>

namespace hydrac::runtime {

namespace {

constexpr std::string_view kGzip = ".gz", kZstd = ".zst";

}  // namespace

bool has_extension(std::string_view name, std::string_view extension) {
  const auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return name.size() >= extension.size() &&
         std::ranges::equal(name.substr(name.size() - extension.size()), extension, {}, lower);
}

Packing packing(std::string_view name) {
  return has_extension(name, kGzip)   ? Packing::gzip
         : has_extension(name, kZstd) ? Packing::zstd
                                      : Packing::none;
}

SourceKind source_kind(std::string_view name) {
  if (packing(name) != Packing::none)
    name.remove_suffix((packing(name) == Packing::gzip ? kGzip : kZstd).size());
  struct Extension {
    std::string_view text;
    SourceKind kind;
  };
  constexpr Extension kExtensions[] = {
      {".json", SourceKind::json},   {".jsonl", SourceKind::jsonl}, {".ndjson", SourceKind::jsonl},
      {".bin", SourceKind::tokens},  {".csv", SourceKind::csv},     {".parquet", SourceKind::table},
      {".arrow", SourceKind::table},
  };
  const auto found = std::ranges::find_if(
      kExtensions, [&](const Extension& extension) { return has_extension(name, extension.text); });
  return found == std::end(kExtensions) ? SourceKind::text : found->kind;
}

}  // namespace hydrac::runtime
