// What a GemmProblem means in memory, and its text.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "runtime/cuda/gemm_descriptors.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

StoredMatrix stored(ElementType type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                    std::int64_t stride) {
  return {type, rows, columns, ld == 0 ? columns : ld, stride};
}

}  // namespace

int element_bytes(ElementType type) {
  if (type == ElementType::f32) return 4;
  return type == ElementType::bf16 || type == ElementType::f16 ? 2 : 1;
}

const char* name(ElementType type) {
  constexpr const char* names[] = {"f32", "bf16", "f16", "e4m3", "e5m2"};
  return names[static_cast<int>(type)];
}

const char* name(Epilogue epilogue) {
  constexpr const char* names[] = {"none",
                                   "bias",
                                   "relu",
                                   "relu_bias",
                                   "gelu",
                                   "gelu_bias",
                                   "gelu_aux",
                                   "gelu_aux_bias",
                                   "dgelu",
                                   "dgelu_bias_gradient",
                                   "bias_gradient_a",
                                   "bias_gradient_b"};
  return names[static_cast<int>(epilogue)];
}

bool uses_bias(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
    case Epilogue::relu:
    case Epilogue::gelu:
    case Epilogue::gelu_aux:
    case Epilogue::dgelu:
      return false;
    default:
      return true;
  }
}

bool uses_aux(Epilogue epilogue) {
  return epilogue == Epilogue::gelu_aux || epilogue == Epilogue::gelu_aux_bias ||
         epilogue == Epilogue::dgelu || epilogue == Epilogue::dgelu_bias_gradient;
}

bool is_fp8(const GemmProblem& p) {
  return element_bytes(p.a) == 1;
}

std::int64_t bias_length(const GemmProblem& p) {
  return p.epilogue == Epilogue::bias_gradient_a ? p.m : p.n;
}

std::int64_t aux_ld(const GemmProblem& p) {
  return p.ld_aux == 0 ? p.n : p.ld_aux;
}

std::int64_t StoredMatrix::bytes(std::int64_t batch) const {
  return ((rows - 1) * ld + columns + (batch - 1) * stride) * element_bytes(type);
}

StoredMatrix stored_a(const GemmProblem& p) {
  return p.transpose_a ? stored(p.a, p.k, p.m, p.lda, p.stride_a) : stored(p.a, p.m, p.k, p.lda, p.stride_a);
}

StoredMatrix stored_b(const GemmProblem& p) {
  return p.transpose_b ? stored(p.b, p.n, p.k, p.ldb, p.stride_b) : stored(p.b, p.k, p.n, p.ldb, p.stride_b);
}

StoredMatrix stored_c(const GemmProblem& p) {
  return p.beta == 0 ? stored_d(p) : stored(p.c, p.m, p.n, p.ldc, p.stride_c);
}

StoredMatrix stored_d(const GemmProblem& p) {
  return stored(p.d, p.m, p.n, p.ldd, p.stride_d);
}

void check_problem(const GemmProblem& p) {
  const auto refuse = [&](const std::string& why) {
    throw RunError(fmt::format("malformed matrix product {}: {}", p.text(), why));
  };
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t size : {p.m, p.n, p.k, p.batch}) {
    if (size < 1 || size > most) refuse(fmt::format("sizes are 1 to {}", most));
  }
  const std::pair<const char*, StoredMatrix> matrices[] = {
      {"A", stored_a(p)}, {"B", stored_b(p)}, {"C", stored_c(p)}, {"D", stored_d(p)}};
  for (const auto& [letter, matrix] : matrices) {
    if (matrix.ld < matrix.columns)
      refuse(fmt::format("rows of {} have {} elements and lie only {} apart", letter, matrix.columns,
                         matrix.ld));
  }
  if (p.alignment < element_bytes(p.d) || (p.alignment & (p.alignment - 1)) != 0)
    refuse(fmt::format("an alignment of {} bytes is no power of two, or less than an element", p.alignment));
  if (uses_aux(p.epilogue) && (aux_ld(p) < p.n || aux_ld(p) % 8 != 0))
    refuse(fmt::format("rows of aux lie {} elements apart: a multiple of 8 that is at least n is needed",
                       aux_ld(p)));
  if (p.batch > 1 && p.epilogue != Epilogue::none) refuse("a batch has no epilogue");
}

std::string GemmProblem::text() const {
  std::string text = fmt::format("{}x{}x{}{}{} {}*{}->{}", m, n, k, transpose_a ? " A^T" : "",
                                 transpose_b ? " B^T" : "", cuda::name(a), cuda::name(b), cuda::name(d));
  if (beta != 0) text += fmt::format(" beta={} C={}", beta, cuda::name(c));
  if (alpha != 1) text += fmt::format(" alpha={}", alpha);
  if (tf32) text += " tf32";
  if (fast_accumulate) text += " fast";
  if (epilogue != Epilogue::none) text += fmt::format(" {}", cuda::name(epilogue));
  const auto add_ld = [&](const char* what, std::int64_t ld, std::int64_t dense) {
    if (ld != 0 && ld != dense) text += fmt::format(" {}={}", what, ld);
  };
  add_ld("lda", lda, transpose_a ? m : k);
  add_ld("ldb", ldb, transpose_b ? k : n);
  if (beta != 0) add_ld("ldc", ldc, n);
  add_ld("ldd", ldd, n);
  if (uses_aux(epilogue)) add_ld("ld_aux", ld_aux, n);
  if (batch != 1)
    text += fmt::format(" batch={} strides={},{},{},{}", batch, stride_a, stride_b,
                        beta != 0 ? stride_c : stride_d, stride_d);
  if (alignment != 16) text += fmt::format(" alignment={}", alignment);
  return text;
}

}  // namespace hydrac::runtime::cuda
