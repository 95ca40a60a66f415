#include "targets/device_code/resources.h"

#include <gtest/gtest.h>

namespace hydrac::device_code {
namespace {

TEST(AssemblerReport, OfNvrtc13GivesEachKernelsRegistersStackSpillsAndSharedMemory) {
  const AssemblerReport report = read_assembler_report(
      "kernels.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n"
      "      int x;\n"
      "          ^\n"
      "\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'norm' for 'sm_90a'\n"
      "ptxas info    : Function properties for norm\n"
      "ptxas         .     256 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 256 bytes cumulative stack size, 400 bytes smem\n"
      "ptxas info    : Compile time = 13.518 ms\n"
      "ptxas info    : Compiling entry function 'add' for 'sm_90a'\n"
      "ptxas info    : Function properties for add\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  ASSERT_EQ(report.kernels.size(), 2u);
  EXPECT_EQ(report.kernels[0], (KernelResources{"add", 8, 0, 0, 0, 0}));
  EXPECT_EQ(report.kernels[1], (KernelResources{"norm", 32, 256, 16, 24, 400}));
  EXPECT_EQ(report.rest,
            "kernels.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n"
            "      int x;\n"
            "          ^\n");
}

// Functions that were not inlined have properties of their own, which are not the kernel's.
TEST(AssemblerReport, OfNvrtc12LeavesOutFunctionsThatAreNoKernels) {
  const AssemblerReport report = read_assembler_report(
      "ptxas info    : 0 bytes gmem, 8 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'\n"
      "ptxas info    : Function properties for helper\n"
      "    64 bytes stack frame, 60 bytes spill stores, 60 bytes spill loads\n"
      "ptxas info    : Function properties for main_kernel\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, 1024 bytes smem, 368 bytes cmem[0]\n");
  ASSERT_EQ(report.kernels.size(), 1u);
  EXPECT_EQ(report.kernels[0], (KernelResources{"main_kernel", 40, 0, 0, 0, 1024}));
  EXPECT_EQ(report.rest, "");
}

}  // namespace
}  // namespace hydrac::device_code
