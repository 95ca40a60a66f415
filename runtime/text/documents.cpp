#include "runtime/text/documents.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/text/table_rows.h"
#include "runtime/text/unpack.h"

namespace hydrac::runtime {

namespace {

// The field `key`, or "a" of the object "b" for "b.a"; null where there is none.
const nlohmann::ordered_json* field_of(const nlohmann::ordered_json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  if (const auto field = object.find(key); field != object.end()) return &*field;
  const size_t dot = key.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto field = object.find(key.substr(0, dot));
  return field == object.end() ? nullptr : field_of(*field, key.substr(dot + 1));
}

// The text of one record; empty where the row of a table has none. `where` names it.
std::string_view text_of(const Record& record, const std::string& key, const std::string& where) {
  const nlohmann::ordered_json& value = record.value;
  if (!value.is_object())
    throw InputError(fmt::format("{}: this is {}, not a JSON object", where, value.type_name()));
  const nlohmann::ordered_json* field = field_of(value, key);
  if (!field && record.kind == SourceKind::table) return {};
  if (!field) {
    throw InputError(
        fmt::format("{}: the object has no \"{}\" but {}: data.text_key says which field is the text{}",
                    where, key, json_keys(value),
                    value.contains("messages") || value.contains("completion")
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
    const nlohmann::ordered_json value = parse_ordered_json(text, place_of(name, SourceKind::jsonl, line));
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
  const nlohmann::ordered_json root = parse_ordered_json(bytes, name);
  if (!root.is_array()) {
    throw InputError(
        fmt::format("{}: a .json file is read as an array of objects, and this is {}; text ends in .txt, one "
                    "object a line in .jsonl",
                    name, root.type_name()));
  }
  int64_t element = 0;
  for (const nlohmann::ordered_json& value : root) {
    const auto share = static_cast<int64_t>(bytes.size() / root.size());
    visit({value, name, ++element, SourceKind::json, share});
  }
}

// A file of `kind`, jsonl or json.
void visit_records(const std::string& name, SourceKind kind, std::string_view bytes,
                   const RecordVisitor& visit) {
  kind == SourceKind::jsonl ? visit_jsonl(name, bytes, 1, visit) : visit_json(name, bytes, visit);
}

void visit_table(const InputFile& file, const TableRequest& request, const RecordVisitor& visit) {
  std::error_code ignored;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file.path, ignored));
  for_each_row(file, request, [&](std::string_view json, int64_t row) {
    const nlohmann::ordered_json value =
        parse_ordered_json(json, place_of(file.name, SourceKind::table, row));
    visit({value, file.name, row, SourceKind::table, std::min<int64_t>(size, std::ssize(json))});
  });
}

// Checks what a file must hold whatever is made of it.
void check_contents(const std::string& name, std::string_view bytes) {
  if (bytes.empty()) throw InputError(fmt::format("{}: it is empty", name));
  require_text(bytes, name, "UTF-8 text");
}

// Visits the text of each record that has one.
RecordVisitor visit_texts(const std::string& text_key, const DocumentVisitor& visit) {
  return [&text_key, visit](const Record& record) {
    const std::string_view document =
        text_of(record, text_key, place_of(record.file, record.kind, record.line));
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
    case SourceKind::table:
      return fmt::format("{}: row {}", file, line);
    default:
      return file;
  }
}

void for_each_document_of(const std::string& name, SourceKind kind, std::string_view bytes,
                          const std::string& text_key, const DocumentVisitor& visit) {
  check_contents(name, bytes);
  if (!has_records(kind)) return visit({bytes, name, 0, SourceKind::text});
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

void for_each_row_document(const InputFile& file, const std::optional<RowGroups>& groups,
                           const std::string& text_key, const DocumentVisitor& visit) {
  visit_table(file, {text_key, groups}, visit_texts(text_key, visit));
}

std::shared_ptr<const Contents> contents_of(const InputFile& file) {
  auto contents = std::make_shared<Contents>();
  contents->mapped = MappedFile::open(file.path, file.name);
  if (contents->mapped->bytes().empty()) throw InputError(fmt::format("{}: it is empty", file.name));
  contents->bytes = contents->mapped->bytes();
  if (packing(file) == Packing::none) return contents;
  contents->unpacked = unpacked(packing(file), contents->bytes, file.name);
  contents->bytes = contents->unpacked;
  return contents;
}

void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit) {
  for (const InputFile& file : files) {
    if (source_kind(file) != SourceKind::table) {
      for_each_document_of(file.name, source_kind(file), contents_of(file)->bytes, text_key, visit);
      continue;
    }
    bool any = false;
    for_each_row_document(file, {}, text_key, [&](const Document& document) {
      any = true;
      visit(document);
    });
    if (!any) throw InputError(fmt::format("{}: it holds no text", file.name));
  }
}

void for_each_record(const std::vector<InputFile>& files, const RecordVisitor& visit) {
  for (const InputFile& file : files) {
    const SourceKind kind = source_kind(file);
    bool any = false;
    const auto see = [&](const Record& record) {
      any = true;
      visit(record);
    };
    if (kind == SourceKind::table) {
      visit_table(file, {}, see);
    } else {
      const auto contents = contents_of(file);
      check_contents(file.name, contents->bytes);
      if (!has_records(kind))
        throw InputError(
            fmt::format("{}: data.format: chat reads records: JSONL, JSON arrays or tables", file.name));
      visit_records(file.name, kind, contents->bytes, see);
    }
    if (!any) throw InputError(fmt::format("{}: it holds no records", file.name));
  }
}

}  // namespace hydrac::runtime
