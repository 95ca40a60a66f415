#include "runtime/base/quote.h"

#include <gtest/gtest.h>

namespace hydrac::runtime {
namespace {

// Everything that a terminal acts on: ESC, BEL, DEL, C1's CSI, an override of direction, an isolate, a line
// separator, a byte that is no UTF-8.
constexpr const char* kHarmful = "\x1b[2J\a\x7f\u009b\u202e\u2066\u2028\xff";

TEST(InQuotes, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(in_quotes("layers.0.weight"), R"("layers.0.weight")");
  EXPECT_EQ(in_quotes("a\"\\\n\t"), R"("a\"\\\n\t")");
  EXPECT_EQ(in_quotes(kHarmful), R"("\u001b[2J\u0007\u007f\u009b\u202e\u2066\u2028\ufffd")");
  EXPECT_EQ(in_quotes(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(InQuotes, LeavesWordsOfAllLanguages) {
  EXPECT_EQ(in_quotes("Größe, 大小, \U0001F600"), "\"Größe, 大小, \U0001F600\"");
}

TEST(InQuotes, CutsBetweenCharacters) {
  EXPECT_EQ(in_quotes(std::string(1000, 'x')), "\"" + std::string(120, 'x') + "...\"");
  EXPECT_EQ(in_quotes("éé", 1), "\"é...\"");
  EXPECT_EQ(in_quotes("éé", 2), "\"éé\"");
}

TEST(Escaped, IsInQuotesWithoutThem) {
  EXPECT_EQ(escaped("a \"b\"\x1b", 60), R"(a "b"\u001b)");
  EXPECT_EQ(escaped("abcdef", 3), "abc...");
}

TEST(Printable, KeepsLinesAndReplacesWhatATerminalActsOn) {
  EXPECT_EQ(printable("a\tb\r\nc\u00a0é"), "a\tb\r\nc\u00a0é");
  EXPECT_EQ(printable("\x1b[2J\x7f\u009b\u202e\xff"), "\ufffd[2J\ufffd\ufffd\ufffd\ufffd");
}

TEST(SafeMessage, CutsLongLinesAndKeepsShortOnes) {
  const std::string message = safe_message("first\x1b\n" + std::string(5'000'000, '7') + "\nlast");
  EXPECT_EQ(message, "first\ufffd\n" + std::string(3999, '7') + "...\nlast");
}

TEST(ShellQuoted, IsOneWordThatRunsNothing) {
  EXPECT_EQ(shell_quoted("specs/a-b_1.yaml"), "specs/a-b_1.yaml");
  EXPECT_EQ(shell_quoted("data.path=[a, \"b\"]"), R"('data.path=[a, "b"]')");
  EXPECT_EQ(shell_quoted("a b; touch x; #.yaml"), "'a b; touch x; #.yaml'");
  EXPECT_EQ(shell_quoted("$(x)`y`\\"), "'$(x)`y`\\'");
  EXPECT_EQ(shell_quoted("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_quoted("~"), "'~'");
  EXPECT_EQ(shell_quoted("a\nb"), "'a?b'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(JsonString, IsALiteralOfAllOfIt) {
  EXPECT_EQ(json_string("a\"\\\b\f\n\r\t\x1f\x7fé"), "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u001f\x7fé\"");
}

}  // namespace
}  // namespace hydrac::runtime
