#include "tests/e2e/built/built_program.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/support/command.h"

namespace hydrac::e2e {

Outcome shell(const fs::path& folder, const std::string& command) {
  test::CommandOutcome outcome = test::run_command("cd '" + folder.string() + "' && HYDRAC_CACHE='" +
                                                   shared_cache().string() + "' " + command + " 2>&1");
  return {outcome.code, std::move(outcome.output), ""};
}

namespace {

// The installed runtime, once for all tests.
const fs::path& installed_runtime() {
  static const test::TempDir folder;
  static const Outcome installed =
      shell(folder.path(), "cmake --install '" HYDRAC_BINARY_DIR "' --component hydrac-runtime --prefix .");
  EXPECT_EQ(installed.code, 0) << installed.out;
  return folder.path();
}

}  // namespace

void build_emitted(const Workplace& place, const std::string& source) {
  const Outcome configured =
      shell(place.path(), "cmake -S '" + source +
                              "' -B program/build -DCMAKE_CXX_COMPILER=" HYDRAC_COMPILER
                              " -DCMAKE_CXX_COMPILER_LAUNCHER=" HYDRAC_LAUNCHER " -DCMAKE_PREFIX_PATH='" +
                              installed_runtime().string() + "'");
  ASSERT_EQ(configured.code, 0) << configured.out;
  const Outcome built = shell(place.path(), "cmake --build program/build --parallel 2");
  ASSERT_EQ(built.code, 0) << built.out;
}

void build_program(const Workplace& place, const Words& overrides) {
  Words words = {"emit", "base.yaml", "-o", "program", "-q"};
  words.insert(words.end(), overrides.begin(), overrides.end());
  const Outcome emitted = place.run(words);
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  build_emitted(place, "program");
}

void expect_equal_runs(const fs::path& a, const fs::path& b, const std::string& checkpoint,
                       const char* parameters) {
  for (const char* name : {parameters, "optimizer.safetensors", "choices.json"}) {
    const std::string first = test::slurp(a / checkpoint / name);
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, test::slurp(b / checkpoint / name)) << name;
  }
  EXPECT_EQ(without_timing(test::slurp(a / "metrics.jsonl")),
            without_timing(test::slurp(b / "metrics.jsonl")));
}

}  // namespace hydrac::e2e
