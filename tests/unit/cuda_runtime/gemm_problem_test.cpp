// What a matmul's text says, how its operands lie in memory, and what is refused.
#include <gtest/gtest.h>

#include "runtime/cuda/gemm/gemm_descriptors.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

GemmProblem weight_gradient() {
  GemmProblem p;
  p.m = 768, p.n = 3072, p.k = 4096;
  p.transpose_a = true;
  p.a = p.b = ElementType::bf16;
  p.accumulate = true;
  return p;
}

std::string refusal(const GemmProblem& problem) {
  try {
    check_problem(problem);
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

TEST(GemmProblem, TextSaysAllThatTheChoiceOfAnAlgorithmDependsOn) {
  EXPECT_EQ(weight_gradient().text(), "768x3072x4096 A^T bf16*bf16->f32 beta=1 C=f32");
  GemmProblem p;
  p.m = 3, p.n = 5, p.k = 7, p.tf32 = true, p.transpose_b = true, p.bias = true;
  EXPECT_EQ(p.text(), "3x5x7 B^T f32*f32->f32 tf32 bias");
  p.beside = true;
  EXPECT_EQ(p.text(), "3x5x7 B^T f32*f32->f32 tf32 bias beside");
}

TEST(GemmProblem, OfEightBitsSaysBothTypesAndWantsWhatTheUnitsTake) {
  GemmProblem p;
  p.m = 32, p.n = 48, p.k = 64, p.transpose_b = true, p.fast_sums = true;
  p.a = ElementType::f8e5m2, p.b = ElementType::f8e4m3, p.result = ElementType::bf16;
  EXPECT_EQ(p.text(), "32x48x64 B^T f8e5m2*f8e4m3->bf16 fast");
  EXPECT_EQ(refusal(p), "");
  EXPECT_EQ(stored_a(p).bytes(), 32 * 64);
  GemmProblem odd = p;
  odd.k = 72;
  EXPECT_EQ(
      refusal(odd),
      "malformed matmul 32x48x72 B^T f8e5m2*f8e4m3->bf16 fast: of 8 bits, B is transposed and sizes are "
      "multiples of 16");
  GemmProblem mixed = p;
  mixed.b = ElementType::bf16;
  EXPECT_EQ(refusal(mixed),
            "malformed matmul 32x48x64 B^T f8e5m2*bf16->bf16 fast: operands of these two types");
}

TEST(GemmProblem, ShortOnesLeaveHalfOfTheGpuToWhatTheyRunBeside) {
  GemmProblem p = weight_gradient();
  p.k = 512;
  EXPECT_EQ(multiprocessors(p, 132), 0);
  p.beside = true;
  EXPECT_EQ(multiprocessors(p, 132), 66);
  p.k = 65536;
  EXPECT_EQ(multiprocessors(p, 132), 0);
}

TEST(GemmProblem, OperandsLieRowAfterRow) {
  const GemmProblem p = weight_gradient();
  EXPECT_EQ(stored_a(p), (StoredMatrix{ElementType::bf16, 4096, 768}));
  EXPECT_EQ(stored_b(p), (StoredMatrix{ElementType::bf16, 4096, 3072}));
  EXPECT_EQ(stored_d(p), (StoredMatrix{ElementType::f32, 768, 3072}));
  EXPECT_EQ(stored_b(p).bytes(), 4096 * 3072 * 2);
}

TEST(GemmProblem, MalformedOnesAreRefusedWithTheReason) {
  EXPECT_EQ(refusal(weight_gradient()), "");
  GemmProblem p;
  p.m = 4, p.n = 4;
  EXPECT_EQ(refusal(p), "malformed matmul 4x4x0 f32*f32->f32: sizes are 1 to 2147483647");
}

}  // namespace
}  // namespace hydrac::runtime::cuda
