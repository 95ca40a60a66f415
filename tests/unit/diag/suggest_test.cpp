#include "diag/suggest.h"

#include <gtest/gtest.h>

#include <vector>

#include "diag/utf8.h"

namespace hydrac::diag {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("traget", "target"), 1u);
  EXPECT_EQ(edit_distance("abcd", "badc"), 2u);
}

TEST(EditDistance, IgnoresCaseAndTheKindOfDash) {
  EXPECT_EQ(edit_distance("Max-Steps", "max_steps"), 0u);
}

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> known = {"hidden_size", "hidden_act", "head_dim"};
  EXPECT_EQ(nearest("hiden_size", known), "hidden_size");
  EXPECT_EQ(nearest("head-dim", known), "head_dim");
}

TEST(Nearest, PrefersTheSameBeginning) {
  EXPECT_EQ(nearest("f16", std::vector<std::string>{"bf16", "fp16"}), "fp16");
}

TEST(Nearest, DoesNotProposeAnotherWord) {
  const auto proposed = [](const char* word, const char* known) {
    return nearest(word, std::vector<std::string>{known}) == known;
  };
  EXPECT_FALSE(proposed("relu", "relu2"));
  EXPECT_FALSE(proposed("relu", "gelu"));
  EXPECT_FALSE(proposed("rtx5080", "rtx5090"));
  EXPECT_FALSE(proposed("qlora", "lora"));
  EXPECT_FALSE(proposed("flash_attention", "fp8_attention"));
  EXPECT_FALSE(proposed("min_steps", "max_steps"));
  EXPECT_TRUE(proposed("mxa_steps", "max_steps"));
  EXPECT_TRUE(proposed("amx_steps", "max_steps"));
  EXPECT_TRUE(proposed("maxsteps", "max_steps"));
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  const std::vector<std::string> known = {"hidden_size", "x"};
  EXPECT_EQ(nearest("optimizer", known), "");
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest("q", known), "");  // everything of one letter is one edit away
  EXPECT_EQ(nearest(std::string(100000, 'a'), known), "");
}

TEST(OneOf, ReadsAsASentence) {
  EXPECT_EQ(one_of(std::vector<std::string>{}), "");
  EXPECT_EQ(one_of(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(one_of(std::vector<std::string>{"a", "b"}), "a or b");
  EXPECT_EQ(one_of(std::vector<std::string>{"a", "b", "c"}), "a, b or c");
}

TEST(Utf8, MeasuresWellFormedCharacters) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xc3\xa9"), 2u);
  EXPECT_EQ(utf8_length("\xe2\x82\xac"), 3u);
  EXPECT_EQ(utf8_length("\xf0\x9f\x98\x80"), 4u);
}

TEST(Utf8, RefusesWhatIsNone) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("\x80"), 0u);              // a continuation byte
  EXPECT_EQ(utf8_length("\xc3"), 0u);              // cut off
  EXPECT_EQ(utf8_length("\xc0\xaf"), 0u);          // longer than needed
  EXPECT_EQ(utf8_length("\xe0\x80\xaf"), 0u);      // longer than needed
  EXPECT_EQ(utf8_length("\xed\xa0\x80"), 0u);      // a surrogate
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80"), 0u);  // beyond Unicode
  EXPECT_EQ(utf8_length("\xff"), 0u);
  EXPECT_EQ(utf8_error("ab\xff"), 2u);
  EXPECT_EQ(utf8_error("ab\xc3\xa9"), std::string_view::npos);
}

}  // namespace
}  // namespace hydrac::diag
