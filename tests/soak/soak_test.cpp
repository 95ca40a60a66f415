// A few rounds of ./dev soak with a fixed seed: runs that are killed, stopped, short of disk or damaged, and
// then resumed, end as undisturbed ones do or are refused by name.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/support/command.h"

namespace hydrac {
namespace {

TEST(Soak, AFewRoundsOfEachKindFindNothing) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const char* given = std::getenv("HYDRAC_PROGRAM");
  const std::string command = std::string("python3 tests/soak/soak.py --seed 20 --rounds 2 --hydrac '") +
                              (given ? given : HYDRAC_BUILT_PROGRAM) + "' 2>&1";
  const auto [code, said] = test::run_command(command);
  EXPECT_EQ(code, 0) << said;
  EXPECT_NE(said.find("soak: 26 rounds in "), std::string::npos) << said;
  EXPECT_NE(said.find(" with seed 20, 0 findings"), std::string::npos) << said;
}

}  // namespace
}  // namespace hydrac
