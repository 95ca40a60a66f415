// The documents of a corpus's files: each text file, each line of a JSONL file, each element of a JSON array
// and each row of a table is one.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/input_files.h"
#include "runtime/data/mapped_file.h"
#include "runtime/text/table_rows.h"

namespace hydrac::runtime {

struct Document {
  std::string_view text;    // valid during the visit
  const std::string& file;  // InputFile::name
  int64_t line;             // or element of a JSON array, or row of a table, from 1; 0 for a text file
  SourceKind kind;
};
// Visits the documents of text, JSONL, JSON and table files in order; empty documents are left out, and rows
// without a text. A record's document is the string under `text_key`; "a.b" is b of the object a. Compressed
// files are unpacked in memory. Throws InputError naming file, line, row or byte: unreadable, empty, binary
// (a NUL byte), malformed JSON, no such key, not a string.
using DocumentVisitor = std::function<void(const Document&)>;
void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit);

// A file's bytes, unpacked.
struct Contents {
  std::shared_ptr<const MappedFile> mapped;
  std::string unpacked;
  std::string_view bytes;  // of one of the two
};
// Never empty. InputError as above.
std::shared_ptr<const Contents> contents_of(const InputFile& file);

// The same of one file's text, which is not compressed. `kind`: text, jsonl or json.
void for_each_document_of(const std::string& name, SourceKind kind, std::string_view bytes,
                          const std::string& text_key, const DocumentVisitor& visit);

// The same of some lines of a JSONL file, which may hold no text. `first_line`: the first one's number.
void for_each_line_document(const std::string& name, std::string_view lines, int64_t first_line,
                            const std::string& text_key, const DocumentVisitor& visit);

// The same of some rows of a table, which may hold no text.
void for_each_row_document(const InputFile& file, const std::optional<RowGroups>& groups,
                           const std::string& text_key, const DocumentVisitor& visit);

// A line of a JSONL file, an element of a JSON array or a row of a table, whatever it is.
struct Record {
  const nlohmann::ordered_json& value;  // valid during the visit
  const std::string& file;              // InputFile::name
  int64_t line;                         // or element, or row, from 1
  SourceKind kind;
  int64_t bytes;  // that it takes of the file, or about that
};
// Visits the records of JSONL, JSON and table files in order. InputError as above, and for text files.
using RecordVisitor = std::function<void(const Record&)>;
void for_each_record(const std::vector<InputFile>& files, const RecordVisitor& visit);

// "data.jsonl:3", "data.json: element 3", "data.parquet: row 3", "text.txt": where a document or record is.
std::string place_of(const std::string& file, SourceKind kind, int64_t line);

}  // namespace hydrac::runtime
