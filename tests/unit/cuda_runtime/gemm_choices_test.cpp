#include "runtime/cuda/gemm/gemm_choices.h"

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime::cuda {
namespace {

GemmChoice some_choice(std::uint64_t seed) {
  GemmChoice choice;
  for (std::uint64_t& word : choice.algorithm.data) word = seed *= 0x9e3779b97f4a7c15u;
  choice.workspace_bytes = 4096;
  choice.ms = 0.4125;
  choice.candidates = 17;
  return choice;
}

TEST(GemmChoices, AChoiceSurvivesItsText) {
  const GemmChoice choice = some_choice(3);
  const std::string text = to_text(choice);
  EXPECT_EQ(text.substr(128), " 4096 0.4125 17");
  const auto parsed = parse_choice(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(std::equal(choice.algorithm.data, choice.algorithm.data + 8, parsed->algorithm.data));
  EXPECT_EQ(to_text(*parsed), text);
}

TEST(GemmChoices, WhatIsNoChoiceIsNotParsed) {
  const std::string text = to_text(some_choice(3));
  for (std::size_t length = 0; length < 133; ++length)
    EXPECT_FALSE(parse_choice(text.substr(0, length))) << length;
  EXPECT_FALSE(parse_choice(text + " "));
  std::string letters = text;
  letters[40] = 'x';
  EXPECT_FALSE(parse_choice(letters));
}

TEST(GemmChoices, AreThereInTheNextProcess) {
  const test::TempDir folder;
  const auto file = folder / "cache/gemm.txt";
  GemmChoices first(file);
  EXPECT_FALSE(first.find("GPU; a"));
  first.remember("GPU; a", some_choice(1));
  GemmChoices second(file);
  ASSERT_TRUE(second.find("GPU; a"));
  EXPECT_EQ(to_text(*second.find("GPU; a")), to_text(some_choice(1)));
  EXPECT_FALSE(second.find("GPU; b"));
}

TEST(GemmChoices, OfTwoProcessesAreBothKept) {
  const test::TempDir folder;
  GemmChoices first(folder / "gemm.txt"), second(folder / "gemm.txt");
  first.remember("a", some_choice(1));
  second.remember("b", some_choice(2));
  first.remember("c", some_choice(3));
  const GemmChoices all(folder / "gemm.txt");
  EXPECT_EQ(to_text(all.find("a").value()), to_text(some_choice(1)));
  EXPECT_EQ(to_text(all.find("b").value()), to_text(some_choice(2)));
  EXPECT_EQ(to_text(all.find("c").value()), to_text(some_choice(3)));
}

TEST(GemmChoices, ADamagedFileIsAsGoodAsNone) {
  const test::TempDir folder;
  GemmChoices(folder / "gemm.txt").remember("a", some_choice(1));
  std::string text = test::slurp(folder / "gemm.txt");
  text[70] ^= 1;  // another algorithm, which could have been one of the library's
  test::spill(folder / "gemm.txt", text);
  EXPECT_FALSE(GemmChoices(folder / "gemm.txt").find("a"));
}

TEST(GemmChoices, WhatACheckpointRecordsHasNoTime) {
  GemmChoice choice = some_choice(1);
  const std::string text = recorded_text(choice);
  choice.ms = 7;
  choice.candidates = 1;
  EXPECT_EQ(recorded_text(choice), text);
  const auto parsed = parse_recorded(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(recorded_text(*parsed), text);
  EXPECT_TRUE(std::equal(choice.algorithm.data, choice.algorithm.data + 8, parsed->algorithm.data));
  EXPECT_FALSE(parse_recorded(text + " 7"));
  EXPECT_FALSE(parse_recorded(text.substr(0, 128)));
  EXPECT_FALSE(parse_recorded(""));
}

TEST(GemmChoices, WithoutAFileAreRememberedInMemory) {
  GemmChoices choices("");
  choices.remember("a", some_choice(1));
  EXPECT_TRUE(choices.find("a"));
}

}  // namespace
}  // namespace hydrac::runtime::cuda
