// Libraries that are missing, damaged or too new give errors that say what to do.
#include "runtime/cuda/library.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/cuda/device.h"
#include "runtime/cuda/monitor.h"
#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime::cuda {
namespace {

// Sets an environment variable until the end of the test.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

std::string message_of(const LibraryQuery& query) {
  try {
    open_library(query);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

bool has_driver() {
  try {
    driver();
  } catch (const InputError&) {
    return false;
  }
  return true;
}

TEST(CudaLibraries, OneThatIsMissingIsAnErrorThatSaysWhatToInstall) {
  EXPECT_EQ(
      message_of({"A library of ours", {"libhydrac-nowhere.so.2", "libhydrac-nowhere.so.1"}, "Install it."}),
      "A library of ours is not installed.\nInstall it.");
}

TEST(CudaLibraries, OneThatDoesNotLoadIsAnErrorWithTheLoadersWords) {
  const test::TempDir folder;
  std::ofstream(folder / "libhydrac-nowhere.so.1") << "no library";
  const Environment variable("HYDRAC_CUDA_LIBRARIES", "/nonexistent:" + folder.path().string());
  EXPECT_EQ(message_of({"A library of ours", {"libhydrac-nowhere.so.1"}, "Install it."}),
            "A library of ours does not load:\n  " + (folder / "libhydrac-nowhere.so.1").string() +
                ": file too short\nInstall it.");
}

TEST(CudaLibraries, NamedFoldersComeFirstInTheOrderGiven) {
  const Environment variable("HYDRAC_CUDA_LIBRARIES", "/first/lib::/second/lib");
  const auto folders = library_folders();
  ASSERT_GE(folders.size(), 2u);
  EXPECT_EQ(folders[0], "/first/lib");
  EXPECT_EQ(folders[1], "/second/lib");
}

TEST(CudaLibraries, TheToolkitOfCudaHomeComesBeforeTheInstalledOnes) {
  const test::TempDir home;
  std::filesystem::create_directories(home / "lib64");
  std::filesystem::create_directories(home / "targets/x86_64-linux/lib");
  const Environment named("HYDRAC_CUDA_LIBRARIES", "");
  const Environment variable("CUDA_HOME", home.path().string());
  const auto folders = library_folders();
  ASSERT_GE(folders.size(), 2u);
  EXPECT_EQ(folders[0], home / "lib64");
  EXPECT_EQ(folders[1], home / "targets/x86_64-linux/lib");
}

TEST(CudaLibraries, NoneNewerThanTheDriverIsWanted) {
  using Files = std::vector<std::string>;
  EXPECT_EQ(toolkit_files("libnvrtc", 0), (Files{"libnvrtc.so.13", "libnvrtc.so.12"}));
  EXPECT_EQ(toolkit_files("libnvrtc", 13010), (Files{"libnvrtc.so.13", "libnvrtc.so.12"}));
  EXPECT_EQ(toolkit_files("libcublasLt", 12040), (Files{"libcublasLt.so.12"}));
}

TEST(CudaLibraries, WithoutADriverTheErrorNamesItAndHowToInstallIt) {
  if (has_driver()) GTEST_SKIP() << "SKIPPED: this machine has an NVIDIA driver";
  try {
    devices();
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "the CUDA driver (libcuda.so.1) is not installed.\n"
        "Install NVIDIA's driver for this GPU, version 525 or newer (Debian: apt-get install nvidia-driver; "
        "Ubuntu: ubuntu-drivers install).");
  }
}

TEST(CudaLibraries, WithoutNvmlTheMonitorHasANoteInsteadOfSamples) {
  const GpuMonitor monitor("ffff:ff:ff.0");
  EXPECT_FALSE(monitor.sample().has_value());
  EXPECT_TRUE(monitor.note().starts_with("no GPU metrics: NVML")) << monitor.note();
}

}  // namespace
}  // namespace hydrac::runtime::cuda
