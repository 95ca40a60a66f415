// A test program whose name says what goes wrong in it: the material of run_tests_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace {

class Sample : public testing::Test {
 public:
  explicit Sample(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void add(const char* name, std::function<void()> body) {
  testing::RegisterTest("Sample", name, nullptr, nullptr, __FILE__, __LINE__,
                        [body = std::move(body)]() -> testing::Test* { return new Sample(body); });
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string path = argv[0];
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  if (name != "empty") {
    add("Passes", [] { std::printf("no newline at the end, and [  FAILED  ] in the text"); });
    add("DISABLED_NeverRuns", [] { std::abort(); });
    add("AlsoPasses", [] { std::printf("[       OK ] Sample.NoSuchTest (0 ms)\n"); });
  }
  if (name == "fails") add("Fails", [] { EXPECT_EQ(6 * 9, 42); });
  if (name == "skips") add("Skips", [] { GTEST_SKIP() << "there is no moon tonight"; });
  if (name == "crashes") add("Crashes", [] { std::abort(); });
  if (name == "hangs") add("Hangs", [] { pause(); });
  if (name == "crashes" || name == "hangs") add("IsBehindIt", [] {});
  if (name == "crashes_always") {
    for (const char* test : {"A", "B", "C", "D", "E", "F", "G", "H"}) add(test, [] { std::abort(); });
  }
  if (name == "leaves_a_child") {
    add("LeavesAChild", [] {
      const pid_t child = fork();
      if (child == 0) {
        std::fclose(stdout);
        for (;;) pause();
      }
      std::ofstream(std::getenv("RUN_TESTS_CHILD")) << child;
      std::abort();
    });
  }
  if (name == "kills_its_runner") {
    add("KillsItsRunner", [] { kill(getppid(), SIGKILL); });
  }
  const int code = RUN_ALL_TESTS();
  return name == "leaves_badly" && !testing::GTEST_FLAG(list_tests) ? 7 : code;
}
