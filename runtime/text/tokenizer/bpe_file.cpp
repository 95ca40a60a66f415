#include "runtime/text/tokenizer/bpe_file.h"
#include "runtime/base/quote.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "runtime/base/utf8.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/text/tokenizer/added_token_entry.h"
#include "runtime/text/tokenizer/space_marks.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

// The byte that each character of the byte-level alphabet stands for: printable Latin-1 characters are
// themselves, the other bytes are U+0100 and on, in order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    int32_t next = 256;
    for (int32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      bytes_[static_cast<size_t>(printable ? byte : next++)] = byte;
    }
  }
  // The bytes of a token, or nothing when a character of it stands for none.
  std::optional<std::string> decode(std::string_view token) const {
    std::string out;
    for (size_t at = 0; at < token.size();) {
      const char32_t c = next_code_point(token, at);
      if (c >= bytes_.size() || bytes_[c] < 0) return std::nullopt;
      out.push_back(static_cast<char>(static_cast<unsigned char>(bytes_[c])));
    }
    return out;
  }

 private:
  static constexpr size_t kCharacters = 256 + 68;
  std::array<int32_t, kCharacters> bytes_ = [] {
    std::array<int32_t, kCharacters> none;
    none.fill(-1);
    return none;
  }();
};

class Reader {
 public:
  Reader(const json& root, const std::string& shown_as) : root_(root), shown_as_(shown_as) {}

  BpeFile run() {
    if (!root_.is_object()) fail("it is not a JSON object");
    const json& model = json_container(root_, "model", json::value_t::object, shown_as_);
    check_model(model);
    if (json_bool(model, "byte_fallback", false, shown_as_))
      file_.space_marks = read_space_marks(root_, shown_as_);
    else
      read_normalizer(json_field(root_, "normalizer"));
    file_.ignore_merges = json_bool(model, "ignore_merges", false, shown_as_);
    const json& added = json_field(root_, "added_tokens");
    if (!added.is_null() && !added.is_array()) fail("\"added_tokens\" is not an array");
    const json& vocab = json_container(model, "vocab", json::value_t::object, shown_as_);
    // Ids may have holes, but a table of all of them must stay in proportion to the file.
    id_limit_ = 65536 + 4 * static_cast<int64_t>(vocab.size() + added.size());
    read_vocab(vocab);
    for (const json& token : added) read_added_token(token);
    read_merges(json_container(model, "merges", json::value_t::array, shown_as_));
    read_post_processor();
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InputError(fmt::format("{}: {}", shown_as_, what));
  }

  void check_model(const json& model) const {
    const std::string type = json_string(model, "type", "BPE", shown_as_);
    if (type != "BPE") {
      fail(fmt::format("the tokenizer model {} is not supported; byte-level BPE is", in_quotes(type)));
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!json_string(model, key, "", shown_as_).empty())
        fail(fmt::format("BPE with {} is not supported", key));
    }
    const json& dropout = json_field(model, "dropout");
    if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0.0)) {
      fail("BPE dropout is not supported: ids would be random");
    }
  }

  void read_normalizer(const json& normalizer) {
    if (normalizer.is_null()) return;
    if (!normalizer.is_object()) fail("\"normalizer\" is not an object");
    const std::string type = json_string(normalizer, "type", "", shown_as_);
    if (type == "NFC") {
      file_.nfc = true;
    } else if (type == "Sequence") {
      for (const json& member : json_container(normalizer, "normalizers", json::value_t::array, shown_as_)) {
        if (!member.is_object() || json_string(member, "type", "", shown_as_) == "Sequence") {
          fail("a normalizer in a Sequence is neither NFC nor another known one");
        }
        read_normalizer(member);
      }
    } else {
      fail(fmt::format("the normalizer {} is not supported; NFC is", in_quotes(type)));
    }
  }

  int32_t checked_id(const json& id, std::string_view token) const {
    if (!id.is_number_integer()) fail(fmt::format("the id of {} is not an integer", in_quotes(token, 40)));
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(id_limit_);
    if (!fits) {
      fail(fmt::format("the id of {} is {}, which is out of range [0, {}) for a file of this size",
                       in_quotes(token, 40), id.dump(), id_limit_));
    }
    return id.get<int32_t>();
  }

  // Gives `id` to the token written `content`, which stands for `bytes`.
  void place(int32_t id, std::string_view content, std::string bytes) {
    const auto at = static_cast<size_t>(id);
    if (at >= file_.tokens.size()) {
      file_.tokens.resize(at + 1);
      file_.in_model.resize(at + 1);
      file_.special.resize(at + 1);
      taken_.resize(at + 1);
    }
    if (taken_[at])
      fail(fmt::format("{} has the id {}, which another token has too", in_quotes(content, 40), id));
    taken_[at] = true;
    file_.tokens[at] = std::move(bytes);
  }

  void read_vocab(const json& vocab) {
    file_.byte_ids.fill(-1);
    ids_.reserve(vocab.size());
    for (const auto& [content, value] : vocab.items()) {
      const int32_t id = checked_id(value, content);
      if (file_.space_marks) {
        place_characters(id, content);
        continue;
      }
      std::optional<std::string> bytes = alphabet_.decode(content);
      if (bytes && bytes->size() == 1) file_.byte_ids[static_cast<unsigned char>(bytes->front())] = id;
      const bool in_model = bytes && !bytes->empty();
      place(id, content, bytes ? *std::move(bytes) : content);
      file_.in_model[static_cast<size_t>(id)] = in_model;
      ids_.emplace(content, id);
    }
    if (vocab.empty()) fail("the vocabulary is empty");
  }

  // A token of SentencePiece's kind: <0x41> is a byte, others are characters with marks for spaces.
  void place_characters(int32_t id, const std::string& content) {
    ids_.emplace(content, id);
    if (const std::optional<unsigned char> byte = byte_named(content)) {
      file_.byte_ids[*byte] = id;
      return place(id, content, std::string(1, static_cast<char>(*byte)));
    }
    size_t end = 0;
    if (!content.empty() && (next_code_point(content, end), end == content.size()))
      file_.characters.emplace(content, id);
    place(id, content, without_space_marks(content));
  }

  void read_added_token(const json& entry) {
    AddedToken token = added_token_of(entry, shown_as_, [&](const json& id, const std::string& content) {
      return checked_id(id, content);
    });
    if (token.normalized && file_.space_marks)
      fail(
          fmt::format("the added token {} is looked for in normalized text, which is not supported beside "
                      "byte_fallback: write \"normalized\": false",
                      in_quotes(token.content, 40)));
    const auto known = ids_.find(token.content);
    if (known == ids_.end()) {
      place(token.id, token.content, token.content);
      ids_.emplace(token.content, token.id);
    } else if (known->second != token.id) {
      fail(fmt::format("the added token {} has the id {}, but {} before", in_quotes(token.content, 40),
                       token.id, known->second));
    }
    file_.tokens[static_cast<size_t>(token.id)] = token.content;
    if (token.special) file_.special[static_cast<size_t>(token.id)] = true;
    file_.added.push_back(std::move(token));
  }

  void read_post_processor() {
    file_.post_processor = hydrac::runtime::read_post_processor(root_, shown_as_);
    for (const auto* list : {&file_.post_processor.before, &file_.post_processor.behind}) {
      for (const int32_t id : *list) {
        if (id < 0 || static_cast<size_t>(id) >= file_.tokens.size())
          fail(fmt::format("the post_processor adds the id {}, and the vocabulary ends before", id));
      }
    }
  }

  int32_t id_of(std::string_view token, size_t rank) const {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end())
      fail(fmt::format("merge {} uses {}, which is not in the vocabulary", rank, in_quotes(token, 40)));
    return found->second;
  }

  void read_merges(const json& merges) {
    file_.merges = MergeTable(merges.size());
    int32_t rank = 0;
    for (size_t i = 0; i < merges.size(); ++i) {
      const json& entry = merges[i];
      std::string left, right;
      if (entry.is_string()) {
        const auto& text = entry.get_ref<const std::string&>();
        if (text.starts_with("#version")) continue;
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
          fail(fmt::format("merge {} is {}, not two tokens with a space between them", i,
                           in_quotes(text, 40)));
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
        left = entry[0].get<std::string>();
        right = entry[1].get<std::string>();
      } else {
        fail(fmt::format("merge {} is neither a string nor a pair of strings", i));
      }
      const int32_t left_id = id_of(left, i), right_id = id_of(right, i);
      file_.merges.set(left_id, right_id, {rank++, id_of(left + right, i)});
    }
  }

  const json& root_;
  const std::string& shown_as_;
  const ByteAlphabet alphabet_;
  BpeFile file_;
  std::vector<bool> taken_;                       // by id
  std::unordered_map<std::string, int32_t> ids_;  // by the token as written
  int64_t id_limit_ = 0;
};

}  // namespace

BpeFile read_bpe_file(const json& root, const std::string& shown_as) {
  return Reader(root, shown_as).run();
}

}  // namespace hydrac::runtime
