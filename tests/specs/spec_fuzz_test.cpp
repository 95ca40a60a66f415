// A minute of ./dev fuzz specs with a fixed seed, behind the specs that it found wrong before.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/support/command.h"

namespace hydrac {
namespace {

TEST(RandomSpecs, AreCheckedExplainedEmittedTrainedAndBuilt) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const char* given = std::getenv("HYDRAC_PROGRAM");
  const std::string command = std::string("python3 tests/specs/spec_fuzz.py --seed 20 --specs 8 --hydrac '") +
                              (given ? given : HYDRAC_BUILT_PROGRAM) + "' 2>&1";
  const auto [code, said] = test::run_command(command);
  EXPECT_EQ(code, 0) << said;
  EXPECT_NE(said.find("specs: 8 specs in "), std::string::npos) << said;
  EXPECT_NE(said.find(" with seed 20, 0 findings"), std::string::npos) << said;
  for (const char* count : {"  emitted\n", "  trained and resumed\n", "  built and compared\n"})
    EXPECT_NE(said.find(count), std::string::npos) << count << said;
}

}  // namespace
}  // namespace hydrac
