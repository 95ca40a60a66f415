// The repository against itself. Each test is a script that prints what it finds wrong.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace hydrac {
namespace {

class Repository : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  }

  // The script prints as it goes, so that whoever runs the tests sees that it does.
  static void expect_nothing_found(const std::string& script) {
    const char* given = std::getenv("HYDRAC_PROGRAM");
    const std::string program = given ? given : HYDRAC_BUILT_PROGRAM;
    std::fflush(stdout);
    EXPECT_EQ(std::system(("HYDRAC_PROGRAM='" + program +
                           "' CMAKE_CXX_COMPILER_LAUNCHER='" HYDRAC_LAUNCHER "' python3 " + script + " 2>&1")
                              .c_str()),
              0);
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

TEST_F(Repository, CasesForAGpuAreSpecs) {
  expect_nothing_found("tests/repository/gpu_cases.py");
}

}  // namespace
}  // namespace hydrac
