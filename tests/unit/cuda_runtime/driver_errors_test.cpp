// What the user reads when a driver is there but of no use. With a driver made for this test.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/cuda/device.h"
#include "runtime/cuda/library.h"
#include "runtime/error.h"
#include "targets/device_code/nvrtc.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime::cuda {
namespace {

using namespace device_code;

using test::message_of;

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    // Its own copy: a loaded library is not loaded anew.
    std::filesystem::copy_file(HYDRAC_FAKE_DRIVER, folder_ / "libcuda.so.1");
    setenv("HYDRAC_CUDA_LIBRARIES", folder_.path().c_str(), 1);
  }
  static void answer(const char* version, const char* init) {
    setenv("FAKE_CUDA_VERSION", version, 1);
    setenv("FAKE_CUDA_INIT", init, 1);
  }

 private:
  test::TempDir folder_;
};

TEST_F(FakeDriver, ThatIsTooOldIsNamedWithItsVersion) {
  answer("11040", "0");
  EXPECT_EQ(
      message_of<InputError>(devices),
      "the NVIDIA driver here is for CUDA 11.4: too old, CUDA 12.0 is needed.\n"
      "Install NVIDIA's driver for this GPU, version 525 or newer (Debian: apt-get install nvidia-driver; "
      "Ubuntu: ubuntu-drivers install).");
}

TEST_F(FakeDriver, ThatFindsNoGpuSaysWhereToLook) {
  answer("12020", "100");
  EXPECT_EQ(
      message_of<InputError>(devices),
      "the NVIDIA driver finds no GPU. `nvidia-smi` should list one; in a container, start it with the GPU "
      "(docker run --gpus all); and see that CUDA_VISIBLE_DEVICES does not hide it.");
}

TEST_F(FakeDriver, ThatDoesNotFitItsKernelModuleSaysSo) {
  answer("12020", "803");
  EXPECT_EQ(
      message_of<InputError>(devices),
      "the NVIDIA driver's library and its kernel module are of different versions: restart the machine, or "
      "load the module anew.");
}

TEST_F(FakeDriver, ThatDoesNotStartIsAnErrorWithItsNumber) {
  answer("12020", "999");
  EXPECT_EQ(message_of<InputError>(devices),
            "the NVIDIA driver does not start: unknown error (error 999). See what `nvidia-smi` says.");
}

TEST_F(FakeDriver, IsGivenNoToolkitNewerThanItself) {
  answer("12040", "0");
  try {
    EXPECT_TRUE(nvrtc_version().starts_with("12."));
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "NVRTC, CUDA's run-time compiler, is not installed.\n"
        "Install it from the CUDA toolkit 12 (this driver is for CUDA 12.4): package "
        "cuda-nvrtc-12-4 of NVIDIA's repository. If it lies elsewhere (inside Python packages, for example), "
        "name its folder in $HYDRAC_CUDA_LIBRARIES.");
  }
}

// The last one: from here on this driver is the process's.
TEST_F(FakeDriver, ThatFailsLaterIsARunErrorThatNamesTheCall) {
  answer("12020", "0");
  EXPECT_EQ(message_of<RunError>(devices), "cuDeviceGetCount: 999 (unknown error)");
}

}  // namespace
}  // namespace hydrac::runtime::cuda
