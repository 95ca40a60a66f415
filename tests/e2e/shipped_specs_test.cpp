// The specs that hydrac ships: each says in its first lines how to see it run on what the repository has, and
// what it says works.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

// Words of a command in a page: between spaces, without quotes; a comment ends it.
Words words_of(std::string command) {
  std::erase(command, '\'');
  Words words;
  std::istringstream in(command.substr(0, command.find(" # ")));
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The last command of the comment that a spec begins with, from "hydrac" on left out.
Words own_example(const fs::path& spec) {
  const std::string begin = "#   hydrac ";
  std::ifstream file(spec);
  std::string command;
  for (std::string line; std::getline(file, line) && line.starts_with("#");)
    if (line.starts_with(begin)) command = line.substr(begin.size());
  return words_of(command);
}

TEST(ShippedSpecs, SayHowToSeeThemRunOnWhatIsThere) {
  const Workplace place;
  for (const char* name : {"README.md", "compiler", "docs", "examples", "runtime", "specs"})
    fs::create_directory_symlink(fs::path(hydrac::test::source_dir()) / name, place / name);
  int specs = 0;
  for (const auto& entry : fs::directory_iterator(hydrac::test::source_dir() + "/specs")) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const Words example = own_example(entry.path());
    ASSERT_FALSE(example.empty());
    const bool is_series = entry.path().stem().string().starts_with("series");
    Words command = {is_series ? "run" : "data"};
    if (!is_series) command.push_back("show");
    command.insert(command.end(), example.begin(), example.end());
    if (is_series)
      command.insert(command.end(),
                     {"train.max_steps=2", "train.lr_scheduler.warmup_steps=0", "model.hidden_size=32",
                      "model.intermediate_size=64", "model.num_hidden_layers=1",
                      "output.dir=" + entry.path().stem().string()});
    else
      command.insert(command.end(), {"-n", "1"});
    const Outcome outcome = place.run(command);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    // The resolved spec is a spec that is accepted.
    const Outcome check = place.run(with({"check", "-v"}, example));
    EXPECT_EQ(check.code, 0) << check.err;
    EXPECT_EQ(check.err.find("warning"), std::string::npos) << check.err;
    test::spill(place / "resolved.yaml", check.out);
    const Outcome again = place.run({"check", "-v", "resolved.yaml"});
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(again.out, check.out);
    ++specs;
  }
  EXPECT_GE(specs, 10);
}

// Keys that the page's tables name in full, and the presets.
TEST(Recipes, NameKeysAndFilesThatAreThere) {
  const Workplace place;
  const std::string page = test::slurp(hydrac::test::source_dir() + "/docs/recipes.md"),
                    keys = place.run({"schema"}).out;
  const std::regex key("`((?:model|train|data|optimizations|objective|parallel)(?:\\.[a-z_0-9]+)+)");
  int found = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), key), end; match != end; ++match, ++found) {
    std::istringstream parts((*match)[1]);
    for (std::string part; std::getline(parts, part, '.');)
      EXPECT_NE(keys.find("\"" + part + "\""), std::string::npos) << (*match)[1];
  }
  EXPECT_GE(found, 20);
  const std::regex file("presets/[a-z0-9-]+\\.yaml|bench/[a-z_]+\\.py|tests/[a-z0-9_/]+\\.py");
  for (std::sregex_iterator match(page.begin(), page.end(), file), end; match != end; ++match) {
    const std::string name = match->str();
    const std::string folder = name.starts_with("presets") ? "/specs/" : "/";
    EXPECT_TRUE(fs::exists(hydrac::test::source_dir() + folder + name)) << name;
  }
}

// Those of benchmarks, on a machine without their data and GPU: they say all sizes themselves.
TEST(BenchSpecs, ArePlannedWithoutDataAndGpu) {
  const Workplace place;
  int specs = 0;
  for (const char* folder : {"/bench/specs", "/bench/fresh"}) {
    for (const auto& entry : fs::directory_iterator(hydrac::test::source_dir() + folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".yaml") || name.ends_with(".lock.yaml")) continue;
      const Outcome outcome = place.run({"check", entry.path().string(), "target=h100", "--lock", "none"});
      EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
      ++specs;
    }
  }
  EXPECT_GE(specs, 20);
}

}  // namespace
}  // namespace hydrac::e2e
