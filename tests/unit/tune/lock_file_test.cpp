// SPEC.lock.yaml: printed and read again, found for a machine, and refused with a place where it is wrong.
#include "tune/lock_file.h"

#include <gtest/gtest.h>

#include "tune/machine.h"

namespace hydrac::tune {
namespace {

TEST(Machine, SaysWhatOthersDoWithItsGpu) {
  EXPECT_EQ(used_by_others(0, int64_t{600} << 20), "") << "a desktop";
  EXPECT_EQ(used_by_others(37, 0), "") << "of a process that has ended";
  EXPECT_EQ(used_by_others(37, int64_t{12} << 30), "12.0 GiB of its memory and 37% of its time");
}

LockSection section_on(const std::string& name) {
  LockSection section;
  section.machine = {{"target", "cpu"}, {"name", name}, {"cores", "8"}};
  section.software = {{"driver", "580.65.06"}};
  section.measured = {{"step_ms", "12.5"}, {"planned_bytes", "123456"}};
  section.keys = {locked_key("optimizations.recompute", "[norm, act]"),
                  locked_key("optimizations.threads", "4")};
  section.choices.set("blas", "library", "onednn");
  section.choices.set("cublaslt", "512x768x3072 A^T bf16*bf16->f32 beta=1", "00ff 1024");
  section.spec = {{"model.hidden_size", "768"}, {"optimizations.recompute", "none"}};
  return section;
}

LockFile parsed(const std::string& text) {
  diag::Diagnostics diagnostics;
  std::optional<LockFile> lock = parse_lock("a.lock.yaml", text, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  return lock.value_or(LockFile{});
}

// What is said of a text that is no lock file.
std::string refusal(const std::string& text) {
  diag::Diagnostics diagnostics;
  EXPECT_FALSE(parse_lock("a.lock.yaml", text, diagnostics));
  EXPECT_TRUE(diagnostics.has_errors());
  return diagnostics.render();
}

TEST(LockFile, StandsBesideItsSpec) {
  EXPECT_EQ(lock_path("specs/a.yaml"), "specs/a.lock.yaml");
  EXPECT_EQ(lock_path("a.yml"), "a.lock.yaml");
}

TEST(LockFile, IsReadAsItWasWritten) {
  LockFile lock;
  put(lock, section_on("Xeon @ 2.90GHz"));
  put(lock, section_on("EPYC: 9754"));
  const std::string text = to_yaml(lock, "a.yaml");
  const LockFile again = parsed(text);
  ASSERT_EQ(again.sections.size(), 2u);
  EXPECT_EQ(to_yaml(again, "a.yaml"), text) << "stable";
  EXPECT_EQ(again.sections[0].machine, lock.sections[0].machine);
  EXPECT_EQ(again.sections[0].choices, lock.sections[0].choices);
  EXPECT_EQ(again.sections[1].spec, lock.sections[1].spec);
  EXPECT_EQ(again.sections[0].keys[0].text, "[norm, act]");
}

TEST(LockFile, HasASectionForEachMachine) {
  LockFile lock;
  put(lock, section_on("a"));
  put(lock, section_on("b"));
  LockSection better = section_on("a");
  better.keys = {locked_key("optimizations.threads", "8")};
  put(lock, better);
  ASSERT_EQ(lock.sections.size(), 2u);
  EXPECT_EQ(section_of(lock, better.machine)->keys[0].text, "8");
  EXPECT_EQ(section_of(lock, {{"target", "cpu"}, {"name", "a"}, {"cores", "4"}}), nullptr);
  EXPECT_EQ(section_for(lock, "cpu"), lock.sections.data());
  EXPECT_EQ(section_for(lock, "h100"), nullptr);
}

TEST(LockFile, LaysItsKeysOverASpec) {
  const spec::Node root = as_spec(section_on("a"));
  const spec::Entry* optimizations = root.find("optimizations");
  ASSERT_NE(optimizations, nullptr);
  EXPECT_EQ(optimizations->value.find("threads")->value.text, "4");
  EXPECT_EQ(optimizations->value.find("recompute")->value.items.size(), 2u);
}

TEST(LockFile, SaysWhatChanged) {
  EXPECT_EQ(changes(std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}, {"gone", "3"}},
                    {{"a", "1"}, {"b", "4"}}),
            std::vector<std::string>{"b: 2 then, 4 now"});
  EXPECT_EQ(changes(Facts{{"driver", "1"}}, Facts{{"driver", "2"}, {"cuda", "13.0"}}),
            std::vector<std::string>{"driver: 1 then, 2 now"});
}

// Only what changes speed and memory; nothing that a run reads, writes or computes.
TEST(LockFile, SetsNoOtherKeys) {
  const std::string text = refusal(
      "hydrac_lock: 1\nsections:\n  - machine: {target: cpu}\n    spec: {}\n    keys:\n"
      "      output.dir: /etc\n      train.seed: 3\n");
  EXPECT_NE(text.find("a.lock.yaml:6:7: error: a lock file cannot set output.dir [unknown-key]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("a.lock.yaml:7:7: error: a lock file cannot set train.seed"), std::string::npos)
      << text;
}

TEST(LockFile, IsRefusedWithAPlace) {
  const std::string machine = "hydrac_lock: 1\nsections:\n  - machine: {target: cpu}\n    spec: {}\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"hydrac_lock: 2\nsections: []\n", "1:14: error: hydrac_lock is the number 2"},
      {"sections: []\n", "1:1: error: hydrac_lock is missing"},
      {"hydrac_lock: 1\n", "1:1: error: sections is missing"},
      {"hydrac_lock: 1\nsections: 3\n", "2:11: error: sections takes a list"},
      {"hydrac_lock: 1\nsections:\n  - 5\n", "3:5: error: a section takes a map"},
      {"hydrac_lock: 1\nsections:\n  - {spec: {}}\n", "3:5: error: machine is missing"},
      {"hydrac_lock: 1\nsections:\n  - machine: {name: x}\n    spec: {}\n", "error: target is missing"},
      {machine + "    keys: 7\n", "5:11: error: keys takes a map"},
      {machine + "    choices: {blas: 7}\n", "5:21: error: blas takes a map"},
      {machine + "    measured: {step_ms: fast}\n", "5:25: error: step_ms takes a number"},
      {machine + "    extra: 1\n", "5:5: error: there is no key extra in a section"},
      {machine + "    spec: {}\n", "5:5: error: spec is written twice"},
      {machine + "  - machine: {target: cpu}\n    spec: {}\n",
       "5:5: error: two sections are for the same machine"},
      {machine + "top: 1\n", "5:1: error: there is no key top in a lock file"},
      {"- 1\n", "1:1: error: a spec is a map of keys"},
      {"hydrac_lock: &a 1\n", "error: anchors"},
      {"hydrac_lock: 1\nsections: [\n", "error: this is no YAML"},
      {std::string("hydrac_lock: \x01\n"), "error: this is no text file"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_NE(refusal(text).find(message), std::string::npos) << refusal(text);
}

}  // namespace
}  // namespace hydrac::tune
