// The memory layout that a GemmProblem means, and its text.
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "runtime/batch_stride.h"
#include "runtime/cuda/gemm/gemm_descriptors.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {

int element_bytes(ElementType type) {
  constexpr int sizes[] = {
#define HYDRAC_FLOAT(name, bytes, type, stored, blas) bytes,
#include "runtime/base/dtypes.def"
  };
  return sizes[static_cast<int>(type)];
}

bool is_f8(ElementType type) {
  return type == ElementType::f8e4m3 || type == ElementType::f8e5m2;
}

const char* name(ElementType type) {
  constexpr const char* names[] = {
#define HYDRAC_FLOAT(name, bytes, type, stored, blas) #name,
#include "runtime/base/dtypes.def"
  };
  return names[static_cast<int>(type)];
}

std::int64_t StoredMatrix::bytes() const {
  const std::int64_t elements = batch == 1 ? rows * columns : batch * batch_stride(rows, columns);
  return elements * element_bytes(type);
}

StoredMatrix stored_a(const GemmProblem& p) {
  return p.transpose_a ? StoredMatrix{p.a, p.k, p.m, p.batch} : StoredMatrix{p.a, p.m, p.k, p.batch};
}

StoredMatrix stored_b(const GemmProblem& p) {
  return p.transpose_b ? StoredMatrix{p.b, p.n, p.k, p.batch} : StoredMatrix{p.b, p.k, p.n, p.batch};
}

StoredMatrix stored_d(const GemmProblem& p) {
  return {p.result, p.m, p.n, p.batch};
}

void check_problem(const GemmProblem& p) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t size : {p.m, p.n, p.k, p.batch}) {
    if (size < 1 || size > most)
      throw RunError(fmt::format("malformed matmul {}: sizes are 1 to {}", p.text(), most));
  }
  if (p.batch > 1 && p.bias)
    throw RunError(fmt::format("malformed matmul {}: a batch has no bias", p.text()));
  const bool f8 = is_f8(p.a);
  if (is_f8(p.b) != f8 || (!f8 && p.a != p.b))
    throw RunError(fmt::format("malformed matmul {}: operands of these two types", p.text()));
  if (f8 && (p.transpose_a || !p.transpose_b || p.m % 16 != 0 || p.n % 16 != 0 || p.k % 16 != 0))
    throw RunError(fmt::format(
        "malformed matmul {}: of 8 bits, B is transposed and sizes are multiples of 16", p.text()));
}

// In the words of the choices that machines remember already.
std::string GemmProblem::text() const {
  std::string text = fmt::format("{}x{}x{}{}{} {}*{}->{}", m, n, k, transpose_a ? " A^T" : "",
                                 transpose_b ? " B^T" : "", name(a), name(b), name(result));
  if (accumulate) text += fmt::format(" beta=1 C={}", name(result));
  if (tf32) text += " tf32";
  if (bias) text += " bias";
  if (beside) text += " beside";
  if (fast_sums) text += " fast";
  if (batch > 1) text += fmt::format(" batch={}", batch);
  return text;
}

int multiprocessors(const GemmProblem& p, int sms) {
  constexpr double kShort = 4e9;  // flop
  return p.beside && p.flop() < kShort ? sms / 2 : 0;
}

}  // namespace hydrac::runtime::cuda
