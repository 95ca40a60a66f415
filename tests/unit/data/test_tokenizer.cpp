// Byte and character tokenizers, streaming, and what a checkpoint carries.
#include "data_test.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> char_tokenizer(std::string_view corpus) {
  return make_char_tokenizer([&](const TextVisitor& visit) { visit(corpus); });
}

TEST(ByteTokenizer, IdsAreTheBytes) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->encode("aé\xFF"), (Ids{97, 0xC3, 0xA9, 0xFF}));
  EXPECT_EQ(tokenizer->decode(Ids{104, 105}), "hi");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->end_of_text(), 0);
  EXPECT_EQ(input_error([&] { tokenizer->encode(std::string_view("a\0", 2)); }),
            "the text has U+0000, which as token 0 of the byte tokenizer would end a document");
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(1));
  EXPECT_EQ(input_error([&] { tokenizer->token_bytes(256); }),
            "token 256 is outside the byte vocabulary [0, 256)");
  EXPECT_EQ(input_error([&] { tokenizer->token_bytes(-1); }),
            "token -1 is outside the byte vocabulary [0, 256)");
}

TEST(CharTokenizer, IdsAreTheSortedCodePoints) {
  const auto tokenizer = char_tokenizer("ba é🙂a\n");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->encode("\n abé🙂"), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 4, 3}), "🙂éb");
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
  EXPECT_EQ(input_error([&] { tokenizer->token_bytes(6); }),
            "token 6 is outside the character vocabulary [0, 6)");
}

TEST(CharTokenizer, IsNanoGptsOnShakespeare) {
  NEEDS_SHARED_FILE("tinyshakespeare.txt");
  const std::string text = read_text(shared_file("tinyshakespeare.txt"));
  const auto tokenizer = char_tokenizer(text);
  EXPECT_EQ(tokenizer->vocab_size(), 65);
  EXPECT_EQ(tokenizer->encode("\n !A"), (Ids{0, 1, 2, 13}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(CharTokenizer, NamesWhatItCannotEncode) {
  const auto tokenizer = char_tokenizer("abc");
  EXPECT_EQ(input_error([&] { tokenizer->encode("ab€"); }),
            "byte 2: the character '€' (U+20AC) is not among the 3 of the vocabulary");
  EXPECT_EQ(input_error([&] { tokenizer->encode("ab\xC3"); }),
            "byte 2 is not UTF-8; the char tokenizer needs UTF-8 text");
  EXPECT_EQ(input_error([&] { char_tokenizer("\xED\xA0\x80"); }),
            "byte 0 is not UTF-8; the char tokenizer needs UTF-8 text");
  EXPECT_EQ(input_error([&] { char_tokenizer(""); }),
            "the char tokenizer needs a corpus with at least one character");
}

// The whole files: tests/hf compares their ids with those of Hugging Face's tokenizers.
TEST(Tokenizer, IsHuggingFacesFile) {
  EXPECT_EQ(char_tokenizer("b\na")->to_json(),
            R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
            R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"[\\s\\S]"},"behavior":"Isolated",)"
            R"("invert":false},"post_processor":null,"decoder":{"type":"Fuse"},"model":{"type":"WordLevel",)"
            R"("vocab":{"\n":0,"a":1,"b":2},"unk_token":"<unk>"}})"
            "\n");
  const std::string bytes = make_byte_tokenizer()->to_json();
  for (const char* part :
       {R"("vocab":{"Ā":0,"ā":1,)", R"("Ġ":32,"!":33,"\"":34,)", R"(,"\\":92,)", R"("ÿ":255},"merges":[]})"})
    EXPECT_NE(bytes.find(part), std::string::npos) << part << " in " << bytes;
}

TEST(Tokenizer, OfWordsIsRefusedUnlessTheyAreItsCharacters) {
  const std::string json = char_tokenizer("ab")->to_json();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = json;
    other.replace(other.find(from), from.size(), to);
    return input_error([&] { parse_tokenizer(other, "t.json"); });
  };
  const std::string refused =
      "t.json: a WordLevel tokenizer that is not one of single characters as hydrac writes it is not "
      "supported; "
      "byte-level BPE is";
  EXPECT_EQ(changed("{\"a\":0,\"b\":1}", "{\"ab\":0}"), refused);
  EXPECT_EQ(changed("\"b\":1", "\"b\":7"), refused);
  EXPECT_EQ(changed("\"b\":1", "\"b\":0"), refused);
  EXPECT_EQ(changed("\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}"), refused);
  EXPECT_EQ(changed("Isolated", "Removed"), refused);
}

TEST(Tokenizer, SurvivesItsJson) {
  const std::string bpe = read_text(test_file("qwen2.tokenizer.json"));
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(make_byte_tokenizer());
  all.push_back(char_tokenizer("\n\"\\ 'héllo wörlde🙂" + std::string(1, '\0')));
  all.push_back(parse_tokenizer(bpe, "qwen2"));
  for (const auto& tokenizer : all) {
    const auto copy = parse_tokenizer(tokenizer->to_json(), "checkpoint");
    EXPECT_EQ(copy->name(), tokenizer->name());
    EXPECT_EQ(copy->fingerprint(), tokenizer->fingerprint());
    EXPECT_EQ(copy->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(copy->end_of_text(), tokenizer->end_of_text());
    EXPECT_EQ(copy->encode("hell\n"), tokenizer->encode("hell\n"));
    EXPECT_EQ(copy->to_json(), tokenizer->to_json());
    EXPECT_EQ(tokenizer->fingerprint().size(), 16u);
  }
  EXPECT_NE(all[0]->fingerprint(), all[1]->fingerprint());
  EXPECT_NE(all[1]->fingerprint(), char_tokenizer("abc")->fingerprint());
}

TEST(Tokenizer, NamesTheTokensThatAModelHasNoRowsFor) {
  const auto tokenizer = parse_tokenizer(read_text(test_file("qwen2.tokenizer.json")), "qwen2");
  const Ids ids = tokenizer->encode("line<|im_start|>");
  EXPECT_EQ(ids.back(), 701);
  EXPECT_EQ(tokenizer->rows(), tokenizer->vocab_size());
  tokenizer->limit_to(701);
  EXPECT_EQ(tokenizer->rows(), 701);
  EXPECT_EQ(tokenizer->encode("line<|endoftext|>").back(), 700);
  const std::string why =
      "\"<|im_start|>\" is token 701, and the model has embeddings of tokens 0 to 700 alone: leave it out of "
      "the "
      "text, or give the model more rows (resize_token_embeddings of transformers)";
  EXPECT_EQ(input_error([&] { tokenizer->encode("line<|im_start|>"); }), why);
  Ids more = {1};
  EXPECT_EQ(input_error([&] { tokenizer->encode_more("<|im_start|>", more); }), why);
  tokenizer->limit_to(1000);  // a model with more rows than tokens
  EXPECT_EQ(tokenizer->rows(), tokenizer->vocab_size());
  EXPECT_EQ(tokenizer->encode("line<|im_start|>"), ids);
}

TEST(Tokenizer, ReportsProgressOfALongText) {
  const std::string text(size_t{3} << 20, 'a');
  size_t calls = 0, last = 0;
  Ids ids;
  char_tokenizer("a")->encode_to(text, ids, [&](size_t bytes) {
    EXPECT_GT(bytes, last);
    last = bytes;
    ++calls;
  });
  EXPECT_EQ(ids.size(), text.size());
  EXPECT_EQ(calls, 3u);
}

TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  const auto tokenizer = make_byte_tokenizer();
  StreamDecoder decoder(*tokenizer);
  const std::string smile = "🙂";
  std::string seen;
  for (const char c : smile) {
    EXPECT_EQ(seen, "");
    seen += decoder.push(static_cast<unsigned char>(c));
  }
  EXPECT_EQ(seen, smile);
  EXPECT_EQ(decoder.push(0), "");  // special
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push('b'), "\uFFFDb");
  EXPECT_EQ(decoder.push(0xFF), "\uFFFD");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

// How many ids end at or before each place, and how many begin before it: a token may hold both sides of one.
TEST(Tokenizer, SaysWhichIdsArePartsOfAText) {
  const auto at = [](const Tokenizer& tokenizer, std::string_view text, const std::vector<size_t>& places) {
    std::vector<int32_t> ids;
    std::vector<IdsAt> found;
    tokenizer.encode_at(text, places, ids, found);
    EXPECT_EQ(ids, tokenizer.encode(text));
    std::vector<std::pair<size_t, size_t>> pairs;
    for (const IdsAt& one : found) pairs.emplace_back(one.ended, one.begun);
    return pairs;
  };
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(at(*char_tokenizer("aé"), "éa", {0, 1, 2, 3}), (Pairs{{0, 0}, {0, 1}, {1, 1}, {2, 2}}));
  const auto qwen = tokenizer_with_line_ends();
  // ["a", "\n\n", <|im_end|>]
  EXPECT_EQ(at(*qwen, "a\n\n<|im_end|>", {0, 1, 2, 3, 5, 13}),
            (Pairs{{0, 0}, {1, 1}, {1, 2}, {2, 2}, {2, 3}, {3, 3}}));
  EXPECT_EQ(at(*qwen, "", {0, 0}), (Pairs{{0, 0}, {0, 0}}));
  // A letter and its accent are composed first: one id less.
  EXPECT_EQ(at(*qwen, "e\u0301a", {3, 4}), at(*qwen, "\u00e9a", {2, 3}));
  // A mark for a space stands before the text, and belongs to its first character.
  const auto llama = load_tokenizer(test_file("llama2.tokenizer.json"));
  EXPECT_EQ(at(*llama, "a:", {0, 1, 2}).back(), (std::pair<size_t, size_t>{3, 3}));
}

}  // namespace
}  // namespace hydrac::runtime
