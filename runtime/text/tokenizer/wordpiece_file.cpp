// BERT's tokenizer as Hugging Face's folders describe it.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/base/utf8.h"
#include "runtime/data/mapped_file.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/text/tokenizer/added_token_entry.h"
#include "runtime/text/tokenizer/wordpiece.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  return std::string(MappedFile::open(file, file.generic_string())->bytes());
}

json parse_object(std::string_view text, const std::string& shown_as) {
  json root = parse_json(text, shown_as);
  if (!root.is_object()) throw InputError(fmt::format("{}: it is not a JSON object", shown_as));
  return root;
}

class WordPieceReader {
 public:
  explicit WordPieceReader(std::string shown_as) : shown_as_(std::move(shown_as)) {}

  WordPieceFile of_json(const json& root);
  // `config`: tokenizer_config.json, or an empty object; messages call it `config_name`.
  WordPieceFile of_list(std::string_view text, const json& config, const std::string& config_name);

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", shown_as_, what));
  }
  static std::string type_of(const json& part) {
    return part.is_object() && part.contains("type") && part["type"].is_string()
               ? part["type"].get<std::string>()
               : "";
  }
  void require_type(const json& root, const char* key, const char* wanted) const;
  void read_model(const json& model);
  void read_added(const json& token);
  void read_processor(const json& processor);
  const std::string& special_of_template(const json& piece) const;
  int32_t checked_id(const json& id, const std::string& token) const;
  int32_t id_of(const std::string& token) const;

  const std::string shown_as_;
  WordPieceFile file_;
  int64_t id_limit_ = 0;  // ids may have holes, but stay in proportion to the file
};

void WordPieceReader::require_type(const json& root, const char* key, const char* wanted) const {
  const std::string type = type_of(json_field(root, key));
  if (type != wanted)
    fail(fmt::format("\"{}\" is {}; an encoder's tokenizer has {}", key,
                     type.empty() ? "nothing known" : in_quotes(type), wanted));
}

int32_t WordPieceReader::checked_id(const json& id, const std::string& token) const {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(id_limit_))
    fail(fmt::format("the id of {} is {}, which is no whole number in [0, {})", in_quotes(token),
                     escaped(id.dump(), 60), id_limit_));
  return id.get<int32_t>();
}

int32_t WordPieceReader::id_of(const std::string& token) const {
  const auto found = file_.vocabulary.find(token);
  if (found != file_.vocabulary.end()) return found->second;
  for (const AddedToken& added : file_.added)
    if (added.content == token) return added.id;
  fail(fmt::format("the vocabulary has no {}", in_quotes(token)));
}

void WordPieceReader::read_model(const json& model) {
  file_.continuing_prefix = json_string(model, "continuing_subword_prefix", "##", shown_as_);
  if (const json& most = json_field(model, "max_input_chars_per_word"); !most.is_null()) {
    constexpr int64_t longest = 1000;
    if (!most.is_number_unsigned() || most.get<uint64_t>() < 1 || most.get<uint64_t>() > longest)
      fail(fmt::format("\"max_input_chars_per_word\" is no whole number from 1 to {}", longest));
    file_.max_characters = most.get<int64_t>();
  }
  const json& vocabulary = json_container(model, "vocab", json::value_t::object, shown_as_);
  if (vocabulary.empty()) fail("the vocabulary is empty");
  id_limit_ = 65536 + 4 * static_cast<int64_t>(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) file_.vocabulary[token] = checked_id(id, token);
}

void WordPieceReader::read_added(const json& entry) {
  AddedToken token = added_token_of(
      entry, shown_as_, [&](const json& id, const std::string& content) { return checked_id(id, content); });
  if (token.normalized)
    fail(
        fmt::format("the added token {} is looked for in normalized text, which is not supported: write "
                    "\"normalized\": false",
                    in_quotes(token.content)));
  file_.added.push_back(std::move(token));
}

const std::string& WordPieceReader::special_of_template(const json& piece) const {
  static const json nothing;
  const json& token = piece.is_object() ? json_field(piece, "SpecialToken") : nothing;
  const json* id = token.is_object() ? &json_field(token, "id") : nullptr;
  if (id == nullptr || !id->is_string()) fail("\"post_processor\" is not of the form [CLS] text [SEP]");
  return id->get_ref<const std::string&>();
}

// [CLS] text [SEP], said in one of two ways.
void WordPieceReader::read_processor(const json& processor) {
  const std::string type = type_of(processor);
  if (type == "BertProcessing") {
    const auto token = [&](const char* key) {
      const json& pair = json_field(processor, key);
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
        fail(fmt::format("\"{}\" of \"post_processor\" is not a token and its id", key));
      return id_of(pair[0].get<std::string>());
    };
    file_.first = token("cls");
    file_.last = token("sep");
  } else if (type == "TemplateProcessing") {
    const json& single = json_container(processor, "single", json::value_t::array, shown_as_);
    if (single.size() != 3 || !single[1].is_object() || !single[1].contains("Sequence"))
      fail("\"post_processor\" is not of the form [CLS] text [SEP]");
    file_.first = id_of(special_of_template(single[0]));
    file_.last = id_of(special_of_template(single[2]));
  } else {
    fail(
        "\"post_processor\" is neither TemplateProcessing nor BertProcessing, which put a text between "
        "[CLS] and [SEP]");
  }
}

WordPieceFile WordPieceReader::of_json(const json& root) {
  require_type(root, "model", "WordPiece");
  require_type(root, "normalizer", "BertNormalizer");
  require_type(root, "pre_tokenizer", "BertPreTokenizer");
  const json& normalizer = json_field(root, "normalizer");
  file_.normalizer.clean_text = json_bool(normalizer, "clean_text", true, shown_as_);
  file_.normalizer.handle_chinese_chars = json_bool(normalizer, "handle_chinese_chars", true, shown_as_);
  file_.normalizer.lowercase = json_bool(normalizer, "lowercase", true, shown_as_);
  if (!json_field(normalizer, "strip_accents").is_null())
    file_.normalizer.strip_accents = json_bool(normalizer, "strip_accents", false, shown_as_);
  const json& model = json_field(root, "model");
  read_model(model);
  const json& added = json_field(root, "added_tokens");
  if (!added.is_null() && !added.is_array()) fail("\"added_tokens\" is not an array");
  for (const json& token : added) read_added(token);
  file_.unknown = id_of(json_string(model, "unk_token", "[UNK]", shown_as_));
  read_processor(json_field(root, "post_processor"));
  return std::move(file_);
}

WordPieceFile WordPieceReader::of_list(std::string_view text, const json& config,
                                       const std::string& config_name) {
  if (const auto bad = find_malformed_utf8(text)) fail(fmt::format("byte {} is not UTF-8", *bad));
  int32_t id = 0;
  for (size_t at = 0; at < text.size(); ++id) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view token = text.substr(at, end - at);
    if (token.ends_with('\r')) token.remove_suffix(1);
    file_.vocabulary[std::string(token)] = id;
    at = end + 1;
  }
  if (file_.vocabulary.empty()) fail("the vocabulary is empty");
  if (!json_bool(config, "do_basic_tokenize", true, config_name))
    throw InputError(fmt::format("{}: do_basic_tokenize: false is not supported", config_name));
  file_.normalizer.lowercase = json_bool(config, "do_lower_case", true, config_name);
  file_.normalizer.handle_chinese_chars = json_bool(config, "tokenize_chinese_chars", true, config_name);
  if (!json_field(config, "strip_accents").is_null())
    file_.normalizer.strip_accents = json_bool(config, "strip_accents", false, config_name);
  const auto special = [&](const char* token) {
    file_.added.push_back({.content = token, .id = id_of(token), .special = true});
    return file_.added.back().id;
  };
  file_.unknown = special("[UNK]");
  file_.first = special("[CLS]");
  file_.last = special("[SEP]");
  for (const char* token : {"[PAD]", "[MASK]"})
    if (file_.vocabulary.contains(token)) special(token);
  return std::move(file_);
}

}  // namespace

WordPiece parse_wordpiece(std::string_view json, const std::string& shown_as) {
  return WordPiece(WordPieceReader(shown_as).of_json(parse_object(json, shown_as)));
}

WordPiece load_wordpiece(const fs::path& folder) {
  std::error_code ignored;
  const fs::path whole = folder / "tokenizer.json", list = folder / "vocab.txt",
                 config = folder / "tokenizer_config.json";
  if (fs::exists(whole, ignored)) return parse_wordpiece(text_of(whole), whole.generic_string());
  if (!fs::exists(list, ignored))
    throw InputError(
        fmt::format("{}: there is neither tokenizer.json nor vocab.txt", folder.generic_string()));
  const json settings =
      fs::exists(config, ignored) ? parse_object(text_of(config), config.generic_string()) : json::object();
  return WordPiece(
      WordPieceReader(list.generic_string()).of_list(text_of(list), settings, config.generic_string()));
}

}  // namespace hydrac::runtime
