// A process loads a profiler's library once, so each test has one of its own.
#include "runtime/cuda/nvtx.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime::cuda {
namespace {

void make_ranges() {
  const NvtxRange step("step");
  const NvtxRange call("layer 3: attention");
}

TEST(Nvtx, TellsAProfilerThatListensOfRanges) {
  const test::TempDir folder;
  const std::string log = (folder / "log").string();
  ::setenv("FAKE_PROFILER_LOG", log.c_str(), 1);
  ::setenv("NVTX_INJECTION64_PATH", HYDRAC_FAKE_PROFILER, 1);
  EXPECT_EXIT(
      {
        make_ranges();
        ::_exit(nvtx_listens() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(test::slurp(folder / "log"), "push step\npush layer 3: attention\npop\npop\n");
}

TEST(Nvtx, DoesNothingWithoutAProfiler) {
  for (const char* library : {"", "/no/such/library.so"}) {
    if (*library)
      ::setenv("NVTX_INJECTION64_PATH", library, 1);
    else
      ::unsetenv("NVTX_INJECTION64_PATH");
    EXPECT_EXIT(
        {
          make_ranges();
          ::_exit(nvtx_listens() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace hydrac::runtime::cuda
