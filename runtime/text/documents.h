// The documents of a corpus's files: each text file, each line of a JSONL file, and each element of a JSON
// array is one.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/input_files.h"

namespace hydrac::runtime {

struct Document {
  std::string_view text;    // valid during the visit
  const std::string& file;  // InputFile::name
  int64_t line;             // of a JSONL file, or element of a JSON array, from 1; 0 for a text file
  SourceKind kind;
};
// Visits the documents of text, JSONL and JSON files in order; empty documents are left out. A JSON document
// is the string under `text_key`. What gzip compressed is unpacked in memory. Throws InputError naming file,
// line or byte: unreadable, empty, binary (a NUL byte), malformed JSON, no such key, not a string.
using DocumentVisitor = std::function<void(const Document&)>;
void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit);

// The same of one file's text, which is not compressed. `kind`: text, jsonl or json.
void for_each_document_of(const std::string& name, SourceKind kind, std::string_view bytes,
                          const std::string& text_key, const DocumentVisitor& visit);

// The same of some lines of a JSONL file, which may hold no text. `first_line`: the first one's number.
void for_each_line_document(const std::string& name, std::string_view lines, int64_t first_line,
                            const std::string& text_key, const DocumentVisitor& visit);

// A line of a JSONL file, or an element of a JSON array, whatever it is.
struct Record {
  const nlohmann::json& value;  // valid during the visit
  const std::string& file;      // InputFile::name
  int64_t line;                 // or element, from 1
  SourceKind kind;
  int64_t bytes;  // that it takes of the file, or about that
};
// Visits the records of JSONL and JSON files in order. InputError as above, and for text files.
using RecordVisitor = std::function<void(const Record&)>;
void for_each_record(const std::vector<InputFile>& files, const RecordVisitor& visit);

// "data.jsonl:3", "data.json: element 3", "text.txt": where a document or record is.
std::string place_of(const std::string& file, SourceKind kind, int64_t line);

}  // namespace hydrac::runtime
