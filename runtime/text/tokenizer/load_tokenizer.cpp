// Detects the kind of tokenizer that a JSON text describes.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/text/tokenizer/tokenizer_kinds.h"

namespace hydrac::runtime {

namespace {

std::unique_ptr<Tokenizer> make_from_hugging_face(const nlohmann::json& root, std::string_view text,
                                                  const EndDeclarations& declared,
                                                  const std::string& shown_as) {
  const nlohmann::json& model = json_container(root, "model", nlohmann::json::value_t::object, shown_as);
  if (json_string(model, "type", "BPE", shown_as) == "WordLevel")
    return make_char_tokenizer_of_words(root, shown_as);
  static const nlohmann::json bytes = nlohmann::json::parse(make_byte_tokenizer()->to_json());
  if (root == bytes) return make_byte_tokenizer();
  return make_bpe_tokenizer(root, text, declared, shown_as);
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view text, const std::string& shown_as,
                                           const EndDeclarations& declared) {
  const nlohmann::json root = parse_json(text, shown_as);
  if (!root.is_object()) throw InputError(fmt::format("{}: it is not a JSON object", shown_as));
  if (!root.contains("hydrac_tokenizer")) return make_from_hugging_face(root, text, declared, shown_as);
  // As hydrac wrote them before it wrote files that others read too.
  const std::string kind = json_string(root, "hydrac_tokenizer", "", shown_as);
  if (kind == "byte") return make_byte_tokenizer();
  if (kind == "char") return make_char_tokenizer_of(json_string(root, "characters", "", shown_as), shown_as);
  throw InputError(fmt::format("{}: \"hydrac_tokenizer\" is neither \"byte\" nor \"char\"", shown_as));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path, const std::string& turn_end) {
  const std::string shown_as = path.generic_string();
  const auto file = MappedFile::open(path, shown_as);
  if (file->bytes().empty()) throw InputError(fmt::format("{}: it is empty", shown_as));
  return parse_tokenizer(file->bytes(), shown_as, end_declarations(shown_as, turn_end));
}

}  // namespace hydrac::runtime
