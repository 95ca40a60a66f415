// Which files a corpus is made of, and their documents: each text file, and each line of a JSONL file, is
// one.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

struct InputFile {
  std::string name;            // for messages and cache keys: relative to the base folder, with '/'
  std::filesystem::path path;  // to open
};

// Expands patterns relative to `base`: `*` and `?` stay within a path component, `**` crosses folders,
// `{a,b}` is either,
// `[abc]`, `[a-z]` and `[!a]` are sets. Wildcards match no leading dot. Patterns keep their order; the files
// of one pattern are sorted by name, bytewise; a file named twice counts once. Throws InputError for a
// pattern that matches no regular file.
std::vector<InputFile> expand_patterns(const std::vector<std::string>& patterns,
                                       const std::filesystem::path& base);

enum class SourceKind { text, jsonl, tokens, csv };
// By extension: .jsonl and .ndjson, .bin (token shards), .csv; everything else is text.
SourceKind source_kind(const InputFile& file);

struct Document {
  std::string_view text;    // valid during the visit
  const std::string& file;  // InputFile::name
  int64_t line;             // of a JSONL file, from 1; 0 for a text file
};
// Visits the documents of text and JSONL files in order; empty documents are left out. A JSONL document is
// the string under `text_key`. Throws InputError naming file, line or byte: unreadable, empty, binary (a NUL
// byte), malformed JSON, no such key, not a string.
using DocumentVisitor = std::function<void(const Document&)>;
void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit);

}  // namespace hydrac::runtime
