#include "runtime/data/tokenizer.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/base/folder_links.h"
#include "runtime/base/utf8.h"
#include "runtime/data/hash.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_to(text, ids);
  return ids;
}

void Tokenizer::encode_to(std::string_view text, std::vector<int32_t>& out,
                          const ByteProgress& progress) const {
  const size_t before = out.size();
  do_encode(text, out, progress);
  require_rows(std::span(out).subspan(before));
}

void Tokenizer::encode_more(std::string_view text, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  do_encode_more(text, ids);
  require_rows(std::span(ids).subspan(before));
}

void Tokenizer::encode_at(std::string_view text, std::span<const size_t> places, std::vector<int32_t>& ids,
                          std::vector<IdsAt>& at) const {
  const size_t before = ids.size();
  do_encode_at(text, places, ids, at);
  require_rows(std::span(ids).subspan(before));
}

void Tokenizer::require_rows(std::span<const int32_t> ids) const {
  if (rows() == vocab_size()) return;
  const auto beyond = std::ranges::find_if(ids, [&](int32_t id) { return id >= rows_; });
  if (beyond != ids.end())
    throw InputError(fmt::format(
        "\"{}\" is token {}, and the model has embeddings of tokens 0 to {} alone: leave it out of the "
        "text, or give the model more rows (resize_token_embeddings of transformers)",
        replace_malformed_utf8(token_bytes(*beyond)), *beyond, rows_ - 1));
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += token_bytes(id);
  return text;
}

void Tokenizer::do_encode_at(std::string_view text, std::span<const size_t> places, std::vector<int32_t>& ids,
                             std::vector<IdsAt>& at) const {
  const size_t before = ids.size();
  do_encode(text, ids, {});
  for (const size_t place : places) at.push_back(ids_at(std::span(ids).subspan(before), place));
}

IdsAt Tokenizer::ids_at(std::span<const int32_t> ids, size_t place) const {
  IdsAt at;
  size_t end = 0;
  for (const int32_t id : ids) {
    if (end >= place) break;
    ++at.begun;
    end += token_bytes(id).size();
    if (end <= place) ++at.ended;
  }
  return at;
}

std::string Tokenizer::fingerprint() const {
  return fmt::format("{:016x}", fingerprint_bits());
}

std::string bpe_fingerprint(std::string_view json) {
  return fmt::format("{:016x}", Hash64().add("bpe").add(json).value());
}

std::map<std::string, std::string> files_beside(const std::string& path,
                                                std::initializer_list<const char*> names) {
  std::map<std::string, std::string> files;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const char* name : names) {
    const std::filesystem::path file = folder / name;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) continue;
    require_inside(file, folder.empty() ? "." : folder);
    std::string text(MappedFile::open(file, file.string())->bytes());
    require_text(text, file.string(), "UTF-8 text");
    files.emplace(name, std::move(text));
  }
  return files;
}

namespace {

// `given`, or hydrac's own where it is empty, with the class that takes tokenizer.json as it is. Others, such
// as that of the model's family, which is taken where none is named, split and normalize text by rules of
// their own.
std::string tokenizer_config(const std::string& given, const EndTokens& ends, const std::string& shown_as) {
  constexpr const char* key = "tokenizer_class";
  constexpr const char* as_it_is = "PreTrainedTokenizerFast";
  if (given.empty()) {
    nlohmann::ordered_json config = {{key, as_it_is}, {"clean_up_tokenization_spaces", false}};
    if (!ends.document_text.empty()) config["eos_token"] = ends.document_text;
    return config.dump(2) + "\n";
  }
  nlohmann::json changed = parse_json(given, shown_as);
  if (!changed.is_object()) throw InputError(fmt::format("{}: it is not a JSON object", shown_as));
  if (changed.value(key, nlohmann::json()) == as_it_is) return given;
  changed[key] = as_it_is;
  return changed.dump(2) + "\n";
}

}  // namespace

std::map<std::string, std::string> tokenizer_files(const std::string& path, const std::string& json,
                                                   const EndTokens& ends) {
  std::map<std::string, std::string> files;
  if (!path.empty())
    files = files_beside(path, {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                                "generation_config.json"});
  files["tokenizer.json"] = json;
  const auto complete = [&](const char* name, const auto& completed) {
    const std::string shown_as = (std::filesystem::path(path).parent_path() / name).string();
    files[name] = completed(files[name], ends, shown_as);
  };
  complete("tokenizer_config.json", tokenizer_config);
  complete("generation_config.json", generation_config);
  return files;
}

std::string StreamDecoder::push(int32_t id) {
  if (!tokenizer_.is_special(id)) pending_ += tokenizer_.token_bytes(id);
  const size_t complete = complete_utf8_prefix(pending_);
  std::string text = replace_malformed_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = replace_malformed_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace hydrac::runtime
