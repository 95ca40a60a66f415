// docs/first-hour.md: its commands run in order in an empty folder, as a newcomer would type them, and print
// what the page shows. A fenced block says in its first line what it is:
//   ```sh             runs here
//   ```sh interrupt   runs until it has printed a step, then gets Ctrl-C
//   ```sh install     installs something on the machine: not run here
//   ```python transformers   runs where python3 has the module
//   ```text           what the block above prints: numbers may differ, "..." stands for any lines
//   ```text varies    not compared
#include <gtest/gtest.h>

#include <chrono>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

struct Block {
  std::string kind;  // "sh", "sh install", ...
  std::string text;
  int line = 0;  // of the page
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream lines(page);
  std::string line;
  bool inside = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!line.starts_with("```")) {
      if (inside) blocks.back().text += line + "\n";
      continue;
    }
    inside = !inside;
    if (inside) blocks.push_back({line.substr(3), "", number});
  }
  EXPECT_FALSE(inside) << "a block of the page has no end";
  return blocks;
}

// Numbers differ from run to run and from machine to machine.
std::string without_numbers(const std::string& text) {
  static const std::regex number(R"([0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?([kMGT]| [KMG]iB)?)");
  return std::regex_replace(text, number, "#");
}

// The first line of `shown` that `printed` does not have after the lines before it; nothing if it has all.
std::optional<std::string> not_printed(const std::string& shown, const std::string& printed) {
  std::istringstream expected(shown), actual(printed);
  std::string line, found;
  while (std::getline(expected, line)) {
    if (line == "...") continue;
    do {
      if (!std::getline(actual, found)) return line;
    } while (without_numbers(found) != without_numbers(line));
  }
  return std::nullopt;
}

class Newcomer {
 public:
  // Their `hydrac` is the one under test; quickstart's 700 steps are 20 here.
  Newcomer() {
    const std::string program = hydrac_program();
    fs::create_directories(place_ / "bin");
    fs::create_directories(home());
    spill(place_ / "bin/hydrac", "#!/bin/sh\ncase $1 in\n  quickstart) exec " + program +
                                     " \"$@\" train.max_steps=20 ;;\n  *) exec " + program +
                                     " \"$@\" ;;\nesac\n");
    fs::permissions(place_ / "bin/hydrac", fs::perms::owner_all);
  }

  // What the commands print, with what the page does not show; their exit code in `code`.
  std::string run(const Block& block, int& code) const {
    spill(place_ / "block.sh", "set -euo pipefail\nexec >output.txt 2>&1\nexport PATH=\"" +
                                   (place_ / "bin").string() + ":$PATH\" HYDRAC_CACHE=\"" +
                                   shared_cache().string() +
                                   "\" CMAKE_CXX_COMPILER_LAUNCHER=\"" HYDRAC_LAUNCHER
                                   "\" CCACHE_BASEDIR=\"$PWD\" CCACHE_NOHASHDIR=1\ncd work\n" +
                                   commands_of(block));
    const int status = std::system(("cd '" + place_.path().string() + "' && bash block.sh").c_str());
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return slurp(place_ / "output.txt");
  }

 private:
  fs::path home() const { return place_ / "work"; }

  static std::string commands_of(const Block& block) {
    if (block.kind == "python transformers") return "python3 - <<'END'\n" + block.text + "END\n";
    if (block.kind != "sh interrupt") return block.text;
    // With job control, for without it what runs in the background ignores Ctrl-C. Its first step is seen as
    // it is printed: no busy machine lets the run end before.
    return "set -m\nmkfifo printed\n" + block.text.substr(0, block.text.size() - 1) +
           " >printed 2>&1 &\nrun=$! code=0\n"
           "while IFS= read -r line; do\n"
           "  printf '%s\\n' \"$line\"\n"
           "  if [[ $line == 'step '* && -n $run ]]; then kill -INT $run; run=; fi\n"
           "done <printed\n"
           "wait $! || code=$?\nrm printed\n[[ $code == 4 ]]\n";
  }

  test::TempDir place_;
};

bool python_has(const std::string& module) {
  return std::system(("python3 -c 'import torch, " + module + "' >/dev/null 2>&1").c_str()) == 0;
}

TEST(FirstHour, EveryCommandOfThePageWorksAndPrintsWhatItShows) {
  const std::vector<Block> blocks = blocks_of(slurp(hydrac::test::source_dir() + "/docs/first-hour.md"));
  const Newcomer newcomer;
  std::string printed, skipped;
  int run = 0;
  for (const Block& block : blocks) {
    SCOPED_TRACE("docs/first-hour.md:" + std::to_string(block.line) + "\n" + block.text);
    if (block.kind == "sh" || block.kind == "sh interrupt" ||
        (block.kind == "python transformers" && python_has("transformers"))) {
      int code = -1;
      printed = newcomer.run(block, code);
      ASSERT_EQ(code, 0) << printed;
      ++run;
    } else if (block.kind == "text") {
      const std::optional<std::string> missing = not_printed(block.text, printed);
      EXPECT_EQ(missing, std::nullopt) << "was not printed: " << missing.value_or("") << "\nbut:\n"
                                       << printed;
    } else if (block.kind == "python transformers") {
      skipped += " line " + std::to_string(block.line);
    } else {
      EXPECT_TRUE(block.kind == "sh install" || block.kind == "text varies" || block.kind == "yaml")
          << "no block is \"" << block.kind << "\"";
    }
  }
  EXPECT_GE(run, 10);
  if (!skipped.empty()) GTEST_SKIP() << "all other blocks passed; python3 has no transformers for" << skipped;
}

}  // namespace
}  // namespace hydrac::e2e
