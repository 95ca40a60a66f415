#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "spec/hugging_face/hugging_face.h"

namespace hydrac::spec {
namespace {

using TokenizerFile = nlohmann::json;

constexpr const char* kSplit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The file without its vocabulary and merges; null for one that is no JSON.
TokenizerFile read_rules(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const auto keep = [](int depth, TokenizerFile::parse_event_t event, const TokenizerFile& parsed) {
    return event != TokenizerFile::parse_event_t::key || depth != 2 ||
           (parsed != "vocab" && parsed != "merges");
  };
  return TokenizerFile::parse(file, keep, /*allow_exceptions=*/false);
}

// True if the map has what `wanted` has. A key that is missing, null, false or empty is what transformers'
// class has.
bool fits(const TokenizerFile& map, const TokenizerFile& wanted) {
  if (!map.is_object()) return false;
  for (const auto& [key, value] : wanted.items()) {
    const auto found = map.find(key);
    const bool plain = found == map.end() || found->empty() || *found == false || *found == "";
    if (value == false ? !plain : found == map.end() || *found != value) return false;
  }
  return true;
}

bool splits_as_qwen2(const TokenizerFile& splitter) {
  if (!fits(splitter, {{"type", "Sequence"}}) || !splitter.contains("pretokenizers")) return false;
  const TokenizerFile& steps = splitter["pretokenizers"];
  return steps.is_array() && steps.size() == 2 &&
         fits(steps[0], {{"type", "Split"},
                         {"pattern", {{"Regex", kSplit}}},
                         {"behavior", "Isolated"},
                         {"invert", false}}) &&
         fits(steps[1], {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}) &&
         steps[1].contains("use_regex");  // true where it is missing
}

// Qwen2Tokenizer adds it where it is missing.
bool has_end_of_text(const TokenizerFile& tokens) {
  return tokens.is_array() && std::ranges::any_of(tokens, [](const TokenizerFile& token) {
           return fits(token, {{"content", "<|endoftext|>"}});
         });
}

}  // namespace

bool is_qwen2_tokenizer(const std::string& path) {
  const TokenizerFile file = read_rules(path);
  if (!file.is_object()) return false;
  const auto part = [&](const char* key) { return file.value(key, TokenizerFile()); };
  return fits(part("normalizer"), {{"type", "NFC"}}) && splits_as_qwen2(part("pre_tokenizer")) &&
         fits(part("decoder"), {{"type", "ByteLevel"}}) && has_end_of_text(part("added_tokens")) &&
         fits(part("model"), {{"type", "BPE"},
                              {"dropout", false},
                              {"unk_token", false},
                              {"continuing_subword_prefix", false},
                              {"end_of_word_suffix", false},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false}});
}

}  // namespace hydrac::spec
