#include "specialize/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace hydrac::specialize {

namespace {

constexpr char kBegin = '\1', kField = '\2', kEnd = '\3';

// head_dim and kHeadDim alike become HeadDim.
std::string camel(const std::string& name) {
  const bool is_constant =
      name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1]));
  std::string result;
  bool starts = true;
  for (const char c : is_constant ? name.substr(1) : name) {
    if (c == '_') {
      starts = true;
    } else {
      result += starts ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      starts = false;
    }
  }
  return result;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

Constant constant_at(const std::string& text, std::size_t begin, std::size_t end) {
  Constant constant;
  std::string* const fields[] = {&constant.source, &constant.owner, &constant.type, &constant.value,
                                 &constant.comment};
  std::size_t at = begin + 1;
  for (std::string* field : fields) {
    const std::size_t stop = text.find(kField, at);
    *field = text.substr(at, stop - at);
    at = stop + 1;
  }
  if (at != end) throw std::logic_error("a constant's mark is damaged");
  return constant;
}

}  // namespace

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == kBegin) i = text.find(kEnd, i);
    if (text.compare(i, 2, "//") == 0) i = std::min(text.find('\n', i), text.size());
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > i) words.insert(text.substr(i, end - i));
    i = end > i ? end : i + 1;
  }
  return words;
}

std::string mark_of(const Constant& constant) {
  std::string mark(1, kBegin);
  for (const std::string& field :
       {constant.source, constant.owner, constant.type, constant.value, constant.comment})
    mark += field + kField;
  return mark + kEnd;
}

std::string NamedConstants::declarations() const {
  std::string lines;
  for (const Declared& constant : declared) lines += constant.line;
  return lines;
}

NamedConstants name_constants(const std::string& text, const NamedConstants& before,
                              std::set<std::string> taken) {
  taken.merge(words_of(text));
  taken.merge(words_of(before.text));
  NamedConstants result;
  std::map<std::string, std::string> values;  // by name
  for (const NamedConstants::Declared& declared : before.declared) {
    values[declared.name] = declared.value;
    taken.erase(declared.name);
  }
  const auto name_of = [&](const Constant& constant) {
    const std::string plain = "k" + camel(constant.source),
                      owned = "k" + camel(constant.owner) + camel(constant.source);
    for (int attempt = 0;; ++attempt) {
      const std::string name = attempt == 0   ? plain
                               : attempt == 1 ? owned
                                              : fmt::format("{}{}", owned, attempt);
      if (taken.contains(name)) continue;
      const auto [found, is_new] = values.try_emplace(name, constant.value);
      if (is_new) {
        const char* gap = constant.comment.empty() ? "" : "  ";
        result.declared.push_back({name, constant.value,
                                   fmt::format("constexpr {} {} = {};{}{}\n", constant.type, name,
                                               constant.value, gap, constant.comment)});
      }
      if (found->second == constant.value) return name;
    }
  };
  std::size_t at = 0;
  for (std::size_t begin; (begin = text.find(kBegin, at)) != std::string::npos;) {
    const std::size_t end = text.find(kEnd, begin);
    result.text.append(text, at, begin - at).append(name_of(constant_at(text, begin, end)));
    at = end + 1;
  }
  result.text.append(text, at);
  return result;
}

}  // namespace hydrac::specialize
