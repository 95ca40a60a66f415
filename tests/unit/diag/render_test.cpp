#include "diag/render.h"

#include <gtest/gtest.h>

namespace hydrac::diag {
namespace {

Diagnostic at(int line, int col, std::string suggestion = "") {
  return {Kind::heads_divide_width, {"spec.yaml", line, col}, "it does not fit", std::move(suggestion)};
}

TEST(Render, ShowsPlaceMessageKindLineCaretAndHelp) {
  EXPECT_EQ(render(at(3, 5, "write 8"), "abc: 10"),
            "spec.yaml:3:5: error: it does not fit [heads-divide-width]\n"
            "  abc: 10\n"
            "      ^\n"
            "  help: write 8\n");
}

TEST(Render, LeavesOutWhatThereIsNotToShow) {
  EXPECT_EQ(render(at(3, 5), ""), "spec.yaml:3:5: error: it does not fit [heads-divide-width]\n");
  EXPECT_EQ(render({Kind::no_effect, {}, "in vain", ""}, ""), "warning: in vain [no-effect]\n");
  EXPECT_EQ(render({Kind::unreadable_file, {"a.yaml", 0, 0}, "cannot read a.yaml", ""}, ""),
            "a.yaml: error: cannot read a.yaml [unreadable-file]\n");
}

TEST(Render, CountsTheCaretInCharactersAndTheColumnInBytes) {
  EXPECT_EQ(render(at(1, 6), "\xc3\xa9\xe2\x82\xac=x"),  // e acute (2 bytes), euro (3 bytes), then byte 6
            "spec.yaml:1:6: error: it does not fit [heads-divide-width]\n"
            "  \xc3\xa9\xe2\x82\xac=x\n"
            "    ^\n");
}

TEST(Render, NeverSendsControlBytesToTheTerminal) {
  EXPECT_EQ(render(at(1, 3), "a\x1b[2Jb\tc\x80"),
            "spec.yaml:1:3: error: it does not fit [heads-divide-width]\n"
            "  a?[2Jb c?\n"
            "    ^\n");
}

TEST(Render, ShowsAWindowOfALongLine) {
  const std::string line = std::string(200, 'a') + "X" + std::string(200, 'b');
  EXPECT_EQ(render(at(1, 201), line), "spec.yaml:1:201: error: it does not fit [heads-divide-width]\n  ..." +
                                          std::string(60, 'a') + "X" + std::string(39, 'b') + "...\n" +
                                          std::string(65, ' ') + "^\n");
}

TEST(Printable, CutsAndCleansText) {
  EXPECT_EQ(printable("short"), "short");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable(std::string_view("a\0b\n", 4)), "a\\u0000b\\n");
}

TEST(Diagnostics, RendersInTheOrderOfFilesLinesAndColumns) {
  Diagnostics diagnostics;
  diagnostics.add_source("b.yaml", "one\r\ntwo\r\n");
  diagnostics.add_source("a.yaml", "alpha\n");
  diagnostics.report(Kind::no_effect, {"a.yaml", 1, 1}, "fourth");
  diagnostics.report(Kind::unknown_key, {"b.yaml", 2, 2}, "third");
  diagnostics.report(Kind::unknown_key, {"b.yaml", 1, 3}, "second");
  diagnostics.report(Kind::unknown_key, {"b.yaml", 1, 1}, "first");
  EXPECT_EQ(diagnostics.render(),
            "b.yaml:1:1: error: first [unknown-key]\n  one\n  ^\n"
            "b.yaml:1:3: error: second [unknown-key]\n  one\n    ^\n"
            "b.yaml:2:2: error: third [unknown-key]\n  two\n   ^\n"
            "a.yaml:1:1: warning: fourth [no-effect]\n  alpha\n  ^\n");
}

TEST(Diagnostics, CountsErrorsAndNotWarnings) {
  Diagnostics diagnostics;
  diagnostics.report(Kind::no_effect, {}, "a warning");
  EXPECT_FALSE(diagnostics.has_errors());
  diagnostics.report(Kind::unknown_key, {}, "an error");
  EXPECT_TRUE(diagnostics.has_errors());
  EXPECT_EQ(diagnostics.errors(), 1u);
  EXPECT_EQ(diagnostics.all().size(), 2u);
}

TEST(Diagnostics, QuotesNothingBeyondTheSource) {
  Diagnostics diagnostics;
  diagnostics.add_source("a.yaml", "only line");
  EXPECT_EQ(diagnostics.source_line({"a.yaml", 1, 50}), "only line");
  EXPECT_EQ(diagnostics.source_line({"a.yaml", 2, 1}), "");
  EXPECT_EQ(diagnostics.source_line({"unknown.yaml", 1, 1}), "");
}

}  // namespace
}  // namespace hydrac::diag
