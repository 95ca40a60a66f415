#include "specialize/constants.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
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

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == kBegin) i = text.find(kEnd, i);
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > i) words.insert(text.substr(i, end - i));
    i = end > i ? end : i + 1;
  }
  return words;
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

std::string mark_of(const Constant& constant) {
  std::string mark(1, kBegin);
  for (const std::string& field :
       {constant.source, constant.owner, constant.type, constant.value, constant.comment})
    mark += field + kField;
  return mark + kEnd;
}

namespace {

class Names {
 public:
  explicit Names(const std::vector<TextPart>& parts) : parts_(parts) {
    for (const TextPart& part : parts) {
      const std::set<std::string> words = words_of(part.text);
      taken_.insert(words.begin(), words.end());
      for_marks(part.text, [&](const Constant& constant, std::size_t, std::size_t) {
        wanted_[plain_name(constant)].insert(constant.value);
      });
    }
  }

  std::vector<NamedConstants> run() {
    std::vector<NamedConstants> result(parts_.size());
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const std::string& text = parts_[part].text;
      std::size_t at = 0;
      for_marks(text, [&](const Constant& constant, std::size_t begin, std::size_t end) {
        result[part].text.append(text, at, begin - at).append(name_of(constant, part));
        at = end;
      });
      result[part].text.append(text, at);
    }
    for (const std::string& name : order_) {
      const Named& named = named_.at(name);
      const Constant& c = named.constant;
      result[named.parts.size() == 1 ? *named.parts.begin() : 0].declarations +=
          fmt::format("constexpr {} {} = {};{}{}\n", c.type, name, c.value, c.comment.empty() ? "" : "  ",
                      c.comment);
    }
    return result;
  }

 private:
  struct Named {
    Constant constant;
    std::set<std::size_t> parts;  // that use it
  };

  static std::string plain_name(const Constant& constant) { return "k" + camel(constant.source); }

  template <typename Visit>
  static void for_marks(const std::string& text, Visit visit) {
    for (std::size_t at = 0, begin; (begin = text.find(kBegin, at)) != std::string::npos;) {
      const std::size_t end = text.find(kEnd, begin);
      visit(constant_at(text, begin, end), begin, end + 1);
      at = end + 1;
    }
  }

  std::string name_of(const Constant& constant, std::size_t part) {
    const std::string& part_name = parts_[part].name;
    const std::string owned = "k" + camel(constant.owner) + camel(constant.source);
    std::vector<std::string> candidates;
    if (part_name.empty() || wanted_.at(plain_name(constant)).size() == 1)
      candidates.push_back(plain_name(constant));
    if (!part_name.empty()) candidates.push_back("k" + camel(part_name) + camel(constant.source));
    candidates.push_back(owned);
    for (std::size_t attempt = 0;; ++attempt) {
      const std::string name =
          attempt < candidates.size() ? candidates[attempt] : fmt::format("{}{}", owned, attempt);
      if (taken_.contains(name)) continue;
      const auto [found, is_new] = named_.try_emplace(name, Named{constant, {}});
      if (is_new) order_.push_back(name);
      if (found->second.constant.value != constant.value) continue;
      found->second.parts.insert(part);
      return name;
    }
  }

  const std::vector<TextPart>& parts_;
  std::set<std::string> taken_;
  std::map<std::string, std::set<std::string>> wanted_;  // the values of constants, by their plain names
  std::map<std::string, Named> named_;
  std::vector<std::string> order_;  // of first use
};

}  // namespace

std::vector<NamedConstants> name_constants(const std::vector<TextPart>& parts) {
  return Names(parts).run();
}

}  // namespace hydrac::specialize
