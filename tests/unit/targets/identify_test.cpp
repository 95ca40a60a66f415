// Names and memory of real GPUs, as the driver gives them, and the targets that they are.
#include "targets/cuda/identify.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrac::targets {
namespace {

std::string target(const std::string& name, int capability, double gib) {
  const Target* found = target_of(
      {.name = name, .capability = capability, .memory_bytes = static_cast<std::int64_t>(gib * 0x1p30)});
  return found ? std::string(found->name) : "none";
}

TEST(TargetOfAGpu, IsThatOfItsName) {
  EXPECT_EQ(target("NVIDIA H100 80GB HBM3", 90, 79.1), "h100");
  EXPECT_EQ(target("NVIDIA H100 PCIe", 90, 79.2), "h100-pcie");
  EXPECT_EQ(target("NVIDIA H100 NVL", 90, 93.1), "h100");
  EXPECT_EQ(target("NVIDIA H200", 90, 139.8), "h200");
  EXPECT_EQ(target("NVIDIA GeForce GTX 1650 Ti", 75, 3.8), "gtx1650ti");
  EXPECT_EQ(target("NVIDIA GeForce RTX 3080", 86, 11.7), "rtx3080");  // of 12 GB
  EXPECT_EQ(target("NVIDIA L40S", 89, 44.4), "l40s");
}

TEST(TargetOfAGpu, IsThatOfItsMemory) {
  EXPECT_EQ(target("NVIDIA A100-SXM4-80GB", 80, 79.2), "a100");
  EXPECT_EQ(target("NVIDIA A100-SXM4-40GB", 80, 39.4), "a100-40gb");
  EXPECT_EQ(target("NVIDIA A100-PCIE-40GB", 80, 39.4), "a100-40gb");
}

TEST(TargetOfAGpu, IsItsArchWhereTheNameIsThatOfAnother) {
  EXPECT_EQ(target("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 90, 39.4), "sm_90");
  EXPECT_EQ(target("NVIDIA GH200 480GB", 90, 94.5), "sm_90");  // has "h200" in its name
  EXPECT_EQ(target("NVIDIA GeForce RTX 4070 Laptop GPU", 89, 7.7), "sm_89");
  EXPECT_EQ(target("NVIDIA L40", 89, 44.4), "sm_89");  // has "l4"
  EXPECT_EQ(target("NVIDIA GeForce RTX 3050", 86, 7.6), "sm_86");
  EXPECT_EQ(target("Tesla V100-SXM2-16GB", 70, 15.8), "none");
}

}  // namespace
}  // namespace hydrac::targets
