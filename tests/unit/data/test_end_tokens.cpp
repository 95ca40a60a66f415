// The tokens that end a text: who declares them, and what checkpoints say of them.
#include <nlohmann/json.hpp>

#include "data_test.h"
#include "runtime/data/read_end_tokens.h"
#include "runtime/data/tokenizer.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;
using Files = std::map<std::string, std::string>;

// Tokens a, b, [EOS], and the special ones <|endoftext|>, <|im_end|> and <|eot|>.
const json& file_with_ends() {
  static const json file = json::parse(R"({
    "added_tokens": [{"id": 3, "content": "<|endoftext|>", "special": true, "normalized": false},
                     {"id": 4, "content": "<|im_end|>", "special": true, "normalized": false},
                     {"id": 5, "content": "<|eot|>", "special": true, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "[EOS]": 2}, "merges": []}})");
  return file;
}

EndTokens ends_with(const Files& files, const std::string& turn_end = "") {
  return end_tokens_of(file_with_ends(), {"m", files, turn_end});
}

TEST(EndTokens, AreThoseThatTheFolderDeclares) {
  const auto expect = [](const Files& files, int32_t document, const Ids& all) {
    const EndTokens ends = ends_with(files);
    EXPECT_EQ(ends.document, document) << json(files);
    EXPECT_EQ(ends.all, all) << json(files);
  };
  expect({}, 3, {3});
  expect({{"tokenizer_config.json", R"({"eos_token": null})"}}, 3, {3});
  expect({{"tokenizer_config.json", R"({"eos_token": "[EOS]"})"}}, 2, {2});
  expect({{"tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}})"}}, 4, {4});
  expect({{"special_tokens_map.json", R"({"eos_token": "<|eot|>"})"}}, 5, {5});
  expect({{"special_tokens_map.json", R"({"eos_token": "<|eot|>"})"},
          {"tokenizer_config.json", R"({"eos_token": "<|im_end|>"})"}},
         4, {4});
  expect({{"config.json", R"({"eos_token_id": 4})"}}, 4, {4});
  expect({{"config.json", R"({"eos_token_id": [5, 4]})"}}, 5, {5, 4});
  expect(
      {{"config.json", R"({"eos_token_id": 3})"}, {"generation_config.json", R"({"eos_token_id": [4, 5]})"}},
      4, {4, 5, 3});
  expect({{"generation_config.json", R"({"eos_token_id": [4, 3]})"},
          {"tokenizer_config.json", R"({"eos_token": "[EOS]"})"}},
         2, {2, 4, 3});
  // A token of text ends what is generated, and no document: those hold it.
  expect({{"config.json", R"({"eos_token_id": 1})"}}, 3, {1, 3});
  // Ids that no token has are never drawn.
  expect({{"config.json", R"({"eos_token_id": [151643, -1, 4294967300]})"}}, 3, {3});
}

TEST(EndTokens, EndTurnsToo) {
  const EndTokens ends = ends_with({{"config.json", R"({"eos_token_id": 3})"}}, "<|im_end|>");
  EXPECT_EQ(ends.document, 3);
  EXPECT_EQ(ends.document_text, "<|endoftext|>");
  EXPECT_EQ(ends.all, (Ids{3, 4}));
}

// Of names that models commonly use, only added tokens count: </s> may be a piece of a web page.
TEST(EndTokens, WithoutADeclarationAreAddedTokens) {
  json file = file_with_ends();
  file["model"]["vocab"]["</s>"] = 6;
  file["added_tokens"] = json::array();
  EXPECT_EQ(end_tokens_of(file, {}).document, std::nullopt);
  EXPECT_TRUE(end_tokens_of(file, {}).all.empty());
}

TEST(EndTokens, OfAnotherTypeAreErrors) {
  const auto error = [](const char* name, const char* text) {
    return input_error([&] { ends_with({{name, text}}); });
  };
  EXPECT_EQ(error("config.json", R"({"eos_token_id": "2"})"),
            "m/config.json: \"eos_token_id\" is neither a whole number nor a list of them");
  EXPECT_EQ(error("generation_config.json", R"({"eos_token_id": [1, null]})"),
            "m/generation_config.json: \"eos_token_id\" is neither a whole number nor a list of them");
  EXPECT_EQ(
      error("tokenizer_config.json", R"({"eos_token": 2})"),
      "m/tokenizer_config.json: \"eos_token\" is neither a token nor an object with one as \"content\"");
  EXPECT_EQ(error("tokenizer_config.json", R"({"eos_token": "</s>"})"),
            "m/tokenizer_config.json: the eos_token \"</s>\" is no token of the tokenizer.json beside it");
  EXPECT_EQ(error("config.json", "[]"), "m/config.json: it is not a JSON object");
  EXPECT_EQ(error("config.json", "{"), "m/config.json: not valid JSON: it ends too early");
}

TEST(EndTokens, AreReadBesideTheTokenizer) {
  const TempFolder folder;
  const auto file = folder.write("tokenizer.json", file_with_ends().dump());
  folder.write("config.json", R"({"eos_token_id": 5})");
  const auto tokenizer = load_tokenizer(file, "<|im_end|>");
  EXPECT_EQ(tokenizer->end_of_text(), 5);
  EXPECT_EQ(tokenizer->end_tokens().all, (Ids{5, 4}));
}

TEST(TokenizerFiles, SayWhatEndsAText) {
  const auto eos = [](const Files& files) {
    return json::parse(files.at("generation_config.json"))["eos_token_id"];
  };
  EXPECT_EQ(eos(tokenizer_files("", "{}", {})), nullptr);
  const Files own = tokenizer_files("", "{}", {3, "<|endoftext|>", {3}});
  EXPECT_EQ(eos(own), 3);
  EXPECT_EQ(json::parse(own.at("tokenizer_config.json"))["eos_token"], "<|endoftext|>");
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", "{}");
  const std::string config =
      R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "x", "chat_template": "y"})";
  folder.write("tokenizer_config.json", config);
  folder.write("generation_config.json", R"({"eos_token_id": [3, 9], "top_k": 20})");
  const std::string same = R"({"eos_token_id": [3, 9], "top_k": 20})";
  EXPECT_EQ(tokenizer_files(path, "{}", {3, "", {3}}).at("generation_config.json"), same);
  const Files more = tokenizer_files(path, "{}", {3, "", {3, 4}});
  EXPECT_EQ(eos(more), json({3, 9, 4}));
  EXPECT_EQ(json::parse(more.at("generation_config.json"))["top_k"], 20);
  EXPECT_EQ(more.at("tokenizer_config.json"), config);
}

TEST(TokenizerFiles, NameTheClassThatTakesTheTokenizerAsItIs) {
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", "{}");
  const auto config = [&](const std::string& given) {
    folder.write("tokenizer_config.json", given);
    return json::parse(tokenizer_files(path, "{}", {}).at("tokenizer_config.json"));
  };
  const json fast = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"add_bos_token", true}};
  EXPECT_EQ(config(R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true})"), fast);
  EXPECT_EQ(config(R"({"add_bos_token": true})"), fast);
  EXPECT_THROW(config("[]"), InputError);
}

}  // namespace
}  // namespace hydrac::runtime
