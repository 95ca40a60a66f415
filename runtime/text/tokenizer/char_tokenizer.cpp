// The tokenizer whose ids are the places of characters in a sorted list.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/quote.h"
#include "runtime/base/utf8.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/text/tokenizer/tokenizer_kinds.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {

namespace {

constexpr char32_t kAscii = 128;

class CharTokenizer final : public Tokenizer {
 public:
  // `code_points`: ascending, without repetition.
  explicit CharTokenizer(const std::vector<char32_t>& code_points) : code_points_(code_points) {
    ascii_.fill(-1);
    for (size_t id = 0; id < code_points.size(); ++id) {
      if (code_points[id] < kAscii) ascii_[code_points[id]] = static_cast<int32_t>(id);
      starts_.push_back(text_.size());
      append_utf8(code_points[id], text_);
    }
    starts_.push_back(text_.size());
  }

  std::string_view token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) {
      throw InputError(fmt::format("token {} is outside the character vocabulary [0, {})", id, vocab_size()));
    }
    const auto i = static_cast<size_t>(id);
    return std::string_view(text_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }
  int64_t vocab_size() const override { return static_cast<int64_t>(code_points_.size()); }
  const EndTokens& end_tokens() const override { return ends_; }
  bool is_special(int32_t) const override { return false; }
  std::string_view name() const override { return "char"; }
  std::string to_json() const override;

 protected:
  void do_encode(std::string_view text, std::vector<int32_t>& out,
                 const ByteProgress& progress) const override {
    if (const auto bad = find_malformed_utf8(text)) {
      throw InputError(fmt::format("byte {} is not UTF-8; the char tokenizer needs UTF-8 text", *bad));
    }
    out.reserve(out.size() + text.size());
    size_t next_report = kProgressBytes;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(text, at);
      const int32_t id = id_of(c);
      if (id < 0) {
        throw InputError(
            fmt::format("byte {}: the character '{}' (U+{:04X}) is not among the {} of the vocabulary", begin,
                        escaped(text.substr(begin, at - begin)), static_cast<uint32_t>(c), vocab_size()));
      }
      out.push_back(id);
      if (progress && at >= next_report) {
        progress(at);
        next_report = at + kProgressBytes;
      }
    }
  }
  uint64_t fingerprint_bits() const override { return Hash64().add("char").add(text_).value(); }

 private:
  int32_t id_of(char32_t c) const {
    if (c < kAscii) return ascii_[c];
    const auto found = std::lower_bound(code_points_.begin(), code_points_.end(), c);
    return found != code_points_.end() && *found == c ? static_cast<int32_t>(found - code_points_.begin())
                                                      : -1;
  }

  const EndTokens ends_;               // none
  std::vector<char32_t> code_points_;  // by id
  std::array<int32_t, kAscii> ascii_;  // id of each ASCII character, -1 for none
  std::string text_;                   // all characters, in order of ids
  std::vector<size_t> starts_;         // [vocab + 1] of each character in text_
};

// Words of one character each. A character outside the vocabulary is an error there as here: there is no
// token of the name <unk>.
std::string CharTokenizer::to_json() const {
  using Json = nlohmann::ordered_json;
  Json vocabulary = Json::object();
  for (int32_t id = 0; id < vocab_size(); ++id) vocabulary[std::string(token_bytes(id))] = id;
  const Json each_character = {
      {"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", each_character},
                     {"post_processor", nullptr},
                     {"decoder", {{"type", "Fuse"}}},
                     {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}};
  return root.dump() + "\n";
}

}  // namespace

std::unique_ptr<Tokenizer> make_char_tokenizer(const std::function<void(const TextVisitor&)>& for_each_text) {
  std::array<bool, kAscii> ascii{};
  std::set<char32_t> others;
  for_each_text([&](std::string_view text) {
    if (const auto bad = find_malformed_utf8(text)) {
      throw InputError(fmt::format("byte {} is not UTF-8; the char tokenizer needs UTF-8 text", *bad));
    }
    for (size_t at = 0; at < text.size();) {
      const char32_t c = next_code_point(text, at);
      if (c < kAscii) {
        ascii[c] = true;
      } else {
        others.insert(c);
      }
    }
  });
  std::vector<char32_t> code_points;
  for (char32_t c = 0; c < kAscii; ++c) {
    if (ascii[c]) code_points.push_back(c);
  }
  code_points.insert(code_points.end(), others.begin(), others.end());
  if (code_points.empty()) throw InputError("the char tokenizer needs a corpus with at least one character");
  return std::make_unique<CharTokenizer>(code_points);
}

std::unique_ptr<Tokenizer> make_char_tokenizer_of(std::string_view characters, const std::string& shown_as) {
  std::vector<char32_t> code_points;
  for (size_t at = 0; at < characters.size();) {
    const char32_t c = next_code_point(characters, at);
    if (!code_points.empty() && c <= code_points.back()) {
      throw InputError(fmt::format("{}: \"characters\" must be in ascending order; U+{:04X} follows U+{:04X}",
                                   shown_as, static_cast<uint32_t>(c),
                                   static_cast<uint32_t>(code_points.back())));
    }
    code_points.push_back(c);
  }
  if (code_points.empty()) throw InputError(fmt::format("{}: \"characters\" is empty", shown_as));
  return std::make_unique<CharTokenizer>(code_points);
}

std::unique_ptr<Tokenizer> make_char_tokenizer_of_words(const nlohmann::json& root,
                                                        const std::string& shown_as) {
  const auto fail = [&] {
    return InputError(
        fmt::format("{}: a WordLevel tokenizer that is not one of single characters as hydrac writes it is "
                    "not supported; "
                    "byte-level BPE is",
                    shown_as));
  };
  const nlohmann::json vocabulary =
      json_container(root.at("model"), "vocab", nlohmann::json::value_t::object, shown_as);
  std::vector<std::string> words(vocabulary.size());
  for (const auto& [word, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= words.size()) throw fail();
    words[id.get<size_t>()] = word;
  }
  std::string characters;
  for (const std::string& word : words) characters += word;
  auto tokenizer = make_char_tokenizer_of(characters, shown_as);
  // Whatever else the file may say, it says the same.
  if (nlohmann::json::parse(tokenizer->to_json()) != root) throw fail();
  return tokenizer;
}

}  // namespace hydrac::runtime
