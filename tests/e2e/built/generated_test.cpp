// The programs of generated/: that they are current, and that people can read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

fs::path root() {
  return hydrac::test::source_dir();
}

// generated/ holds what hydrac emits today; `./dev generate` brings it there.
TEST(Generated, IsWhatHydracEmitsToday) {
  const std::vector<Words> programs = {
      {"specs/gpt2-124m.yaml", "generated/gpt2-124m-h200"},
      {"specs/shakespeare-char.yaml", "generated/shakespeare-char-cpu", "target=cpu", "model.vocab_size=65",
       "optimizations.precision=fp32", "optimizations.loss=materialized", "optimizations.threads=8"},
      {"specs/chatgot-small-char.yaml", "generated/chatgot-small-char-gtx1650ti", "model.vocab_size=128"},
  };
  for (const Words& program : programs) {
    const Outcome outcome = Process(hydrac::test::source_dir(), with({"diff"}, program)).finish();
    EXPECT_EQ(outcome.code, 0) << program[1];
    EXPECT_EQ(outcome.out, "") << program[1];
  }
}

bool is_code(const fs::path& file) {
  const Words kinds = {".cpp", ".cu", ".cuh", ".h"};
  return std::ranges::find(kinds, file.extension().string()) != kinds.end();
}

// Lines that are neither blank nor comments.
std::vector<std::string> code_of(const fs::path& file) {
  std::istringstream text(slurp(file));
  std::vector<std::string> code;
  for (std::string line; std::getline(text, line);) {
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.compare(first, 2, "//") != 0) code.push_back(line);
  }
  return code;
}

// The lines of the longest function of formatted code, and the line that it begins with. A function ends with
// a brace of its own line; what lies within is indented, but for pragmas.
std::pair<size_t, std::string> longest_function(const std::vector<std::string>& code) {
  std::pair<size_t, std::string> longest;
  size_t begin = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] == "}") longest = std::max(longest, {i - begin + 1, code[begin]});
    if (code[i][0] != ' ' && code[i][0] != '#' && code[i][0] != '}') begin = i;
  }
  return longest;
}

// All but the tables: addresses, and what stands in files named *.inc.
TEST(Generated, Gpt2HasFewerThan3000LinesOfCodeAndNoLongKernel) {
  size_t lines = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root() / "generated/gpt2-124m-h200")) {
    if (!is_code(entry.path()) || entry.path().filename() == "memory.h") continue;
    const std::vector<std::string> code = code_of(entry.path());
    lines += code.size();
    const auto [longest, head] = longest_function(code);
    EXPECT_LE(longest, 150u) << entry.path() << ": " << head;
  }
  EXPECT_GT(lines, 2000u);
  EXPECT_LT(lines, 3000u);
}

}  // namespace
}  // namespace hydrac::e2e
