#include "runtime/text/documents.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"
#include "runtime/text/gunzip.h"

namespace hydrac::runtime {

namespace {

std::string keys_of(const nlohmann::json& object) {
  constexpr size_t kMost = 8;
  std::string keys;
  size_t count = 0;
  for (const auto& [key, value] : object.items()) {
    if (++count > kMost) return keys + ", ...";
    keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", key);
  }
  return keys.empty() ? "nothing" : keys;
}

// The text of one record; `where` names it.
const std::string& text_of(const nlohmann::json& record, const std::string& key, const std::string& where) {
  if (!record.is_object())
    throw InputError(fmt::format("{}: this is {}, not a JSON object", where, record.type_name()));
  const auto field = record.find(key);
  if (field == record.end()) {
    throw InputError(
        fmt::format("{}: the object has no \"{}\" but {}: data.text_key says which field is the text", where,
                    key, keys_of(record)));
  }
  if (!field->is_string())
    throw InputError(fmt::format("{}: \"{}\" is not a string but {}", where, key, field->type_name()));
  const auto& text = field->get_ref<const std::string&>();
  require_text(text, where, "UTF-8 text");
  return text;
}

void visit_jsonl(const std::string& name, std::string_view bytes, const std::string& key,
                 const DocumentVisitor& visit) {
  int64_t line = 0;
  bool any = false;
  while (!bytes.empty()) {
    ++line;
    const size_t end = bytes.find('\n');
    const std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", name, line);
    const nlohmann::json object = parse_json(text, where);
    const std::string& document = text_of(object, key, where);
    if (document.empty()) continue;
    any = true;
    visit({document, name, line, SourceKind::jsonl});
  }
  if (!any) throw InputError(fmt::format("{}: it holds no text", name));
}

// Whether the first line is an object of its own, as in JSONL.
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

void visit_json(const std::string& name, std::string_view bytes, const std::string& key,
                const DocumentVisitor& visit) {
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
  bool any = false;
  for (const nlohmann::json& record : root) {
    ++element;
    const std::string& document = text_of(record, key, fmt::format("{}: element {}", name, element));
    if (document.empty()) continue;
    any = true;
    visit({document, name, element, SourceKind::json});
  }
  if (!any) throw InputError(fmt::format("{}: it holds no text", name));
}

}  // namespace

void for_each_document_of(const std::string& name, SourceKind kind, std::string_view bytes,
                          const std::string& text_key, const DocumentVisitor& visit) {
  if (bytes.empty()) throw InputError(fmt::format("{}: it is empty", name));
  require_text(bytes, name, "UTF-8 text");
  if (kind == SourceKind::jsonl) return visit_jsonl(name, bytes, text_key, visit);
  if (kind == SourceKind::json) return visit_json(name, bytes, text_key, visit);
  visit({bytes, name, 0, SourceKind::text});
}

void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit) {
  for (const InputFile& file : files) {
    const auto mapped = MappedFile::open(file.path, file.name);
    if (mapped->bytes().empty()) throw InputError(fmt::format("{}: it is empty", file.name));
    std::string unpacked;
    if (is_gzip(file)) unpacked = gunzip(mapped->bytes(), file.name);
    for_each_document_of(file.name, source_kind(file), is_gzip(file) ? unpacked : mapped->bytes(), text_key,
                         visit);
  }
}

}  // namespace hydrac::runtime
