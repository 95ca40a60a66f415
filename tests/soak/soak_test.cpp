// A few rounds of ./dev soak with a fixed seed: runs that are killed, stopped, short of disk or damaged, and
// then resumed, end as undisturbed ones do or are refused by name.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace hydrac {
namespace {

TEST(Soak, AFewRoundsOfEachKindFindNothing) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const char* given = std::getenv("HYDRAC_PROGRAM");
  const std::string command = std::string("python3 tests/soak/soak.py --seed 20 --rounds 2 --hydrac '") +
                              (given ? given : HYDRAC_BUILT_PROGRAM) + "' 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) said.append(buffer.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << said;
  EXPECT_NE(said.find("soak: 18 rounds in "), std::string::npos) << said;
  EXPECT_NE(said.find(" with seed 20, 0 findings"), std::string::npos) << said;
}

}  // namespace
}  // namespace hydrac
