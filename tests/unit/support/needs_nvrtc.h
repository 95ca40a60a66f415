// Tests that compile CUDA. No GPU needed.
#pragma once
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "targets/device_code/nvrtc.h"

namespace hydrac::test {

// Skips, and says so, where there is no NVRTC.
class NeedsNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_code::nvrtc_version();
    } catch (const runtime::InputError& error) {
      GTEST_SKIP() << "SKIPPED: " << error.what();
    }
  }
};

}  // namespace hydrac::test
