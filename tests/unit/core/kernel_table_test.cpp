// The kernels of a program: which are one, and what they are called.
#include <gtest/gtest.h>

#include "codegen/kernel_source.h"
#include "codegen/kernel_table.h"

namespace hydrac::codegen {
namespace {

program::Kernel kernel(const std::string& name, const std::string& parameters,
                       const std::string& blocks_of_rows = "") {
  program::Kernel kernel;
  kernel.name = name;
  kernel.comment = "of " + parameters;
  kernel.text = std::string("void ") + kNamePlaceholder + "(" + parameters + ") {}\n";
  kernel.blocks_of_rows = blocks_of_rows;
  return kernel;
}

TEST(KernelTable, EqualTextIsOneKernel) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add(kernel("add_rmsnorm", "float* x"), 1, {}), 0);
  EXPECT_EQ(table.add(kernel("add_rmsnorm", "float* x"), 1, {}), 0);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "add_rmsnorm");
  EXPECT_EQ(kernels[0].text, "void add_rmsnorm(float* x) {}\n");
}

// A GPU's kernel that needs no bounds has the same text for a batch and for one sequence: the call says how
// many blocks.
TEST(KernelTable, EqualTextForOtherRowsIsOneKernel) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add(kernel("rope", "float* x  // [B,T]\n", "rows / 4"), 64, {}), 0);
  EXPECT_EQ(table.add(kernel("rope", "float* x  // [1,T]\n", "rows / 4"), 4, {}), 0);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].text, "void rope(float* x  // [B,T]\n) {}\n");
}

// Where nobody knows how rows and blocks belong together, another number of blocks is another kernel.
TEST(KernelTable, EqualTextLaunchedDifferentlyIsTwoKernels) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add(kernel("rope", ""), 64, {.function = "micro_step"}), 0);
  EXPECT_EQ(table.add(kernel("rope", ""), 4, {.function = "generate"}), 1);
  EXPECT_EQ(table.add(kernel("rope", ""), 64, {.function = "evaluate"}), 0);
  EXPECT_EQ(table.add(kernel("rope", "", "rows / 4"), 64, {.function = "evaluate"}), 2);
  program::Kernel wide = kernel("rope", "");
  wide.block.threads = 256;
  EXPECT_EQ(table.add(wide, 64, {.function = "update"}), 3);
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[1].name, "rope_generate");
}

// One of the calls writes in place: the kernel of both promises nothing about these two pointers.
TEST(KernelTable, PointersAreRestrictedWhereAllCallsAllowIt) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  const char* apart = "const float* __restrict__ x, float* __restrict__ w, float* __restrict__ y";
  const char* in_place = "const float* x, float* __restrict__ w, float* y";
  EXPECT_EQ(table.add(kernel("norm", apart), 1, {}), 0);
  EXPECT_EQ(kernels[0].text, std::string("void norm(") + apart + ") {}\n");
  program::Kernel overwriting = kernel("norm", in_place);
  overwriting.comment += "\ny may lie where x lies.";
  EXPECT_EQ(table.add(overwriting, 1, {}), 0);
  EXPECT_EQ(kernels[0].text, std::string("void norm(") + in_place + ") {}\n");
  EXPECT_EQ(kernels[0].comment, std::string("of ") + apart + "\ny may lie where x lies.");
  EXPECT_EQ(table.add(kernel("norm", apart), 1, {}), 0);
  EXPECT_EQ(kernels[0].text, std::string("void norm(") + in_place + ") {}\n");
  EXPECT_EQ(kernels.size(), 1u);
}

TEST(KernelTable, NamesSayHowKernelsDiffer) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  const auto name = [&](const std::string& wanted, const std::string& text, const KernelPlace& place) {
    return kernels[table.add(kernel(wanted, text), 1, place)].name;
  };
  const KernelPlace block{"micro_step", "block", "norm", "normed", {"attn"}, {"x", "normed", "rstd"}};
  KernelPlace bare = block, generate = block, first = block, key = block, mlp = block;
  bare.parameters = {"x", "normed"};
  generate.function = "generate";
  first.region = "input_backward";
  key.label = "attn.k_rotated";
  mlp.sources = {"attn", "mlp"};
  EXPECT_EQ(name("norm", "a", block), "norm");
  EXPECT_EQ(name("norm", "b", bare), "norm_without_statistics");
  EXPECT_EQ(name("norm", "c", generate), "norm_generate");
  EXPECT_EQ(name("norm", "d", first), "norm_input");
  EXPECT_EQ(name("norm", "e", key), "norm_k");
  EXPECT_EQ(name("norm", "f", mlp), "norm_mlp");
  EXPECT_EQ(name("norm", "g", block), "norm_2");
  EXPECT_EQ(name("norm", "h", block), "norm_3");
}

TEST(KernelName, IsShortAndTelling) {
  EXPECT_EQ(kernel_name("add+rmsnorm"), "add_rmsnorm");
  EXPECT_EQ(kernel_name("cast"), "cast");
  EXPECT_EQ(kernel_name("adamw+cast"), "adamw");
  EXPECT_EQ(kernel_name("bias_gradient"), "bias_gradient");
  EXPECT_EQ(kernel_name("embedding+position_embedding+layernorm"), "embeddings_layernorm");
  EXPECT_EQ(kernel_name("cross_entropy+mean_loss+mean_loss_backward+cross_entropy_backward"),
            "cross_entropy_loss_and_gradient");
  EXPECT_EQ(kernel_name("mse+mean_loss"), "mse_loss");
  EXPECT_EQ(kernel_name("layernorm_backward+add+layernorm_weight_gradient+bias_gradient+cast"),
            "layernorm_backward_add");
  EXPECT_EQ(kernel_name("a+b+c+d+e"), "a_b_c_and_2_more");
}

}  // namespace
}  // namespace hydrac::codegen
