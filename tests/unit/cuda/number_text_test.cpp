// Numbers in kernels, as NVRTC reads them.
#include <gtest/gtest.h>

#include "targets/device_code/nvrtc.h"
#include "tests/unit/core/number_assertions.h"
#include "tests/unit/support/needs_nvrtc.h"

namespace hydrac::test {
namespace {

class CudaNumberText : public NeedsNvrtc {};

TEST_F(CudaNumberText, IsTheSameNumberToTheCompiler) {
  device_code::CompileRequest request;
  request.source = number_assertions();
  request.capability = 90;
  request.options = {"-default-device"};
  EXPECT_NO_THROW(device_code::compile(request));
}

}  // namespace
}  // namespace hydrac::test
