// BERT's tokenizer: ids written by hand, those of Hugging Face's own library, which wrote
// files/bert*.expected.json, and files that are none of its.
#include <nlohmann/json.hpp>

#include "data_test.h"
#include "runtime/text/tokenizer/wordpiece.h"

namespace hydrac::runtime {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr int64_t kAllIds = 1000;

// As BERT's own tests have it: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, then words.
constexpr const char* kList =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\nlow\nlowest\ncafe\nÀ\n学\n";

TEST(WordPiece, TakesTheLongestTokenThatFits) {
  const TempFolder folder;
  folder.write("vocab.txt", kList);
  const WordPiece tokenizer = load_wordpiece(folder.path());
  EXPECT_EQ(tokenizer.vocab_size(), 17);
  EXPECT_EQ(tokenizer.encode("", kAllIds), (Ids{2, 3}));
  EXPECT_EQ(tokenizer.encode("UNwant\u00E9d,running", kAllIds), (Ids{2, 8, 5, 6, 11, 9, 10, 3}));
  EXPECT_EQ(tokenizer.encode("lowest lowing", kAllIds), (Ids{2, 13, 12, 10, 3}));
  // A word with a part that is no token is unknown as a whole.
  EXPECT_EQ(tokenizer.encode("unwantedX running", kAllIds), (Ids{2, 1, 9, 10, 3}));
  EXPECT_EQ(tokenizer.encode("cafe\u0301 \u00C0 a\u5B66\u5B66", kAllIds), (Ids{2, 14, 1, 1, 16, 16, 3}));
}

TEST(WordPiece, CutsATextBeforeItsEnd) {
  const TempFolder folder;
  folder.write("vocab.txt", kList);
  const WordPiece tokenizer = load_wordpiece(folder.path());
  EXPECT_EQ(tokenizer.encode("want want want", 5), (Ids{2, 4, 4, 4, 3}));
  EXPECT_EQ(tokenizer.encode("want want want", 4), (Ids{2, 4, 4, 3}));
  EXPECT_EQ(tokenizer.encode("want want want", 2), (Ids{2, 3}));
}

TEST(WordPiece, FindsSpecialTokensInText) {
  const TempFolder folder;
  folder.write("vocab.txt", kList);
  const WordPiece tokenizer = load_wordpiece(folder.path());
  EXPECT_EQ(tokenizer.encode("want[SEP]want [PAD]", kAllIds), (Ids{2, 4, 3, 4, 0, 3}));
  EXPECT_EQ(tokenizer.encode("[sep]", kAllIds), (Ids{2, 1, 1, 1, 3}));
}

TEST(WordPiece, KeepsCaseAndAccentsWhereItsConfigSaysSo) {
  const TempFolder folder;
  folder.write("vocab.txt", kList);
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(load_wordpiece(folder.path()).encode("À Want want", kAllIds), (Ids{2, 15, 1, 4, 3}));
  folder.write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": true})");
  EXPECT_EQ(load_wordpiece(folder.path()).encode("À want", kAllIds), (Ids{2, 1, 4, 3}));
  folder.write("tokenizer_config.json", R"({"tokenize_chinese_chars": false})");
  EXPECT_EQ(load_wordpiece(folder.path()).encode("学 学学", kAllIds), (Ids{2, 16, 1, 3}));
}

TEST(WordPiece, GivesTheIdsOfHuggingFace) {
  for (const std::string name : {"bert", "bert-cased"}) {
    const WordPiece tokenizer = parse_wordpiece(read_text(test_file(name + ".tokenizer.json")), name);
    EXPECT_EQ(tokenizer.vocab_size(), 400);
    const auto cases = json::parse(read_text(test_file(name + ".expected.json")));
    ASSERT_GT(cases.size(), 50u);
    for (const auto& entry : cases)
      EXPECT_EQ(tokenizer.encode(entry["text"].get<std::string>(), 1 << 20), entry["ids"].get<Ids>())
          << name << ": " << entry["text"].dump();
  }
}

json wordpiece_json() {
  return json::parse(R"({
    "added_tokens": [{"id": 2, "content": "[CLS]", "special": true, "normalized": false}],
    "normalizer": {"type": "BertNormalizer", "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 1, "[SEP]": 3, "a": 4, "##b": 5}}})");
}

std::string wordpiece_error(const char* patch) {
  json file = wordpiece_json();
  file.merge_patch(json::parse(patch));
  return input_error([&] { parse_wordpiece(file.dump(), "t.json"); });
}

TEST(WordPieceFile, ASmallOneWorks) {
  const WordPiece tokenizer = parse_wordpiece(wordpiece_json().dump(), "t.json");
  EXPECT_EQ(tokenizer.encode("ab [CLS] AB", kAllIds), (Ids{2, 4, 5, 2, 4, 5, 3}));
  EXPECT_EQ(input_error([&] { tokenizer.encode("ab\xFF", kAllIds); }),
            "byte 2 is not UTF-8; this tokenizer needs UTF-8 text");
}

TEST(WordPieceFile, WhatIsNoneOfBertsIsNamed) {
  EXPECT_EQ(wordpiece_error(R"({"model": {"type": "BPE"}})"),
            "t.json: \"model\" is \"BPE\"; an encoder's tokenizer has WordPiece");
  EXPECT_EQ(wordpiece_error(R"({"model": null})"),
            "t.json: \"model\" is nothing known; an encoder's tokenizer has WordPiece");
  EXPECT_EQ(wordpiece_error(R"({"normalizer": {"type": "NFC"}})"),
            "t.json: \"normalizer\" is \"NFC\"; an encoder's tokenizer has BertNormalizer");
  EXPECT_EQ(wordpiece_error(R"({"pre_tokenizer": [1]})"),
            "t.json: \"pre_tokenizer\" is nothing known; an encoder's tokenizer has BertPreTokenizer");
  EXPECT_EQ(wordpiece_error(R"({"post_processor": {"type": "RobertaProcessing"}})"),
            "t.json: \"post_processor\" is neither TemplateProcessing nor BertProcessing, which put a text "
            "between [CLS] and [SEP]");
  EXPECT_EQ(wordpiece_error(R"({"post_processor": {"single": [{"Sequence": {"id": "A"}}]}})"),
            "t.json: \"post_processor\" is not of the form [CLS] text [SEP]");
  EXPECT_EQ(
      wordpiece_error(R"({"post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": 3}})"),
      "t.json: \"sep\" of \"post_processor\" is not a token and its id");
  EXPECT_EQ(
      wordpiece_error(R"({"added_tokens": [{"id": 2, "content": "[CLS]"}]})"),
      "t.json: the added token \"[CLS]\" is looked for in normalized text, which is not supported: write "
      "\"normalized\": false");
}

TEST(WordPieceFile, DamageIsNamed) {
  EXPECT_EQ(input_error([&] { parse_wordpiece("[]", "t.json"); }), "t.json: it is not a JSON object");
  EXPECT_EQ(wordpiece_error(R"({"model": {"unk_token": "<unk>"}})"),
            "t.json: the vocabulary has no \"<unk>\"");
  EXPECT_EQ(wordpiece_error(R"({"model": {"vocab": {"a": -1}}})"),
            "t.json: the id of \"a\" is -1, which is no whole number in [0, 65552)");
  EXPECT_EQ(wordpiece_error(R"({"model": {"vocab": {"a": 4000000000}}})"),
            "t.json: the id of \"a\" is 4000000000, which is no whole number in [0, 65552)");
  EXPECT_EQ(wordpiece_error(R"({"model": {"vocab": [1]}})"), "t.json: \"vocab\" is not an object but array");
  EXPECT_EQ(wordpiece_error(R"({"model": {"max_input_chars_per_word": 0}})"),
            "t.json: \"max_input_chars_per_word\" is no whole number from 1 to 1000");
  EXPECT_EQ(wordpiece_error(R"({"added_tokens": {"a": 1}})"), "t.json: \"added_tokens\" is not an array");
  const TempFolder folder;
  EXPECT_EQ(input_error([&] { load_wordpiece(folder.path()); }),
            folder.path().string() + ": there is neither tokenizer.json nor vocab.txt");
  const std::string list = folder.write("vocab.txt", "[UNK]\n[CLS]\n").string();
  EXPECT_EQ(input_error([&] { load_wordpiece(folder.path()); }), list + ": the vocabulary has no \"[SEP]\"");
  folder.write("vocab.txt", "[UNK]\n\xFF\n");
  EXPECT_EQ(input_error([&] { load_wordpiece(folder.path()); }), list + ": byte 6 is not UTF-8");
}

TEST(WordPieceFile, FingerprintsTellWhatDecidesIds) {
  const std::string before = parse_wordpiece(wordpiece_json().dump(), "t.json").fingerprint();
  for (const char* patch : {R"({"model": {"vocab": {"b": 6}}})", R"({"normalizer": {"lowercase": false}})",
                            R"({"model": {"max_input_chars_per_word": 5}})"}) {
    json file = wordpiece_json();
    file.merge_patch(json::parse(patch));
    EXPECT_NE(parse_wordpiece(file.dump(), "t.json").fingerprint(), before) << patch;
  }
  json file = wordpiece_json();
  file["truncation"] = 7;
  EXPECT_EQ(parse_wordpiece(file.dump(), "t.json").fingerprint(), before);
}

}  // namespace
}  // namespace hydrac::runtime
