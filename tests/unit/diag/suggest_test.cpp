#include "diag/suggest.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace hydrac::diag
