// What a product's text says, how its operands lie in memory, and what is refused.
#include <gtest/gtest.h>

#include "runtime/cuda/gemm_descriptors.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

GemmProblem weight_gradient() {
  GemmProblem p;
  p.m = 768, p.n = 3072, p.k = 4096;
  p.transpose_a = true;
  p.a = p.b = ElementType::bf16;
  p.beta = 1;
  p.epilogue = Epilogue::bias_gradient_a;
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
  GemmProblem p = weight_gradient();
  EXPECT_EQ(p.text(), "768x3072x4096 A^T bf16*bf16->f32 beta=1 C=f32 bias_gradient_a");
  p.lda = 2304, p.ldb = 3072, p.alignment = 8, p.epilogue = Epilogue::none;
  EXPECT_EQ(p.text(), "768x3072x4096 A^T bf16*bf16->f32 beta=1 C=f32 lda=2304 alignment=8");
  GemmProblem batched;
  batched.m = 3, batched.n = 5, batched.k = 7, batched.tf32 = true, batched.batch = 4, batched.alpha = 0.5f;
  batched.stride_a = 21, batched.stride_b = 35, batched.stride_d = 15, batched.transpose_b = true;
  EXPECT_EQ(batched.text(), "3x5x7 B^T f32*f32->f32 alpha=0.5 tf32 batch=4 strides=21,35,15,15");
  GemmProblem fp8;
  fp8.m = 16, fp8.n = 16, fp8.k = 16, fp8.a = ElementType::fp8_e4m3, fp8.b = ElementType::fp8_e5m2;
  fp8.transpose_b = fp8.fast_accumulate = true, fp8.d = ElementType::bf16,
  fp8.epilogue = Epilogue::gelu_aux_bias;
  EXPECT_EQ(fp8.text(), "16x16x16 B^T e4m3*e5m2->bf16 fast gelu_aux_bias");
}

TEST(GemmProblem, OperandsLieRowAfterRow) {
  const GemmProblem p = weight_gradient();
  EXPECT_EQ(stored_a(p), (StoredMatrix{ElementType::bf16, 4096, 768, 768, 0}));
  EXPECT_EQ(stored_b(p), (StoredMatrix{ElementType::bf16, 4096, 3072, 3072, 0}));
  EXPECT_EQ(stored_c(p), stored_d(p));
  EXPECT_EQ(stored_d(p), (StoredMatrix{ElementType::f32, 768, 3072, 3072, 0}));
  EXPECT_EQ(bias_length(p), 768);
  EXPECT_EQ((StoredMatrix{ElementType::bf16, 3, 5, 8, 100}.bytes(2)), (2 * 8 + 5 + 100) * 2);
}

TEST(GemmProblem, MalformedOnesAreRefusedWithTheReason) {
  EXPECT_EQ(refusal(weight_gradient()), "");
  GemmProblem p;
  p.m = 4, p.n = 4;
  EXPECT_EQ(refusal(p), "malformed matrix product 4x4x0 f32*f32->f32: sizes are 1 to 2147483647");
  p.k = 4, p.lda = 3;
  EXPECT_EQ(
      refusal(p),
      "malformed matrix product 4x4x4 f32*f32->f32 lda=3: rows of A have 4 elements and lie only 3 apart");
  p.lda = 0, p.alignment = 12;
  EXPECT_EQ(refusal(p),
            "malformed matrix product 4x4x4 f32*f32->f32 alignment=12: an alignment of 12 bytes is no power "
            "of two, or "
            "less than an element");
  p.alignment = 16, p.epilogue = Epilogue::gelu_aux;
  EXPECT_EQ(refusal(p),
            "malformed matrix product 4x4x4 f32*f32->f32 gelu_aux: rows of aux lie 4 elements apart: a "
            "multiple of 8 "
            "that is at least n is needed");
  p.ld_aux = 8;
  EXPECT_EQ(refusal(p), "");
  p.batch = 2;
  EXPECT_EQ(
      refusal(p),
      "malformed matrix product 4x4x4 f32*f32->f32 gelu_aux ld_aux=8 batch=2 strides=0,0,0,0: a batch has no "
      "epilogue");
}

}  // namespace
}  // namespace hydrac::runtime::cuda
