// Specs from someone who wishes us ill, or from a broken disk: an error within a moment, nothing else.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "spec/print.h"
#include "support.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

Kind only_kind(const Loaded& loaded) {
  EXPECT_FALSE(loaded.spec);
  EXPECT_EQ(loaded.diagnostics.all().size(), 1u) << loaded.text();
  return loaded.diagnostics.all().empty() ? Kind::no_effect : loaded.diagnostics.all()[0].kind;
}

Loaded load_file(const std::string& path) {
  Loaded loaded;
  loaded.spec = load_spec(path, {}, loaded.diagnostics);
  return loaded;
}

TEST(Hostile, RefusesAHugeFile) {
  const Folder folder;
  const std::string path = folder.write("spec.yaml", kSmall + std::string((256 << 10) + 1, '#'));
  const Loaded loaded = load_file(path);
  EXPECT_EQ(only_kind(loaded), Kind::file_too_large);
  EXPECT_EQ(loaded.text(),
            path + ": error: " + path + " is larger than 256 KiB, which no spec is [file-too-large]\n");
}

TEST(Hostile, RefusesFoldersDevicesAndMissingFiles) {
  const Folder folder;
  EXPECT_EQ(load_file(folder.path("none.yaml")).text(), folder.path("none.yaml") + ": error: cannot read " +
                                                            folder.path("none.yaml") +
                                                            ": there is no such file [unreadable-file]\n");
  EXPECT_EQ(only_kind(load_file(testing::TempDir())), Kind::unreadable_file);
  EXPECT_EQ(only_kind(load_file("/dev/zero")), Kind::unreadable_file);
}

TEST(Hostile, RefusesBinaryAndEmptyText) {
  EXPECT_EQ(only_kind(load("")), Kind::empty_spec);
  EXPECT_EQ(only_kind(load("\n \n# x\n")), Kind::empty_spec);
  EXPECT_EQ(only_kind(load("{}")), Kind::empty_spec);
  EXPECT_EQ(only_kind(load(std::string("a: b\0c", 6))), Kind::binary_file);
  EXPECT_EQ(only_kind(load("a: \x04")), Kind::binary_file);  // yaml-cpp would take this byte for the end
  EXPECT_EQ(only_kind(load("\xff\xfe\x61")), Kind::binary_file);
}

TEST(Hostile, RefusesBillionsOfLaughs) {
  const std::string laughs =
      "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\ne: &e [*d, *d]\nname: *e\n";
  EXPECT_EQ(only_kind(load(laughs)), Kind::yaml_alias);
}

TEST(Hostile, RefusesDeepNestingWithoutDeepRecursion) {
  for (const std::string unit : {"[", "{a: ", "- ", "? "}) {
    std::string text = "x: ";
    while (text.size() < 300000) text += unit;
    if (unit == "- " || unit == "? ") text = text.substr(3);
    const Loaded loaded = load(text);
    EXPECT_FALSE(loaded.spec) << unit;
    EXPECT_TRUE(loaded.diagnostics.has_errors()) << unit;
  }
}

TEST(Hostile, RefusesListsAndMapsAsKeys) {
  EXPECT_EQ(only_kind(load("? [a, b]\n: c\n")), Kind::yaml_syntax);
  EXPECT_EQ(only_kind(load("{a: b}: c\n")), Kind::yaml_syntax);
}

TEST(Hostile, TakesAMomentForManyKeys) {
  std::string text = kSmall;
  while (text.size() < 200000) text += "key" + std::to_string(text.size()) + ": 1\n";
  const std::clock_t start = std::clock();  // of this process, whatever else the machine does
  const Loaded loaded = load(text);
  EXPECT_FALSE(loaded.spec);
  EXPECT_GT(loaded.text().size(), text.size());  // every key is told
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
}

TEST(Hostile, NamesCannotCarryCode) {
  for (const std::string name :
       {"\"a b\"", "\"a;b\"", "\"a\\nb\"", "'a\"b'", "\"a/b\"", "..", ".a", "-a", "\"a$(b)\""})
    EXPECT_EQ(only_kind(load("name: " + name + kSmall.substr(kSmall.find('\n')))), Kind::bad_name) << name;
}

TEST(Hostile, OutputStaysBelowTheWorkingFolder) {
  for (const std::string dir : {"/etc", "..", "../x", "a/../../b", "a/..", "./..", ".git", "a/.git/hooks",
                                ".github/workflows", "..."})
    EXPECT_EQ(only_kind(load(kSmall + "output: {dir: \"" + dir + "\"}\n")), Kind::unsafe_path) << dir;
  for (const std::string dir : {"runs/x", "a..b", "./runs"})
    EXPECT_EQ(good(kSmall + "output: {dir: \"" + dir + "\"}\n").output.dir, dir);
}

// Any damage to a good spec is reported or harmless; it never crashes, and what loads prints and loads again.
TEST(Hostile, SurvivesRandomDamage) {
  std::mt19937 random(1);
  const std::string whole = read_file(source_dir() / "specs/llama-1b.yaml");
  const std::string marks = "{}[]:,&*!|>'\"%@`#-?\n\t 0.x~\\";
  for (int round = 0; round < 1500; ++round) {
    std::string text = whole;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0) text.erase(at, 1 + random() % 20);
      if (text.empty())
        break;
      else
        text.insert(std::min(at, text.size()), 1, marks[random() % marks.size()]);
    }
    const Loaded loaded = load(text);
    ASSERT_EQ(loaded.spec.has_value(), !loaded.diagnostics.has_errors()) << text;
    if (!loaded.spec) continue;
    const Loaded again = load(to_yaml(*loaded.spec));
    ASSERT_TRUE(again.spec) << again.text();
    ASSERT_EQ(*again.spec, *loaded.spec) << text;
  }
}

}  // namespace
}  // namespace hydrac::spec
