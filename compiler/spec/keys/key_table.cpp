#include "spec/keys/key_table.h"

#include <vector>

namespace hydrac::spec {
namespace {

// keys.def writes "spec.train" for the section "train", and "spec" for the top.
std::string without_root(std::string_view written) {
  return std::string(written == "spec" ? "" : written.substr(std::string_view("spec.").size()));
}

SectionRow section_row(std::string_view written, std::string_view doc) {
  const std::string path = without_root(written);
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {path, "", path, doc};
  return {path, path.substr(0, dot), path.substr(dot + 1), doc};
}

template <class T>
KeyRow key_row(std::string_view written, std::string_view name, const Default<T>& fallback, Rule rule,
               std::string_view doc) {
  const std::string section = without_root(written);
  return {
      join_path(section, name), section, std::string(name), fallback.required, fallback.derived, rule, doc};
}

}  // namespace

std::span<const KeyRow> key_rows() {
  static const std::vector<KeyRow> rows = {
#define SECTION(path, member, Type, doc)
#define KEY(section, name, type, fallback, rule, doc) \
  key_row<type>(#section, #name, Default<type>(fallback), rule, doc),
#define END_SECTION(Type, member)
#include "spec/keys/keys.def"
#undef SECTION
#undef KEY
#undef END_SECTION
  };
  return rows;
}

std::span<const SectionRow> section_rows() {
  static const std::vector<SectionRow> rows = {
#define SECTION(path, member, Type, doc) section_row(#path, doc),
#define KEY(section, name, type, fallback, rule, doc)
#define END_SECTION(Type, member)
#include "spec/keys/keys.def"
#undef SECTION
#undef KEY
#undef END_SECTION
  };
  return rows;
}

const KeyRow* find_key(std::string_view path) {
  for (const KeyRow& row : key_rows())
    if (row.path == path) return &row;
  return nullptr;
}

const SectionRow* find_section(std::string_view path) {
  for (const SectionRow& row : section_rows())
    if (row.path == path) return &row;
  return nullptr;
}

std::string join_path(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
}

}  // namespace hydrac::spec
