// Conversations, completions and texts as training items: what is learned, how they are packed, what is
// refused.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "data_test.h"
#include "runtime/data/item_loader.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/item_encoder.h"
#include "runtime/text/text_corpus.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

constexpr int32_t no = kIgnoredTarget;

// The pieces of a conversation, replies between < and >.
std::string rendered(const char* name, const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatPiece& piece : ChatTemplate::named(name).render(messages))
    text += piece.kind == ChatPiece::Kind::reply ? "<" + piece.text + ">" : piece.text;
  return text;
}

const std::vector<ChatMessage> kTurns = {
    {"user", "Hi"}, {"assistant", " Yes "}, {"user", "So"}, {"assistant", "No"}};

TEST(ChatTemplate, RendersAsTheModelsOwn) {
  EXPECT_EQ(rendered("chatml", kTurns),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n< Yes "
            "<|im_end|>>\n<|im_start|>user\nSo<|im_end|>\n"
            "<|im_start|>assistant\n<No<|im_end|>>\n");
  EXPECT_EQ(
      rendered("llama3", kTurns),
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
      "<|end_header_id|>\n\n<Yes<|eot_id|>><|start_header_id|>user<|end_header_id|>\n\nSo<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n<No<|eot_id|>>");
  EXPECT_EQ(rendered("mistral", kTurns), "<s>[INST]Hi[/INST]< Yes </s>>[INST]So[/INST]<No</s>>");
  EXPECT_EQ(
      rendered("qwen", {{"user", "Hi"}}),
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
      "<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(rendered("qwen", {{"system", "Be brief"}, {"user", "Hi"}}),
            "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplate, RefusesWhatItHasNoPlaceFor) {
  for (const char* name : {"chatml", "qwen", "llama3", "mistral"})
    EXPECT_EQ(input_error([&] {
                rendered(name, {{"tool", "42"}});
              }),
              "a role is system, user or assistant, not \"tool\"");
  EXPECT_EQ(input_error([] {
              rendered("mistral", {{"system", "Be brief"}, {"user", "Hi"}});
            }),
            "the mistral template has no place for a system message: begin the user's with it");
  EXPECT_EQ(input_error([] {
              rendered("mistral", {{"user", "Hi"}, {"user", "Hi"}});
            }),
            "in the mistral template user and assistant take turns, the user first");
}

// A record's item: its text with what is learned between < and >, and | before each token.
std::string encoded(const Tokenizer& tokenizer, const ItemFormat& format, const json& record) {
  std::vector<MarkedToken> item;
  const ItemEncoder encoder(tokenizer, format);
  encoder.encode(encoder.prepare(record).front(), item);
  std::string text;
  for (size_t i = 0; i < item.size(); ++i) {
    EXPECT_EQ(item[i].begins(), i == 0);
    const std::string bytes = item[i].id() == 0 ? "END" : std::string(tokenizer.token_bytes(item[i].id()));
    text += item[i].is_context() ? "|" + bytes : "|<" + bytes + ">";
  }
  return text;
}

TEST(ItemEncoder, LearnsRepliesCompletionsAndTexts) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(encoded(*bytes, {}, {{"prompt", "ab"}, {"completion", "cd"}}), "|a|b|<c>|<d>|<END>");
  EXPECT_EQ(encoded(*bytes, {.replies_only = false}, {{"prompt", "ab"}, {"completion", "c"}}),
            "|<a>|<b>|<c>|<END>");
  EXPECT_EQ(encoded(*bytes, {}, {{"text", "ab"}}), "|<a>|<b>|<END>");
  EXPECT_EQ(encoded(*bytes, {.names = {.text_key = "body"}}, {{"body", "a"}, {"text", 7}}), "|<a>|<END>");
  const auto qwen = load_tokenizer(test_file("qwen2.tokenizer.json"));
  const json chat = {
      {"messages", {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}}}};
  EXPECT_EQ(encoded(*qwen, {.chat_template = "chatml"}, chat),
            "|<|im_start|>|us|er|\n|a|<|im_end|>|\n|<|im_start|>|as|s|is|t|ant|\n|<b>|<<|im_end|>>|\n");
}

// A pair's texts, the rejected one behind #.
std::string encoded_pair(const Tokenizer& tokenizer, const ItemFormat& format, const json& record) {
  std::vector<MarkedToken> item;
  const ItemEncoder encoder(tokenizer, format);
  for (const PendingItem& text_of_pair : encoder.prepare(record)) encoder.encode(text_of_pair, item);
  std::string text;
  for (size_t i = 0; i < item.size(); ++i) {
    EXPECT_EQ(item[i].begins(), i == 0);
    if (i > 0 && item[i].is_rejected() != item[i - 1].is_rejected()) text += "#";
    const std::string bytes = item[i].id() == 0 ? "END" : std::string(tokenizer.token_bytes(item[i].id()));
    text += item[i].is_context() ? "|" + bytes : "|<" + bytes + ">";
  }
  return text;
}

json turn(const char* role, const char* text, json more = json::object()) {
  more["role"] = role;
  more["content"] = text;
  return more;
}

TEST(ItemEncoder, LearnsWhatMessagesSayOfThemselves) {
  const auto qwen = load_tokenizer(test_file("qwen2.tokenizer.json"));
  const auto learned = [&](const json& messages, const ItemFormat& format) {
    const std::string text = encoded(*qwen, format, {{"messages", messages}});
    return text.substr(text.find("|a|") == text.npos ? 0 : text.find("|a|"));
  };
  const ItemFormat replies{.chat_template = "chatml"}, all{.chat_template = "chatml", .replies_only = false};
  const std::string start = "|\n|<|im_start|>|as|s|is|t|ant|\n";
  for (const json& off : {json{{"weight", 0}}, json{{"train", false}}, json{{"loss", false}}}) {
    const json messages = {turn("user", "a"), turn("assistant", "b", off), turn("assistant", "c")};
    EXPECT_EQ(learned(messages, replies),
              "|a|<|im_end|>" + start + "|b|<|im_end|>" + start + "|<c>|<<|im_end|>>|\n")
        << off;
    const std::string with_all = encoded(*qwen, all, {{"messages", messages}});
    EXPECT_NE(with_all.find("|<a>"), std::string::npos) << with_all;
    EXPECT_NE(with_all.find("|b|<|im_end|>|<\n>"), std::string::npos) << with_all;
  }
  const json on = {turn("user", "a", {{"train", true}}),
                   turn("assistant", "b", {{"weight", 1}, {"name", nullptr}})};
  EXPECT_NE(learned(on, replies).find("|<b>|<<|im_end|>>"), std::string::npos);
  EXPECT_NE(encoded(*qwen, replies, {{"messages", on}}).find("|<a>|<<|im_end|>>|\n"), std::string::npos);
}

// As apply_chat_template gives: the template's line end and the reply's are one token, and learned.
TEST(ItemEncoder, ReadsPairs) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(encoded_pair(*bytes, {.pairs = true}, {{"prompt", "ab"}, {"chosen", "c"}, {"rejected", "de"}}),
            "|a|b|<c>|<END>#|a|b|<d>|<e>|<END>");
  const auto qwen = load_tokenizer(test_file("qwen2.tokenizer.json"));
  const ItemFormat chatml{.chat_template = "chatml", .pairs = true};
  const json user = turn("user", "a"), first = turn("assistant", "b"), good = turn("assistant", "c"),
             bad = turn("assistant", "d");
  const std::string says = "|<|im_start|>|as|s|is|t|ant|\n",
                    before = "|<|im_start|>|us|er|\n|a|<|im_end|>|\n" + says + "|b|<|im_end|>|\n" + says,
                    end = "|<<|im_end|>>|\n";
  const std::string pair = before + "|<c>" + end + "#" + before + "|<d>" + end;
  EXPECT_EQ(encoded_pair(*qwen, chatml, {{"prompt", {user, first}}, {"chosen", {good}}, {"rejected", {bad}}}),
            pair);
  EXPECT_EQ(encoded_pair(*qwen, chatml, {{"chosen", {user, first, good}}, {"rejected", {user, first, bad}}}),
            pair);
  EXPECT_EQ(input_error([&] {
              encoded_pair(*qwen, chatml, {{"prompt", {user}}, {"chosen", {user}}, {"rejected", {bad}}});
            }),
            "\"chosen\" has no reply of the assistant");
}

TEST(ItemEncoder, TokenizesAConversationAsOneText) {
  const auto qwen = tokenizer_with_line_ends();
  EXPECT_EQ(encoded(*qwen, {.chat_template = "chatml"}, {{"messages", {turn("assistant", "\nb")}}}),
            "|<|im_start|>|as|s|is|t|ant|<\n\n>|<b>|<<|im_end|>>|\n");
}

TEST(ItemEncoder, RefusesWhatNoTemplateWrites) {
  const auto qwen = load_tokenizer(test_file("qwen2.tokenizer.json"));
  const auto why = [&](const json& record) {
    return input_error([&] { encoded(*qwen, {.chat_template = "chatml"}, record); });
  };
  const auto message = [&](const json& more) { return why({{"messages", {turn("assistant", "b", more)}}}); };
  const std::string unwritten =
      " but role and content (beside weight, train and loss): own runs the model's template";
  for (const char* key : {"tool_calls", "function_call", "reasoning_content", "name"})
    EXPECT_EQ(message({{key, {{"a", 1}}}}),
              fmt::format("message 1: data.chat_template: chatml does not write \"{}\"{}", key, unwritten));
  EXPECT_EQ(why({{"messages", {turn("user", "a")}}, {"tools", {1}}}),
            "data.chat_template: chatml does not write \"tools\"" + unwritten);
  EXPECT_EQ(message({{"wieght", 0}}),
            "message 1: data.chat_template: chatml does not write \"wieght\"" + unwritten);
  EXPECT_EQ(message({{"weight", 0.5}}), "message 1: \"weight\" is 0.5, not 0 or 1");
  EXPECT_EQ(message({{"train", 0}}), "message 1: \"train\" is 0, not true or false");
  EXPECT_EQ(message({{"train", true}, {"weight", 0}}),
            "message 1: \"weight\" says that it is not learned, and another key the opposite");
  // What says nothing is not there.
  EXPECT_NO_THROW(
      encoded(*qwen, {.chat_template = "chatml"},
              {{"messages",
                {turn("assistant", "b",
                      {{"tool_calls", json::array()}, {"id", nullptr}, {"reasoning_content", ""}})}},
               {"tools", nullptr}}));
}

// A completion goes on from its prompt: no space is put before it, as it is before a text.
TEST(ItemEncoder, ContinuesTextWhereSpacesAreMarks) {
  for (const char* name : {"llama2", "metaspace", "metaspace-split"}) {
    const auto tokenizer = load_tokenizer(test_file(std::string(name) + ".tokenizer.json"));
    EXPECT_EQ(encoded(*tokenizer, {}, {{"prompt", "a:"}, {"completion", " b"}}), "| |a|:|< >|<b>|<</s>>")
        << name;
    EXPECT_EQ(encoded(*tokenizer, {}, {{"prompt", "a"}, {"completion", "b"}}), "| |a|<b>|<</s>>") << name;
    const bool again = std::string(name) != "metaspace";  // which puts one at the beginning only
    EXPECT_EQ(encoded(*tokenizer, {}, {{"prompt", "<s>"}, {"completion", "b"}}),
              again ? "|<s>|< >|<b>|<</s>>" : "|<s>|<b>|<</s>>")
        << name;
    EXPECT_EQ(input_error([&] { ItemEncoder(*tokenizer, {.chat_template = "qwen"}); }),
              "data.chat_template: qwen is made of <|im_start|>, which is no token of the tokenizer");
  }
}

TEST(ItemEncoder, RefusesRecordsThatTeachNothing) {
  const auto tokenizer = make_byte_tokenizer();
  const auto qwen = load_tokenizer(test_file("qwen2.tokenizer.json"));
  const auto why = [&](const json& record, const ItemFormat& format = {}) {
    return input_error([&] { encoded(format.chat_template == "none" ? *tokenizer : *qwen, format, record); });
  };
  const ItemFormat chatml{.chat_template = "chatml"};
  EXPECT_EQ(why(7), "this is number, not a JSON object");
  EXPECT_EQ(why({{"question", "a"}, {"answer", "b"}}),
            "there is neither \"messages\", nor \"conversations\", nor \"prompt\" and \"completion\", nor "
            "\"instruction\" and "
            "\"output\", nor \"text\" (data.text_key), but \"answer\", \"question\"; data.fields gives them "
            "other names");
  EXPECT_EQ(why({{"prompt", "a"}}), "there is no \"completion\" but \"prompt\"");
  EXPECT_EQ(why({{"prompt", "a"}, {"completion", ""}}), "the completion is empty");
  EXPECT_EQ(why({{"prompt", 7}, {"completion", "b"}}), "\"prompt\" is not a string but number");
  EXPECT_EQ(why({{"prompt", {"a"}}, {"completion", "b"}}), "message 1 is string, not an object");
  EXPECT_EQ(why({{"messages", json::array()}}, chatml), "\"messages\" is no list of messages");
  EXPECT_EQ(why({{"messages", {"hi"}}}, chatml), "message 1 is string, not an object");
  EXPECT_EQ(why({{"messages", {{{"role", "user"}}}}}, chatml),
            "message 1: there is no \"content\" but \"role\"");
  EXPECT_EQ(why({{"messages", {{{"role", "assistant"}, {"content", " \n"}}}}}, chatml),
            "message 1: the reply is empty");
  EXPECT_EQ(why({{"messages", {{{"role", "user"}, {"content", "a"}}}}}),
            "\"messages\" need a chat template, and data.chat_template is none: own runs the one beside "
            "data.tokenizer, if "
            "there is one, chatml, llama3, mistral and qwen are hydrac's, and data.chat_template_jinja names "
            "a file");
  EXPECT_EQ(input_error([&] { ItemEncoder(*tokenizer, chatml); }),
            "data.chat_template: chatml is made of <|im_start|>, which is no token of the tokenizer");
}

// Items of these lengths, whose tokens count up; the first `context` of each are not learned.
std::shared_ptr<const ItemStore> store_of(const std::vector<int>& lengths, int context = 0) {
  auto tokens = std::make_shared<std::vector<MarkedToken>>();
  uint32_t id = 10;
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i)
      tokens->push_back(
          {id++ | (i == 0 ? MarkedToken::kBegins : 0) | (i < context ? MarkedToken::kIsContext : 0)});
  }
  return std::make_shared<ItemStore>(tokens, std::span<const MarkedToken>(*tokens), 1000, "items");
}

TEST(ItemLoader, PacksWholeItemsWhereThereIsRoom) {
  // Positions: 3, 4, 2, 1. The third goes beside the first, where it fits exactly; the last beside the
  // second.
  const ItemLoader loader(
      ItemDataset::split(store_of({4, 5, 3, 2}, 2), 0),
      {.batch_size = 2, .sequence_len = 5, .seed = 1, .shuffle = false, .with_documents = true});
  Batch batch;
  loader.fill_train(0, batch);
  EXPECT_EQ(loader.samples_per_epoch(), 2);
  EXPECT_EQ(batch.tokens, (Ids{10, 11, 12, 19, 20, 14, 15, 16, 17, 0}));
  EXPECT_EQ(batch.targets, (Ids{no, 12, 13, no, 21, no, 16, 17, 18, no}));
  EXPECT_EQ(batch.target_count, 6);
  EXPECT_EQ(batch.documents, (Ids{0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 0, 4, 0, 4, 0, 4, 0, 4, 4, 5}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 0, 1, 0, 1, 2, 3, 0}));
  EXPECT_EQ(
      loader.description(),
      "4 items in 2 sequences, 90.0% full, 66.7% of tokens learned; 1 without a token to learn is dropped");
}

TEST(ItemLoader, PacksPairsWithBothTextsInOneSequence) {
  // Pairs of 2 + 2, 1 + 3, 1 + 1 and 3 + 4 positions, the first token of each text being context.
  auto tokens = std::make_shared<std::vector<MarkedToken>>();
  uint32_t id = 10;
  for (const auto& [chosen, rejected] : std::vector<std::pair<int, int>>{{3, 3}, {2, 4}, {2, 2}, {4, 5}})
    for (int i = 0; i < chosen + rejected; ++i)
      tokens->push_back({id++ | (i == 0 ? MarkedToken::kBegins : 0) |
                         (i == 0 || i == chosen ? MarkedToken::kIsContext : 0) |
                         (i < chosen ? 0 : MarkedToken::kIsRejected)});
  const auto store =
      std::make_shared<ItemStore>(tokens, std::span<const MarkedToken>(*tokens), 1000, "pairs");
  ItemLoaderOptions options{.batch_size = 2, .sequence_len = 6, .seed = 1, .shuffle = false};
  options.with_documents = true;
  options.pairs = 2;
  const ItemLoader loader(ItemDataset::split(store, 0), options);
  Batch batch;
  loader.fill_train(0, batch);
  EXPECT_EQ(batch.tokens, (Ids{10, 11, 13, 14, 22, 24, 16, 18, 19, 20, 0, 0}));
  EXPECT_EQ(batch.targets, (Ids{11, 12, 14, 15, 23, 25, 17, 19, 20, 21, no, no}));
  EXPECT_EQ(batch.segments, (Ids{0, 0, 1, 1, 2, 3, 0, 1, 1, 1, -1, -1}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 0, 1, 0, 0, 0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(batch.pairs, (std::vector<int64_t>{0, 2, 1, -1}));
  EXPECT_EQ(batch.pair_count, 3);
  EXPECT_EQ(batch.loss_terms(), 3);
  EXPECT_EQ(
      loader.description(),
      "4 pairs in 2 sequences, 83.3% full, 100.0% of tokens learned; 1 longer than 8 tokens is dropped");
  options.pairs = 1;
  EXPECT_EQ(ItemLoader(ItemDataset::split(store, 0), options).samples_per_epoch(), 3);
}

TEST(ItemLoader, DropsOrCutsWhatIsTooLong) {
  const auto store = store_of({6, 7, 9});
  const ItemLoaderOptions options{.batch_size = 1, .sequence_len = 5, .seed = 1, .shuffle = false};
  const ItemLoader dropping(ItemDataset::split(store, 0), options);
  EXPECT_EQ(dropping.samples_per_epoch(), 1);
  EXPECT_EQ(
      dropping.description(),
      "3 items in 1 sequences, 100.0% full, 100.0% of tokens learned; 2 longer than 6 tokens are dropped");
  ItemLoaderOptions cut = options;
  cut.cut = true;
  const ItemLoader cutting(ItemDataset::split(store, 0), cut);
  EXPECT_EQ(cutting.samples_per_epoch(), 3);
  Batch batch;
  cutting.fill_train(2, batch);
  EXPECT_EQ(batch.tokens, (Ids{23, 24, 25, 26, 27}));
  EXPECT_EQ(batch.targets, (Ids{24, 25, 26, 27, 28}));
  EXPECT_TRUE(batch.documents.empty());
  EXPECT_EQ(input_error([&] {
              ItemLoader(ItemDataset::split(store_of({7, 8}), 0), options);
            }),
            "of 2 items to train on none is left: 2 are longer than the 5 tokens of a sequence and the one "
            "behind it, "
            "and 0 teach nothing; a larger train.sequence_len, or data.too_long: cut, keeps more");
}

TEST(ItemLoader, ShowsEveryItemOnceAnEpoch) {
  std::vector<int> lengths(50);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 2 + static_cast<int>(i * 7 % 11);
  const ItemLoader loader(ItemDataset::split(store_of(lengths), 0),
                          {.batch_size = 1, .sequence_len = 16, .seed = 3});
  std::vector<Ids> epochs(2);
  Batch batch;
  for (int64_t sample = 0; sample < 2 * loader.samples_per_epoch(); ++sample) {
    loader.fill_train(sample, batch);
    for (const int32_t target : batch.targets)
      if (target != no) epochs[static_cast<size_t>(sample / loader.samples_per_epoch())].push_back(target);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (Ids& epoch : epochs) std::ranges::sort(epoch);
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(static_cast<int>(epochs[0].size()), std::accumulate(lengths.begin(), lengths.end(), 0) - 50);
  EXPECT_EQ(std::ranges::adjacent_find(epochs[0]), epochs[0].end());
}

TEST(ItemLoader, ValidatesWithTheLastItems) {
  const ItemLoader loader(ItemDataset::split(store_of({3, 3, 3, 3, 3}), 0.3),
                          {.batch_size = 2, .sequence_len = 3, .seed = 1, .with_documents = true});
  EXPECT_EQ(loader.samples_per_epoch(), 3);
  EXPECT_EQ(loader.eval_batches(), 1);
  Batch batch;
  loader.fill_eval(0, batch);
  EXPECT_EQ(batch.tokens, (Ids{19, 20, 0, 22, 23, 0}));
  EXPECT_EQ(batch.target_count, 4);
  EXPECT_EQ(input_error([] { ItemDataset::split(store_of({3}), 0.1); }),
            "data.path has 1 item, too few to keep some for validation: write data.val_fraction: 0");
}

TEST(ItemStore, RefusesTokensOfAnotherVocabulary) {
  const std::vector<MarkedToken> tokens = {{5 | MarkedToken::kBegins}, {100}};
  EXPECT_EQ(input_error([&] { ItemStore(nullptr, tokens, 100, "cache"); }),
            "cache: token 1 is 100, and the vocabulary has 100");
  EXPECT_EQ(input_error([&] { ItemStore(nullptr, {}, 100, "cache"); }), "cache: it holds no items");
}

class Items : public testing::Test {
 protected:
  Corpus open(const std::string& file) const {
    DataSettings settings;
    settings.path = {(folder_.path() / file).string()};
    settings.tokenizer = "byte";
    settings.items = true;
    settings.batch_size = 1;
    settings.sequence_len = 8;
    settings.cache_dir = (folder_.path() / "cache").string();
    return open_text(settings, true);
  }
  TempFolder folder_;
};

TEST_F(Items, ComeFromTheCacheAsTheyWere) {
  folder_.write("a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n\n{\"text\": \"xy\"}\n");
  Batch first, second;
  const Corpus corpus = open("a.jsonl"), cached = open("a.jsonl");
  corpus.loader->fill_train(0, first);
  cached.loader->fill_train(0, second);
  EXPECT_EQ(first.tokens, (Ids{'a', 'b', 'c', 'd', 'x', 'y', 0, 0}));
  EXPECT_EQ(first.targets, (Ids{no, 'c', 'd', 0, 'y', 0, no, no}));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.targets, first.targets);
  EXPECT_EQ(cached.identity.entries(), corpus.identity.entries());
}

TEST_F(Items, AreRefusedWithTheirPlace) {
  folder_.write("a.jsonl", "{\"text\": \"ab\"}\n{\"prompt\": \"b\", \"completion\": \"\"}\n");
  folder_.write("b.json", "[{\"text\": \"ab\"}, 7]");
  folder_.write("c.txt", "text");
  folder_.write("d.jsonl", "\n");
  const auto why = [&](const std::string& file) {
    const std::string text = input_error([&] { open(file); });
    return text.substr(text.rfind('/') + 1);
  };
  EXPECT_EQ(why("a.jsonl"), "a.jsonl:2: the completion is empty");
  EXPECT_EQ(why("b.json"), "b.json: element 2: this is number, not a JSON object");
  EXPECT_EQ(why("c.txt"), "c.txt: data.format: chat reads records: JSONL, JSON arrays or tables");
  EXPECT_EQ(why("d.jsonl"), "d.jsonl: it holds no records");
}

}  // namespace
}  // namespace hydrac::runtime
