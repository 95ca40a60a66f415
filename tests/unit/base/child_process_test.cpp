// Other programs: their pipes, ends, groups and surroundings.
#include "runtime/base/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

namespace hydrac::runtime {
namespace {

std::vector<std::string> shell(const std::string& script) {
  return {"sh", "-c", script};
}

TEST(ChildProcess, ReadsItsInputAndPrints) {
  ChildProcess child({"tr", "a-z", "A-Z"}, {.input = kPipe, .output = kPipe});
  ASSERT_EQ(child.error(), 0);
  ASSERT_EQ(::write(child.input(), "words", 5), 5);
  child.close_input();
  EXPECT_EQ(read_to_end(child.output()), "WORDS");
  EXPECT_EQ(describe(child.wait()), "ended with exit code 0");
}

TEST(ChildProcess, ItsEndIsASentence) {
  EXPECT_EQ(describe(ChildProcess(shell("exit 3"), {}).wait()), "ended with exit code 3");
  EXPECT_EQ(describe(ChildProcess(shell("kill -9 $$"), {}).wait()), "was killed by signal 9 (Killed)");
}

TEST(ChildProcess, OneThatDoesNotExistIsAnErrorNumber) {
  EXPECT_EQ(ChildProcess({"hydrac-no-such-program"}, {}).error(), ENOENT);
}

TEST(ChildProcess, HasNothingToReadAndItsErrorsInTheOutputIfAsked) {
  ChildProcess child(shell("cat; echo out; echo errors >&2"), {.output = kPipe, .errors = kPipe});
  EXPECT_EQ(read_to_end(child.output()), "out\nerrors\n");
}

TEST(ChildProcess, SignalsThatThisProgramIgnoresEndIt) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(ChildProcess(shell("kill -PIPE $$"), {}).wait().signal, SIGPIPE);
  ::signal(SIGPIPE, before);
}

TEST(ChildProcess, VariablesTakeThePlaceOfThoseOfTheSameName) {
  ::setenv("HYDRAC_TEST_CHILD", "before", 1);
  ChildProcess child(shell("env | grep HYDRAC_TEST_CHILD"),
                     {.output = kPipe, .environment = {"HYDRAC_TEST_CHILD=a=b"}});
  EXPECT_EQ(read_to_end(child.output()), "HYDRAC_TEST_CHILD=a=b\n");
  ::unsetenv("HYDRAC_TEST_CHILD");
}

TEST(ChildProcess, IsKilledWithItsGroupWhenNobodyNeedsIt) {
  int output = -1;
  {
    ChildProcess child(shell("sleep 1000 & echo started; wait"), {.output = kPipe, .own_group = true});
    char byte = 0;
    ASSERT_EQ(::read(child.output(), &byte, 1), 1);
    EXPECT_FALSE(child.ended());
    output = child.take_output();
  }
  EXPECT_EQ(read_to_end(output), "tarted\n");  // ends only if nobody has the pipe's other end
  ::close(output);
}

}  // namespace
}  // namespace hydrac::runtime
