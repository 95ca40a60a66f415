// keys.def as data: the rows in order, and a walk over the fields of a Spec beside their rows.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "spec/keys/rule.h"
#include "spec/spec.h"

namespace hydrac::spec {

struct KeyRow {
  std::string path;     // "train.optimizer.betas"
  std::string section;  // "train.optimizer"; "" at the top
  std::string name;     // "betas"
  bool required;
  std::string_view derived;  // the rule in words, when the default is derived
  Rule rule;
  std::string_view doc;
};

struct SectionRow {
  std::string path;    // "train.optimizer"
  std::string parent;  // "train"; "" at the top
  std::string name;    // "optimizer"
  std::string_view doc;
};

std::span<const KeyRow> key_rows();
std::span<const SectionRow> section_rows();

const KeyRow* find_key(std::string_view path);
const SectionRow* find_section(std::string_view path);

// "train.max_steps" for ("train", "max_steps"), "name" for ("", "name").
std::string join_path(std::string_view section, std::string_view name);

// Calls visit(row, field) for every key, in the order of keys.def. `spec` is a Spec or SpecKeys, const or
// not.
template <class Keys, class Visitor>
void visit_keys(Keys& spec, Visitor&& visit) {
  size_t index = 0;
#define SECTION(path, member, Type, doc)
#define KEY(section, name, type, fallback, rule, doc) visit(key_rows()[index++], section.name);
#define END_SECTION(Type, member)
#include "spec/keys/keys.def"
#undef SECTION
#undef KEY
#undef END_SECTION
}

}  // namespace hydrac::spec
