// tokenizer.json files that are malformed, hostile or not supported: one clear error each.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "data_test.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {
namespace {

using nlohmann::json;

// A small sound file: bytes a, b, c and the merge "ab".
json small_file() {
  return json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<|endoftext|>", "special": true, "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": [["a", "b"]]}})");
}

std::string error_of(const json& file) {
  return input_error([&] { parse_tokenizer(file.dump(), "t.json"); });
}
// The error after `patch` (RFC 7396) was merged into the sound file.
std::string error_with(const char* patch) {
  json file = small_file();
  file.merge_patch(json::parse(patch));
  return error_of(file);
}

TEST(BpeFile, ASmallOneWorks) {
  const auto tokenizer = parse_tokenizer(small_file().dump(), "t.json");
  EXPECT_EQ(tokenizer->encode("abc<|endoftext|>ab"), (std::vector<int32_t>{3, 2, 4, 3}));
  EXPECT_EQ(tokenizer->end_of_text(), 4);
  EXPECT_TRUE(tokenizer->is_special(4));
  EXPECT_EQ(input_error([&] { tokenizer->encode("abd"); }), "t.json has no token for the byte 0x64");
  EXPECT_EQ(input_error([&] { tokenizer->encode("ab\xFF"); }),
            "byte 2 is not UTF-8; this tokenizer needs UTF-8 text");
  EXPECT_EQ(input_error([&] { tokenizer->token_bytes(5); }),
            "token 5 is outside the vocabulary [0, 5) of t.json");
}

TEST(BpeFile, NotJson) {
  const auto parse = [](std::string_view text) {
    return input_error([&] { parse_tokenizer(text, "t.json"); });
  };
  EXPECT_EQ(parse(""), "t.json: not valid JSON: it ends too early");
  EXPECT_EQ(parse("{\n  \"a\": x}"), "t.json: not valid JSON at line 2, column 8");
  EXPECT_EQ(parse("[1]"), "t.json: it is not a JSON object");
  EXPECT_EQ(parse("{\"a\": \"\xFF\"}"), "t.json: not valid JSON at column 8");
  EXPECT_EQ(parse(std::string(1 << 20, '[')), "t.json: JSON nested deeper than 64 levels at column 65");
  EXPECT_EQ(parse("{\"hydrac_tokenizer\": \"word\"}"),
            "t.json: \"hydrac_tokenizer\" is neither \"byte\" nor \"char\"");
  EXPECT_EQ(parse("{\"hydrac_tokenizer\": \"char\"}"), "t.json: \"characters\" is empty");
  EXPECT_EQ(parse("{\"hydrac_tokenizer\": \"char\", \"characters\": \"ba\"}"),
            "t.json: \"characters\" must be in ascending order; U+0061 follows U+0062");
}

TEST(BpeFile, EveryTruncationIsAnError) {
  const std::string text = small_file().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(parse_tokenizer(text.substr(0, size), "t.json"), InputError) << size;
  }
}

TEST(BpeFile, UnsupportedKindsAreNamed) {
  EXPECT_EQ(error_with(R"({"model": {"type": "Unigram"}})"),
            "t.json: the tokenizer model \"Unigram\" is not supported; byte-level BPE is");
  EXPECT_EQ(error_with(R"({"model": {"type": "WordPiece"}})"),
            "t.json: the tokenizer model \"WordPiece\" is not supported; byte-level BPE is");
  const std::string neither =
      "t.json: BPE with byte_fallback is supported with a normalizer that marks spaces (Prepend and Replace, "
      "as of Llama "
      "2), or with Metaspace as pre_tokenizer, and this file has neither alone";
  EXPECT_EQ(error_with(R"({"model": {"byte_fallback": true}})"), neither);
  EXPECT_EQ(
      error_with(
          R"({"model": {"byte_fallback": true}, "pre_tokenizer": null, "normalizer": {"type": "NFC"}})"),
      neither);
  const auto metaspace = [](const std::string& more) {
    return error_with(
        (R"({"model": {"byte_fallback": true}, "pre_tokenizer": {"type": "Metaspace", )" + more + "}}")
            .c_str());
  };
  EXPECT_EQ(metaspace(R"("replacement": "_")"),
            "t.json: a Metaspace with another replacement than U+2581 is not supported");
  EXPECT_EQ(metaspace(R"("replacement": "▁", "prepend_scheme": "last")"),
            "t.json: the prepend_scheme \"last\" of Metaspace is unknown");
  EXPECT_EQ(
      error_with(
          R"({"model": {"byte_fallback": true}, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁"},
                           "added_tokens": [{"id": 4, "content": "<s>", "normalized": true}]})"),
      "t.json: the added token \"<s>\" is looked for in normalized text, which is not supported beside "
      "byte_fallback: write \"normalized\": false");
  EXPECT_EQ(error_with(R"({"model": {"end_of_word_suffix": "</w>"}})"),
            "t.json: BPE with end_of_word_suffix is not supported");
  EXPECT_EQ(error_with(R"({"model": {"dropout": 0.1}})"),
            "t.json: BPE dropout is not supported: ids would be random");
  EXPECT_EQ(error_with(R"({"normalizer": {"type": "Lowercase"}})"),
            "t.json: the normalizer \"Lowercase\" is not supported; NFC is");
  EXPECT_EQ(error_with(R"({"pre_tokenizer": null})"),
            "t.json: \"pre_tokenizer\" is not an object; byte-level BPE needs ByteLevel there");
  EXPECT_EQ(
      error_with(R"({"pre_tokenizer": {"type": "Metaspace"}})"),
      "t.json: the last pre-tokenizer must be ByteLevel, and only the last; found \"Metaspace\" at the end");
  EXPECT_EQ(
      error_with(
          R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "ByteLevel"}]}})"),
      "t.json: the pre-tokenizer \"Whitespace\" is not supported; ByteLevel, Split, Digits and Sequence are");
}

TEST(BpeFile, ContradictionsAreNamed) {
  EXPECT_EQ(error_with(R"({"model": {"vocab": {"c": 0}}})"),
            "t.json: \"c\" has the id 0, which another token has too");
  EXPECT_EQ(error_with(R"({"model": {"vocab": {"c": -1}}})"),
            "t.json: the id of \"c\" is -1, which is out of range [0, 65556) for a file of this size");
  EXPECT_EQ(
      error_with(R"({"model": {"vocab": {"c": 2147483648}}})"),
      "t.json: the id of \"c\" is 2147483648, which is out of range [0, 65556) for a file of this size");
  EXPECT_EQ(error_with(R"({"model": {"vocab": {"c": 1.5}}})"), "t.json: the id of \"c\" is not an integer");
  EXPECT_EQ(error_with(R"({"model": {"vocab": []}})"), "t.json: \"vocab\" is not an object but array");
  EXPECT_EQ(error_with(R"({"model": {"vocab": null}})"),
            "t.json: \"vocab\" is missing; it must be an object");
  EXPECT_EQ(error_with(R"({"model": {"merges": 7}})"), "t.json: \"merges\" is not an array but number");
  EXPECT_EQ(error_with(R"({"model": {"merges": ["a b c"]}})"),
            "t.json: merge 0 is \"a b c\", not two tokens with a space between them");
  EXPECT_EQ(error_with(R"({"model": {"merges": [["a"]]}})"),
            "t.json: merge 0 is neither a string nor a pair of strings");
  EXPECT_EQ(error_with(R"({"model": {"merges": ["a z"]}})"),
            "t.json: merge 0 uses \"z\", which is not in the vocabulary");
  EXPECT_EQ(error_with(R"({"model": {"merges": ["b c"]}})"),
            "t.json: merge 0 uses \"bc\", which is not in the vocabulary");
  EXPECT_EQ(error_with(R"({"added_tokens": [{"id": 9, "content": "a"}]})"),
            "t.json: the added token \"a\" has the id 9, but 0 before");
  EXPECT_EQ(error_with(R"({"added_tokens": [{"id": 3, "content": "x"}]})"),
            "t.json: \"x\" has the id 3, which another token has too");
  EXPECT_EQ(error_with(R"({"added_tokens": [{"id": 5}]})"), "t.json: an added token has no \"content\"");
  EXPECT_EQ(error_with(R"({"added_tokens": [3]})"), "t.json: an entry of \"added_tokens\" is not an object");
  EXPECT_EQ(error_with(R"({"added_tokens": {"a": 3}})"), "t.json: \"added_tokens\" is not an array");
  EXPECT_EQ(error_with(R"({"model": {"ignore_merges": "yes"}})"),
            "t.json: \"ignore_merges\" is neither true nor false but string");
}

std::string error_of_pattern(const std::string& pattern) {
  json file = small_file();
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", pattern}}}},
                             {{"type", "ByteLevel"}}}}};
  return error_of(file);
}

TEST(BpeFile, PatternsThatTheEnginesReadDifferentlyAreRefused) {
  for (const auto& [pattern, what] : std::vector<std::pair<std::string, std::string>>{
           {"\\h", "\\h"},
           {"\\bx", "\\b"},
           {"(?m:.)", "the group (?m:"},
           {"(?<n>a)", "the group (?<n"},
           {"(*ACCEPT)", "the group (*AC"},
           {"[a[b]]", "a set within a set"},
           {"[a&&b]", "an intersection of sets (&&)"},
           {"a{,3}", "{,3}"},
           {"a{2}+", "{2}+"},
           {"a{2}?", "{2}?"},
           {"[\\W]", "\\W in a set"},
           {"[ab", "a [ without ]"},
           {"a\\", "a \\ at its end"},
           {"\\pL", "\\p without {name}"},
           {"(a)\\1", "\\1"},
       }) {
    EXPECT_EQ(
        error_of_pattern(pattern),
        fmt::format("t.json: the regular expression \"{}\" uses {}, which is not supported", pattern, what));
  }
  EXPECT_EQ(error_of_pattern("a("),
            "t.json: the regular expression \"a(\" is malformed at its byte 2: missing closing parenthesis");
  EXPECT_EQ(error_of_pattern(std::string(70000, 'a')),
            "t.json: a regular expression of 70000 bytes; at most 65536 are read");
}

TEST(BpeFile, ARunawayPatternIsAnErrorNotAHang) {
  json file = small_file();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a|a)*(b|c)"}}}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  const auto tokenizer = parse_tokenizer(file.dump(), "t.json");
  EXPECT_EQ(input_error([&] { tokenizer->encode(std::string(60, 'a')); }),
            "t.json: a regular expression failed at byte 0 of the text: match limit exceeded");
  EXPECT_EQ(tokenizer->encode("aac"), (std::vector<int32_t>{0, 0, 2})) << "and the tokenizer still works";
}

// What transformers shows a model for a text alone: beginning and end as the post-processor puts them.
TEST(PostProcessor, StandsAroundAPrompt) {
  const auto prompt = [](const char* processor) {
    json file = small_file();
    file["post_processor"] = json::parse(processor);
    return parse_tokenizer(file.dump(), "t.json")->encode_prompt("ab");
  };
  using Ids = std::vector<int32_t>;
  const std::string begins = R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<b>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<b>": {"id": "<b>", "ids": [4], "tokens": ["<|endoftext|>"]}}})";
  EXPECT_EQ(prompt("null"), (Ids{3}));
  EXPECT_EQ(prompt(R"({"type": "ByteLevel"})"), (Ids{3}));
  EXPECT_EQ(prompt(begins.c_str()), (Ids{4, 3}));
  EXPECT_EQ(
      prompt((R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" + begins + "]}").c_str()),
      (Ids{4, 3}));
  EXPECT_EQ(prompt(R"({"type": "RobertaProcessing", "cls": ["c", 2], "sep": ["<|endoftext|>", 4]})"),
            (Ids{2, 3, 4}));
  json file = small_file();
  file["post_processor"] = json::parse(begins);
  const auto tokenizer = parse_tokenizer(file.dump(), "t.json");
  EXPECT_EQ(tokenizer->encode_prompt(""), (Ids{4}));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{3})) << "training data has it where it is written";
}

TEST(PostProcessor, ThatIsMalformedIsAnError) {
  EXPECT_EQ(error_with(R"({"post_processor": []})"), "t.json: \"post_processor\": it is not an object");
  EXPECT_EQ(error_with(R"({"post_processor": {"type": "Shuffle"}})"),
            "t.json: \"post_processor\": the type \"Shuffle\" is not supported");
  EXPECT_EQ(error_with(R"({"post_processor": {"type": "TemplateProcessing", "single": []}})"),
            "t.json: \"post_processor\": \"single\" does not have its text once");
  EXPECT_EQ(error_with(R"({"post_processor": {"type": "BertProcessing", "cls": ["c", 9], "sep": ["s", 4]}})"),
            "t.json: the post_processor adds the id 9, and the vocabulary ends before");
}

}  // namespace
}  // namespace hydrac::runtime
