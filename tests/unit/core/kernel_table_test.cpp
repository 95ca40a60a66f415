// The kernels of a program: which are one.
#include <gtest/gtest.h>

#include "codegen/build_calls.h"
#include "codegen/kernel_source.h"

namespace hydrac::codegen {
namespace {

const std::string kText = std::string("void ") + kNamePlaceholder + "() {}\n";

TEST(KernelTable, EqualTextIsOneKernel) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add("add+rmsnorm", "rows [B,T]", kText, "model.norm"), 0);
  EXPECT_EQ(table.add("add+rmsnorm", "rows [B,T]", kText, "model.norm"), 0);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "add_rmsnorm");
  EXPECT_EQ(kernels[0].text, "void add_rmsnorm() {}\n");
  EXPECT_EQ(kernels[0].comment, "add + rmsnorm: rows [B,T]");
}

// A GPU's kernel that needs no bounds has the same text for a batch and for one sequence.
TEST(KernelTable, EqualTextLaunchedDifferentlyIsTwoKernels) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add("rope", "rows [B,T,H]", kText, "model.position", {64, 128, 0}), 0);
  EXPECT_EQ(table.add("rope", "rows [1,T,H]", kText, "model.position", {4, 128, 0}), 1);
  EXPECT_EQ(table.add("rope", "rows [B,T,H]", kText, "model.position", {64, 128, 0}), 0);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].launch.grid, 64);
  EXPECT_EQ(kernels[1].launch.grid, 4);
  EXPECT_EQ(kernels[1].name, "rope_2");
}

}  // namespace
}  // namespace hydrac::codegen
