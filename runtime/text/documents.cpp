#include "runtime/text/documents.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/text/gunzip.h"

namespace hydrac::runtime {

namespace {

// The text of one record; `where` names it.
const std::string& text_of(const nlohmann::json& record, const std::string& key, const std::string& where) {
  if (!record.is_object())
    throw InputError(fmt::format("{}: this is {}, not a JSON object", where, record.type_name()));
  const auto field = record.find(key);
  if (field == record.end()) {
    throw InputError(
        fmt::format("{}: the object has no \"{}\" but {}: data.text_key says which field is the text{}",
                    where, key, json_keys(record),
                    record.contains("messages") || record.contains("completion")
                        ? ", and data.format: chat reads messages, and prompt with completion"
                        : ""));
  }
  if (!field->is_string())
    throw InputError(fmt::format("{}: \"{}\" is not a string but {}", where, key, field->type_name()));
  return field->get_ref<const std::string&>();
}

void visit_jsonl(const std::string& name, std::string_view bytes, int64_t first_line,
                 const RecordVisitor& visit) {
  for (int64_t line = first_line; !bytes.empty(); ++line) {
    const size_t end = bytes.find('\n');
    const std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const nlohmann::json value = parse_json(text, place_of(name, SourceKind::jsonl, line));
    visit({value, name, line, SourceKind::jsonl, static_cast<int64_t>(text.size())});
  }
}

// True if the first line is an object of its own, as in JSONL.
bool has_object_lines(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos || bytes.find_first_not_of(" \t\r\n", end) == std::string_view::npos)
    return false;
  try {
    return parse_json(bytes.substr(0, end), "").is_object();
  } catch (const InputError&) {
    return false;
  }
}

void visit_json(const std::string& name, std::string_view bytes, const RecordVisitor& visit) {
  if (has_object_lines(bytes))
    throw InputError(fmt::format("{}: it has one JSON object a line: let its name end in .jsonl", name));
  const nlohmann::json root = parse_json(bytes, name);
  if (!root.is_array()) {
    throw InputError(
        fmt::format("{}: a .json file is read as an array of objects, and this is {}; text ends in .txt, one "
                    "object a line in .jsonl",
                    name, root.type_name()));
  }
  int64_t element = 0;
  for (const nlohmann::json& value : root) {
    const auto share = static_cast<int64_t>(bytes.size() / root.size());
    visit({value, name, ++element, SourceKind::json, share});
  }
}

// A file of `kind`, jsonl or json.
void visit_records(const std::string& name, SourceKind kind, std::string_view bytes,
                   const RecordVisitor& visit) {
  kind == SourceKind::jsonl ? visit_jsonl(name, bytes, 1, visit) : visit_json(name, bytes, visit);
}

using FileVisitor = std::function<void(const InputFile& file, std::string_view bytes)>;

// The contents of each file, unpacked.
void for_each_file(const std::vector<InputFile>& files, const FileVisitor& visit) {
  for (const InputFile& file : files) {
    const auto mapped = MappedFile::open(file.path, file.name);
    if (mapped->bytes().empty()) throw InputError(fmt::format("{}: it is empty", file.name));
    std::string unpacked;
    if (is_gzip(file)) unpacked = gunzip(mapped->bytes(), file.name);
    visit(file, is_gzip(file) ? unpacked : mapped->bytes());
  }
}

// Checks what a file must hold whatever is made of it.
void check_contents(const std::string& name, std::string_view bytes) {
  if (bytes.empty()) throw InputError(fmt::format("{}: it is empty", name));
  require_text(bytes, name, "UTF-8 text");
}

// Visits the text of each record that has one.
RecordVisitor visit_texts(const std::string& text_key, const DocumentVisitor& visit) {
  return [&text_key, visit](const Record& record) {
    const std::string& document =
        text_of(record.value, text_key, place_of(record.file, record.kind, record.line));
    if (!document.empty()) visit({document, record.file, record.line, record.kind});
  };
}

}  // namespace

std::string place_of(const std::string& file, SourceKind kind, int64_t line) {
  switch (kind) {
    case SourceKind::jsonl:
      return fmt::format("{}:{}", file, line);
    case SourceKind::json:
      return fmt::format("{}: element {}", file, line);
    default:
      return file;
  }
}

void for_each_document_of(const std::string& name, SourceKind kind, std::string_view bytes,
                          const std::string& text_key, const DocumentVisitor& visit) {
  check_contents(name, bytes);
  if (kind != SourceKind::jsonl && kind != SourceKind::json) return visit({bytes, name, 0, SourceKind::text});
  bool any = false;
  visit_records(name, kind, bytes, visit_texts(text_key, [&](const Document& document) {
                  any = true;
                  visit(document);
                }));
  if (!any) throw InputError(fmt::format("{}: it holds no text", name));
}

void for_each_line_document(const std::string& name, std::string_view lines, int64_t first_line,
                            const std::string& text_key, const DocumentVisitor& visit) {
  visit_jsonl(name, lines, first_line, visit_texts(text_key, visit));
}

void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit) {
  for_each_file(files, [&](const InputFile& file, std::string_view bytes) {
    for_each_document_of(file.name, source_kind(file), bytes, text_key, visit);
  });
}

void for_each_record(const std::vector<InputFile>& files, const RecordVisitor& visit) {
  for_each_file(files, [&](const InputFile& file, std::string_view bytes) {
    const SourceKind kind = source_kind(file);
    check_contents(file.name, bytes);
    if (kind != SourceKind::jsonl && kind != SourceKind::json)
      throw InputError(fmt::format("{}: data.format: chat reads records: JSONL, or JSON arrays", file.name));
    bool any = false;
    visit_records(file.name, kind, bytes, [&](const Record& record) {
      any = true;
      visit(record);
    });
    if (!any) throw InputError(fmt::format("{}: it holds no records", file.name));
  });
}

}  // namespace hydrac::runtime
