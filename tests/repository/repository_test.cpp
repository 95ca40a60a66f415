// The repository against itself. Each test is a script that prints what it finds wrong.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/support/command.h"

namespace hydrac {
namespace {

class Repository : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  }

  static void expect_nothing_found(const std::string& script) {
    const char* given = std::getenv("HYDRAC_PROGRAM");
    const std::string program = given ? given : HYDRAC_BUILT_PROGRAM;
    const auto [code, said] =
        test::run_command("HYDRAC_PROGRAM='" + program +
                          "' CMAKE_CXX_COMPILER_LAUNCHER='" HYDRAC_LAUNCHER "' python3 " + script + " 2>&1");
    EXPECT_EQ(code, 0) << said;
  }
};

TEST_F(Repository, NoRoomIncludesALaterOne) {
  expect_nothing_found("tests/repository/includes.py");
}

TEST_F(Repository, NamesInBackticksExist) {
  expect_nothing_found("tests/repository/names.py");
}

TEST_F(Repository, EveryCommandOfThePagesWorks) {
  expect_nothing_found("tests/repository/commands.py");
}

TEST_F(Repository, TheChartShowsWhatWasMeasured) {
  expect_nothing_found("bench/speed_chart.py --check");
}

TEST_F(Repository, PyTorchPeersReadEverySpecThatIsTimed) {
  expect_nothing_found("tests/repository/peers_test.py");
}

}  // namespace
}  // namespace hydrac
