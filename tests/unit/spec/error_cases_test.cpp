// Walks tests/cases/errors: each folder is a spec.yaml (with `args`, one override a line, and other files
// beside it) and the whole text of what is reported about it. HYDRAC_REWRITE_EXPECTED=1 writes expected.txt
// anew, for review.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "support.h"

namespace hydrac::spec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_dir() / "tests/cases/errors"))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Loads a case from inside its folder, so that file names read the same everywhere.
Loaded run_case(const std::string& name) {
  const fs::path before = fs::current_path();
  fs::current_path(source_dir() / "tests/cases/errors" / name);
  Loaded loaded;
  loaded.spec = load_spec("spec.yaml", lines_of(read_file("args")), loaded.diagnostics);
  fs::current_path(before);
  return loaded;
}

class ErrorCase : public testing::TestWithParam<std::string> {};

TEST_P(ErrorCase, ReportsWhatIsExpected) {
  const Loaded loaded = run_case(GetParam());
  const fs::path expected = source_dir() / "tests/cases/errors" / GetParam() / "expected.txt";
  if (std::getenv("HYDRAC_REWRITE_EXPECTED") != nullptr) std::ofstream(expected) << loaded.text();
  EXPECT_EQ(loaded.text(), read_file(expected));
  EXPECT_NE(loaded.text(), "") << "a case that provokes nothing";
  EXPECT_EQ(loaded.spec.has_value(), !loaded.diagnostics.has_errors());
}

INSTANTIATE_TEST_SUITE_P(Cases, ErrorCase, testing::ValuesIn(case_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ErrorCases, ProvokeEveryRegisteredKind) {
  std::set<diag::Kind> provoked = {
      diag::Kind::file_too_large,  // Hostile.RefusesAHugeFile: too large to check in
      // Found when the model's parameters are declared: tests/e2e/error_test.cpp
      diag::Kind::freeze_matches_nothing, diag::Kind::freeze_part, diag::Kind::freeze_everything,
      diag::Kind::adapter_matches_nothing,
      diag::Kind::encoder_unusable,     // found when a run begins: tests/e2e/encoder_test.cpp
      diag::Kind::core_missing,         // of a machine: tests/e2e/ranks/affinity_test.cpp
      diag::Kind::output_not_writable,  // of a machine: tests/e2e/error_test.cpp
      diag::Kind::out_of_memory,        // found by compiling: tests/e2e/memory_test.cpp
      diag::Kind::mix_too_short,        // found with the data: load_test.cpp
      diag::Kind::cache_too_small};     // found when texts are known: tests/e2e/sample_test.cpp
  for (const std::string& name : case_names()) {
    const Loaded loaded = run_case(name);
    for (const diag::Diagnostic& diagnostic : loaded.diagnostics.all()) provoked.insert(diagnostic.kind);
  }
  for (const diag::Kind kind : diag::all_kinds())
    EXPECT_TRUE(provoked.contains(kind)) << id(kind) << " has no case in tests/cases/errors";
}

TEST(ErrorCases, AreNamedAfterTheKindTheyProvoke) {
  for (const std::string& name : case_names()) {
    const Loaded loaded = run_case(name);
    const auto& all = loaded.diagnostics.all();
    const bool named = std::any_of(all.begin(), all.end(),
                                   [&](const diag::Diagnostic& d) { return name.starts_with(id(d.kind)); });
    EXPECT_TRUE(named || name.find("point") != std::string::npos) << name;
  }
}

}  // namespace
}  // namespace hydrac::spec
