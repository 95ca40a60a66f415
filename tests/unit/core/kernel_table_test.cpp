// The kernels of a program: which are one, and what they are called.
#include <gtest/gtest.h>

#include "codegen/kernel_source.h"
#include "codegen/kernel_table.h"

namespace hydrac::codegen {
namespace {

KernelSource source(const std::string& name, const std::vector<program::Parameter>& parameters = {}) {
  KernelSource source;
  source.name = name;
  source.text.attributes = "void ";
  source.text.parameters = parameters;
  return source;
}

program::Kernel for_rows(const std::string& blocks) {
  program::Kernel kernel;
  kernel.blocks_of_rows = blocks;
  return kernel;
}

TEST(KernelTable, EqualTextIsOneKernel) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add({}, source("add_rmsnorm", {{"float*", "x"}}), 1, {}), 0);
  EXPECT_EQ(table.add({}, source("add_rmsnorm", {{"float*", "x"}}), 1, {}), 0);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "add_rmsnorm");
  EXPECT_EQ(kernels[0].text, "void add_rmsnorm(\n    float* x) {\n}\n");
}

// A GPU's kernel that needs no bounds has the same text for a batch and for one sequence: the call says how
// many blocks.
TEST(KernelTable, EqualTextForOtherRowsIsOneKernel) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add(for_rows("rows / 4"), source("rope", {{"float*", "x", "[B,T]"}}), 64, {}), 0);
  EXPECT_EQ(table.add(for_rows("rows / 4"), source("rope", {{"float*", "x", "[1,T]"}}), 4, {}), 0);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].text, "void rope(\n    float* x) {  // [B,T]\n}\n");
}

// Where nobody knows how rows and blocks belong together, another number of blocks is another kernel.
TEST(KernelTable, EqualTextLaunchedDifferentlyIsTwoKernels) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  EXPECT_EQ(table.add({}, source("rope"), 64, {.function = "micro_step"}), 0);
  EXPECT_EQ(table.add({}, source("rope"), 4, {.function = "generate"}), 1);
  EXPECT_EQ(table.add({}, source("rope"), 64, {.function = "evaluate"}), 0);
  EXPECT_EQ(table.add(for_rows("rows / 4"), source("rope"), 64, {.function = "evaluate"}), 2);
  program::Kernel wide;
  wide.block.threads = 256;
  EXPECT_EQ(table.add(wide, source("rope"), 64, {.function = "update"}), 3);
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[1].name, "rope_generate");
}

// One of the calls writes in place: the kernel of both promises nothing about these two pointers.
TEST(KernelTable, PointersAreRestrictedWhereAllCallsAllowIt) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  KernelSource apart = source("norm", {{.type = "const float*", .name = "x", .is_restricted = true},
                                       {.type = "float*", .name = "w", .is_restricted = true},
                                       {.type = "float*", .name = "y", .is_restricted = true}});
  apart.comment = "y = norm(x) w";
  KernelSource in_place = apart;
  in_place.text.parameters[0].is_restricted = in_place.text.parameters[2].is_restricted = false;
  in_place.sharing = {"y may lie where x lies."};
  EXPECT_EQ(table.add({}, apart, 1, {}), 0);
  EXPECT_EQ(kernels[0].text, to_text(apart.text, "norm"));
  EXPECT_EQ(kernels[0].comment, apart.comment);
  for (const KernelSource& same : {in_place, apart, in_place}) {
    EXPECT_EQ(table.add({}, same, 1, {}), 0);
    EXPECT_EQ(kernels[0].text,
              "void norm(\n    const float* x,\n    float* __restrict__ w,\n    float* y) {\n}\n");
    EXPECT_EQ(kernels[0].comment, "y = norm(x) w\ny may lie where x lies.");
  }
  EXPECT_EQ(kernels.size(), 1u);
}

TEST(KernelTable, NamesSayHowKernelsDiffer) {
  std::vector<program::Kernel> kernels;
  KernelTable table(kernels);
  const auto name = [&](const std::string& wanted, const std::string& text, const KernelPlace& place) {
    return kernels[table.add({}, source(wanted, {{"float*", text}}), 1, place)].name;
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
