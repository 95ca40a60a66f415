#include "runtime/text/documents.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

void check_no_nul(std::string_view text, const std::string& where) {
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    throw InputError(
        fmt::format("{}: byte {} is NUL, so this is binary data or UTF-16, not UTF-8 text", where, nul));
  }
}

void visit_jsonl(const InputFile& file, std::string_view bytes, const std::string& key,
                 const DocumentVisitor& visit) {
  int64_t line = 0;
  bool any = false;
  while (!bytes.empty()) {
    ++line;
    const size_t end = bytes.find('\n');
    const std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", file.name, line);
    const nlohmann::json object = parse_json(text, where);
    if (!object.is_object()) throw InputError(fmt::format("{}: the line is not a JSON object", where));
    const auto field = object.find(key);
    if (field == object.end()) throw InputError(fmt::format("{}: the object has no \"{}\"", where, key));
    if (!field->is_string()) {
      throw InputError(fmt::format("{}: \"{}\" is not a string but {}", where, key, field->type_name()));
    }
    const auto& document = field->get_ref<const std::string&>();
    check_no_nul(document, where);
    if (document.empty()) continue;
    any = true;
    visit({document, file.name, line});
  }
  if (!any) throw InputError(fmt::format("{}: it holds no text", file.name));
}

}  // namespace

void for_each_document(const std::vector<InputFile>& files, const std::string& text_key,
                       const DocumentVisitor& visit) {
  for (const InputFile& file : files) {
    const auto mapped = MappedFile::open(file.path, file.name);
    const std::string_view bytes = mapped->bytes();
    if (bytes.empty()) throw InputError(fmt::format("{}: it is empty", file.name));
    if (source_kind(file) == SourceKind::jsonl) {
      visit_jsonl(file, bytes, text_key, visit);
    } else {
      check_no_nul(bytes, file.name);
      visit({bytes, file.name, 0});
    }
  }
}

}  // namespace hydrac::runtime
