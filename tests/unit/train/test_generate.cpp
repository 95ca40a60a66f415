#include <gtest/gtest.h>

#include <csignal>

#include "runtime/log/signal.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "runtime/train/generation/stop_strings.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;

class Generate : public testing::Test {
 protected:
  // The text, with the number of tokens drawn in `drawn`.
  std::string text(const Tokenizer& tokenizer, const GenerateOptions& options) {
    std::string text;
    drawn = generate(program, tokenizer, options, [&](std::string_view piece) { text += piece; });
    return text;
  }
  FakeProgram program;
  int64_t drawn = 0;
  const std::unique_ptr<Tokenizer> bytes = make_byte_tokenizer();
  GenerateOptions options{"ab", 20, {}, {}};
};

TEST_F(Generate, TheSameSeedGivesTheSameTextAnotherAnother) {
  program.favourite = -1000;
  const std::string once = text(*bytes, options);
  EXPECT_EQ(drawn, 20);
  EXPECT_EQ(text(*bytes, options), once);
  options.sampling.seed = 1;
  EXPECT_NE(text(*bytes, options), once);
}

TEST_F(Generate, TheModelSeesAWindowThatSlides) {
  program.favourite = -1000;
  options.max_new_tokens = 6;
  text(*bytes, options);
  std::vector<size_t> lengths;
  for (const auto& prompt : program.prompts) lengths.push_back(prompt.size());
  EXPECT_EQ(lengths, (std::vector<size_t>{2, 3, 4, 5, 5, 5}));
  EXPECT_EQ(program.prompts[0], (std::vector<int32_t>{'a', 'b'}));
  for (size_t i = 4; i < 6; ++i) {
    EXPECT_TRUE(std::equal(program.prompts[i].begin(), program.prompts[i].end() - 1,
                           program.prompts[i - 1].begin() + 1));
  }
  options.prompt = "0123456789";
  options.max_new_tokens = 1;
  text(*bytes, options);
  EXPECT_EQ(program.prompts.back(), (std::vector<int32_t>{'5', '6', '7', '8', '9'}));
}

TEST_F(Generate, WhatComesOutAreWholeCharacters) {
  program.favourite = -1000;
  options.max_new_tokens = 200;
  std::string text;
  generate(program, *bytes, options, [&](std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    EXPECT_NE(static_cast<unsigned char>(piece[0]) & 0xc0, 0x80) << "begins within a character";
    text += piece;
  });
  EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos) << "random bytes hold malformed ones";
}

TEST_F(Generate, EndsAtEndOfText) {
  program.favourite = 1000;
  EXPECT_EQ(text(*bytes, options), "");
  EXPECT_EQ(drawn, 1);
}

TEST_F(Generate, NoTokenBeyondTheTokenizersVocabularyIsDrawn) {
  options.sampling.temperature = 0;  // the model's favourites are the ids from 256 on
  EXPECT_NO_THROW(text(*bytes, options));
}

TEST_F(Generate, AnEmptyPromptBeginsADocument) {
  const auto prompt_of = [](const std::string& corpus) {
    return prompt_ids(*make_char_tokenizer([&](const TextVisitor& visit) { visit(corpus); }), {});
  };
  EXPECT_EQ(prompt_ids(*bytes, {}), std::vector<int32_t>{0}) << "end_of_text";
  EXPECT_EQ(prompt_of("\tab\n"), std::vector<int32_t>{1}) << "the line break";
  EXPECT_EQ(prompt_of("ab"), std::vector<int32_t>{0}) << "neither";
}

TEST_F(Generate, OptionsOutOfRangeAreErrors) {
  options.sampling.top_p = 0;
  EXPECT_EQ(message_of<InputError>([&] { text(*bytes, options); }),
            "top_p is 0; it must be above 0 and at most 1 (all tokens)");
}

TEST_F(Generate, ASignalEndsTheText) {
  program.favourite = -1000;
  install_stop_handlers();
  drawn = generate(program, *bytes, options, [&](std::string_view) {
    if (program.prompts.size() >= 5 && !stop_requested()) std::raise(SIGINT);
  });
  install_stop_handlers();
  EXPECT_GE(drawn, 5);
  EXPECT_LT(drawn, 20);
}

TEST_F(Generate, EndsBeforeAStopStringThatComesInPieces) {
  program.favourite = -1000;
  options.max_new_tokens = 30;
  const std::string all = text(*bytes, options);
  options.stop = {"never there", all.substr(10, 4), all.substr(12, 5)};
  const size_t first = std::min(all.find(options.stop[1]), all.find(options.stop[2]));
  EXPECT_EQ(text(*bytes, options), all.substr(0, first));
  options.stop = {all.substr(28) + "and more"};
  EXPECT_EQ(text(*bytes, options), all) << "its beginning is held back, and comes at the end";
  options.stop = {""};
  EXPECT_EQ(message_of<InputError>([&] { text(*bytes, options); }),
            "stop holds an empty text, which every text would end before");
}

// Special tokens are not shown, and yet a stop string may name one.
TEST(StopStrings, SeeSpecialTokens) {
  StopStrings stops({"<|im_end|>", "ab<|x|>c"});
  EXPECT_TRUE(stops.name("<|im_end|>"));
  EXPECT_TRUE(stops.name("<|x|>"));
  EXPECT_FALSE(stops.name("<|y|>"));
  EXPECT_EQ(stops.push("zab"), "z");
  EXPECT_EQ(stops.push("<|x|>", false), "");
  EXPECT_EQ(stops.push("d"), "abd") << "it is not the stop string, and its special token is not shown";
  EXPECT_EQ(stops.push("e"), "e");
  EXPECT_EQ(stops.push("<|im_end|>", false), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.finish(), "");
}

TEST_F(Generate, ManyTextsEndEachForItself) {
  program.favourite = -1000;
  const std::vector<TextRequest> requests = {{{'a', 'b'}, 3}, {{'x'}, 4}, {{'a', 'b'}, 3}};
  std::vector<std::string> pieces(3);
  std::vector<Reply> replies(3);
  TextEvents events;
  events.on_text = [&](size_t request, std::string_view piece) { pieces[request] += piece; };
  events.on_end = [&](size_t request, const Reply& reply) { replies[request] = reply; };
  options.max_new_tokens = 9;
  const GenerateCounts counts = generate_batch(program, *bytes, requests, options, events);
  EXPECT_EQ(counts.prompt_tokens, 5);
  EXPECT_EQ(counts.new_tokens, 27);
  EXPECT_EQ(counts.decode_steps, 0) << "the program has no cache";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(replies[i].text, pieces[i]);
    EXPECT_EQ(replies[i].end, TextEnd::length);
  }
  EXPECT_EQ(pieces[0], pieces[2]);
  EXPECT_NE(pieces[0], pieces[1]);
}

}  // namespace
}  // namespace hydrac::runtime
