// Diffs of lines: what they show, and that they are right and as short as possible.
#include "emit/folder/line_diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hydrac::emit {
namespace {

std::string text_of(const std::vector<Hunk>& hunks) {
  std::string text;
  for (const Hunk& hunk : hunks) {
    text += header_of(hunk) + "\n";
    for (const DiffLine& line : hunk.lines) (text += line.mark) += line.text;
  }
  return text;
}

TEST(LineDiff, ShowsChangesWithThreeLinesAround) {
  EXPECT_EQ(text_of(line_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  EXPECT_EQ(text_of(line_diff("same\n", "same\n")), "");
  EXPECT_EQ(text_of(line_diff("", "new\n")), "@@ -0,0 +1,1 @@\n+new\n");
  EXPECT_EQ(text_of(line_diff("old\n", "")), "@@ -1,1 +0,0 @@\n-old\n");
}

TEST(LineDiff, JoinsChangesThatAreCloseAndSeparatesOthers) {
  EXPECT_EQ(line_diff("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n").size(), 1u);
  EXPECT_EQ(text_of(line_diff("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n")),
            "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

TEST(LineDiff, TellsALineThatLacksItsEnd) {
  EXPECT_EQ(text_of(line_diff("a\nb", "a\nb\n")), "@@ -1,2 +1,2 @@\n a\n-b+b\n");
}

// The length of the longest common subsequence, by the textbook's table.
size_t common(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : std::max(best[i - 1][j], best[i][j - 1]);
    }
  }
  return best[a.size()][b.size()];
}

// Applies hunks as `patch` does: by their line numbers, comparing what they say is there.
std::string patched(const std::string& letters, const std::vector<Hunk>& hunks) {
  std::string result;
  size_t at = 0;
  for (const Hunk& hunk : hunks) {
    result += letters.substr(at, hunk.old_begin - at);
    EXPECT_EQ(result.size(), hunk.new_begin);
    at = hunk.old_begin;
    for (const DiffLine& line : hunk.lines) {
      if (line.mark != '+') {
        EXPECT_EQ(letters.at(at++), line.text[0]);
      }
      if (line.mark != '-') result += line.text[0];
    }
    EXPECT_EQ(at, hunk.old_begin + hunk.old_lines);
    EXPECT_EQ(result.size(), hunk.new_begin + hunk.new_lines);
  }
  return result + letters.substr(at);
}

TEST(LineDiff, IsRightAndAsShortAsPossible) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto letters = [&] {
      std::string text(random() % 30, 'a');
      for (char& letter : text) letter += static_cast<char>(random() % (2 + round % 6));
      return text;
    };
    const auto lines = [](const std::string& text) {
      std::string result;
      for (char letter : text) (result += letter) += '\n';
      return result;
    };
    const std::string a = letters(), b = letters(), a_lines = lines(a), b_lines = lines(b);
    const std::vector<Hunk> hunks = line_diff(a_lines, b_lines);
    EXPECT_EQ(patched(a, hunks), b) << a << " to " << b;
    size_t edits = 0;
    for (const Hunk& hunk : hunks)
      edits += static_cast<size_t>(
          std::ranges::count_if(hunk.lines, [](const DiffLine& line) { return line.mark != ' '; }));
    EXPECT_EQ(edits, a.size() + b.size() - 2 * common(a, b)) << a << " to " << b;
  }
}

}  // namespace
}  // namespace hydrac::emit
