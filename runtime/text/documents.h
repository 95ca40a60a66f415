// The documents of a corpus's files: each text file, and each line of a JSONL file, is one.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/input_files.h"

namespace hydrac::runtime {

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
