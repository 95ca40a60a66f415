// Matrix products on the GPU through cuBLASLt: row-major, with fused epilogues, each product by the algorithm
// that was measured to be the fastest here and is remembered. Same product, same GPU, same cache: same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

enum class ElementType { f32, bf16, f16, fp8_e4m3, fp8_e5m2 };
int element_bytes(ElementType type);
const char* name(ElementType type);  // "bf16", "e4m3"

// What happens to P = alpha op(A) op(B) + beta C before it is stored as D. `bias` and `aux` are in
// GemmArguments; both have D's element type. aux is [m, n] with rows of ld_aux elements. gelu is the tanh
// approximation.
enum class Epilogue {
  none,
  bias,                 // D = P + bias[n], the same for every row
  relu,                 // D = relu(P)
  relu_bias,            // D = relu(P + bias[n])
  gelu,                 // D = gelu(P)
  gelu_bias,            // D = gelu(P + bias[n])
  gelu_aux,             // aux = P;            D = gelu(aux)
  gelu_aux_bias,        // aux = P + bias[n];  D = gelu(aux)
  dgelu,                // D = P * gelu'(aux); aux is read
  dgelu_bias_gradient,  // the same, and bias[n] = sum of D over its m rows is written
  bias_gradient_a,      // D = P, and bias[m] = sum of op(A)[m, k] over k is written; transpose_a only
  bias_gradient_b,      // D = P, and bias[n] = sum of op(B)[k, n] over k is written; not transpose_b
};
const char* name(Epilogue epilogue);  // "gelu_aux_bias"

// D[m,n] = epilogue(alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n]), everything row-major, sums in float32.
// A weight's gradient dW[out,in] = dY^T X is {m = out, n = in, k = tokens, transpose_a}, and its
// bias_gradient_a is the bias's gradient.
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored [k, m] instead of [m, k]
  bool transpose_b = false;  // B is stored [n, k] instead of [k, n]
  // Elements from one stored row to the next; 0: rows lie dense.
  std::int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0, ld_aux = 0;  // ld_aux: a multiple of 8
  // a = b = f32 | bf16 | f16, with c = d of the same type or f32; or fp8 (capability 89 and newer; not both
  // e5m2), only as A [m,k] times B stored [n,k], with k and n multiples of 16.
  ElementType a = ElementType::f32, b = ElementType::f32, c = ElementType::f32, d = ElementType::f32;
  bool tf32 = false;             // f32 operands are rounded to tf32 (10 bits of mantissa): much faster
  bool fast_accumulate = false;  // fp8: sums of fewer bits, faster
  float alpha = 1.0f;
  float beta = 0.0f;  // 0: C is not read
  Epilogue epilogue = Epilogue::none;
  // Several products of the same shape, at these distances in elements between one and the next.
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0;
  // Every address given to run() is a multiple of this many bytes (a power of two). Below 16 is slow.
  std::int64_t alignment = 16;

  double flop() const { return 2.0 * double(m) * double(n) * double(k) * double(batch); }
  // "512x768x3072 A^T bf16*bf16->f32 beta=1 bias": all that the choice of an algorithm depends on.
  std::string text() const;
};

struct GemmArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // may be d; nullptr means d
  void* d = nullptr;
  void* bias = nullptr;
  void* aux = nullptr;
  // fp8, on the device, multiples of 16: what A's and B's values are multiplied by; nullptr is 1.
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
};

// A range of device memory that someone else owns.
struct DeviceRange {
  std::byte* data = nullptr;  // multiple of 256
  std::int64_t bytes = 0;
};

class GemmLibrary;

// A planned product. Movable. Not to be run from two threads at once.
class Gemm {
 public:
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  ~Gemm();

  const GemmProblem& problem() const;
  std::int64_t workspace_bytes() const;  // run() needs this much; often 0
  double ms() const;                     // median when it was chosen, operands not in the L2 cache
  // "algorithm 66, tile 184, cluster 3, stages 35, split-k 1, swizzle 0, 0 B workspace, 0.4120 ms, best of
  // 57": numbers of cublasLt.h's enumerations.
  const std::string& description() const;

 private:
  friend class GemmLibrary;
  struct State;
  explicit Gemm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct GemmOptions {
  // The most workspace that an algorithm may ask for; -1: 64 MiB on capability 90 and newer, else 32 MiB.
  std::int64_t workspace_bytes = -1;
  // Where choices are remembered, one line each, under the GPU's name, the library's and driver's version and
  // the product. Empty: every plan measures.
  std::filesystem::path cache_file;
  // What ends a search: so many candidates, or milliseconds (three are tried in any case).
  int candidates = 100;
  double search_ms = 250;
  // Also try variants of the best proposal: its other tiles, clusters, splits of k and swizzles. cuBLASLt
  // proposes eight or so, which takes 30 ms where products are short; variants take the rest of search_ms.
  bool variants = false;
};

// One handle of cuBLASLt, for the current context, which must outlive it. For one thread at a time.
class GemmLibrary {
 public:
  // Throws InputError that says what to install when cuBLASLt is not there.
  explicit GemmLibrary(const Context& context, const GemmOptions& options = {});
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // "cuBLASLt 13.1.0"
  const std::string& version() const;
  std::int64_t max_workspace_bytes() const;

  // Whether the cache knows the product: then plan() runs nothing and needs no scratch.
  bool remembers(const GemmProblem& problem) const;

  // What a search needs at least: the workspace and one set of operands. With more (up to 4 L2 caches, or 16
  // sets, are of use) it goes round several sets of operands, so that they come from memory as in a real
  // step.
  std::int64_t scratch_bytes(const GemmProblem& problem) const;

  // Chooses an algorithm: the remembered one, or the fastest of those that cuBLASLt's heuristics propose
  // (and, where wanted, of variants), by the median of three or more timed runs on random data in `scratch`
  // (overwritten; allocated for the time of the call when its data is nullptr). A candidate whose first run
  // is far slower than the best one's is given up; one that is less than 1% faster than an earlier one does
  // not replace it. Only deterministic algorithms: partial sums of a split k are float32, lie in the
  // workspace and are added in a fixed order; schemes that add in place or in the output's type are left out.
  // Throws RunError when a product is malformed, when cuBLASLt has no algorithm for it, or when `scratch` is
  // too small.
  Gemm plan(const GemmProblem& problem, const Stream& stream, DeviceRange scratch = {});
  // The same, but nullopt when cuBLASLt has no algorithm for this product on this GPU (it lacks some
  // epilogues).
  std::optional<Gemm> try_plan(const GemmProblem& problem, const Stream& stream, DeviceRange scratch = {});

  // Queues the product. Allocates nothing, and can be captured once it has run: the first run of an algorithm
  // loads its kernel. `workspace`: gemm.workspace_bytes() of device memory, a multiple of 256, that nothing
  // else uses at the time; may be nullptr when that is 0. Throws RunError when cuBLASLt refuses, or an
  // argument is missing or not aligned as the plan says.
  void run(const Gemm& gemm, const GemmArguments& arguments, const Stream& stream, void* workspace) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrac::runtime::cuda
