// Matmuls on the GPU through cuBLASLt, row-major, each with the algorithm that was measured to be the fastest
// here and is cached. Same matmul, same GPU, same cache: same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cache/recorded_choices.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

enum class ElementType {
#define HYDRAC_FLOAT(name, bytes, type, stored, blas) name,
#include "runtime/base/dtypes.def"
};
int element_bytes(ElementType type);
const char* name(ElementType type);  // "bf16"
bool is_f8(ElementType type);

// D[m,n] = op(A)[m,k] * op(B)[k,n], everything row-major and dense, sums in float32; plus D itself, plus a
// row of n elements to each row. A weight's gradient dW[out,in] = dY^T X is {m = out, n = in, k = tokens,
// transpose_a}.
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored [k, m] instead of [m, k]
  bool transpose_b = false;  // B is stored [n, k] instead of [k, n]
  // Types of A and B: one type, or both of 8 bits. 8-bit matmuls need transpose_b alone, sizes that are
  // multiples of 16, and capability 89 or newer; a scale per operand multiplies their elements.
  ElementType a = ElementType::f32, b = ElementType::f32;
  ElementType result = ElementType::f32;  // of D and the bias: the operands' type or f32; bf16 beside 8 bits
  bool tf32 = false;        // f32 operands are rounded to tf32 (10 bits of mantissa): much faster
  bool accumulate = false;  // adds to what D holds
  bool bias = false;
  bool beside = false;     // runs at the same time as other kernels
  bool fast_sums = false;  // of 8 bits: sums keep the few bits that the matrix units add with
  std::int64_t batch = 1;  // matmuls of matrices side by side: runtime/batch_stride.h; without a bias

  double flop() const { return 2.0 * double(batch) * double(m) * double(n) * double(k); }
  // "512x768x3072 A^T bf16*bf16->f32 beta=1 C=f32 bias": all that the choice of an algorithm depends on.
  std::string text() const;
};

// On the device, multiples of 16.
struct GemmArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;      // where the problem has one
  const float* a_scale = nullptr;  // of operands of 8 bits
  const float* b_scale = nullptr;
};

// A range of device memory that someone else owns.
struct DeviceRange {
  std::byte* data = nullptr;  // multiple of 256
  std::int64_t bytes = 0;
};

class GemmLibrary;
class GemmDescriptors;
struct GemmChoice;

// A planned matmul. Movable. Not to be run from two threads at once.
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
  // Choices to use without measuring, if this library and GPU are those that they were recorded with.
  RecordedChoices recorded;
  // File that caches choices, one line each, under the GPU's name, the library's and driver's version and the
  // matmul. Empty: every plan measures.
  std::filesystem::path cache_file;
  // Limits of a search: so many candidates, or milliseconds (three are tried in any case). cuBLASLt proposes
  // eight or so, which takes 30 ms for short matmuls; variants of the best take the rest.
  int candidates = 100;
  double search_ms = 250;
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

  // Everything that decides how the matmuls planned so far are rounded: section "cublaslt" with library
  // ("cuBLASLt 13.1.0"), gpu (its name), and under each problem's text() its algorithm.
  RecordedChoices choices() const;

  // True if the recorded choices or the cache know the matmul: then plan() runs nothing and needs no scratch.
  bool remembers(const GemmProblem& problem) const;

  // The least scratch for a search: the workspace and one set of operands. With more (up to 4 L2 caches, or
  // 16 sets, help) it cycles through several sets of operands, so that they come from memory as in a real
  // step.
  std::int64_t scratch_bytes(const GemmProblem& problem) const;

  // Chooses an algorithm: the recorded one, else the remembered one, else the fastest. Candidates are those
  // of cuBLASLt's heuristics, and variants of the best one (other tiles, clusters, splits of k, swizzles).
  // The median of three or more timed runs on random data decides; `scratch` holds the data and is
  // overwritten (nullptr: allocated for this call). A candidate whose first run is far slower than the best
  // one's is dropped, and one that is less than 1% faster than an earlier one does not replace it. Only
  // deterministic algorithms: partial sums of a split k are float32, lie in the workspace and are added in a
  // fixed order; schemes that add in place or in the output's type are left out. RunError: a malformed
  // matmul, one that cuBLASLt has no algorithm for, or a `scratch` that is too small.
  Gemm plan(const GemmProblem& problem, const Stream& stream, DeviceRange scratch = {});

  // For tuning: up to `most` algorithms other than plan()'s, as words of choices(), by their time. A search
  // measures them to take less than a tenth longer than the fastest. `scratch` as for plan().
  std::vector<std::string> alternatives(const GemmProblem& problem, const Stream& stream, DeviceRange scratch,
                                        int most);
  // The matmul with the algorithm that `words` of choices() or alternatives() name; choices() reports it from
  // then on. RunError if this library rejects it.
  Gemm plan_as(const GemmProblem& problem, const std::string& words);

  // Queues the matmul. Allocates nothing, and can be captured once it has run: the first run of an algorithm
  // loads its kernel. `workspace`: gemm.workspace_bytes() of device memory, a multiple of 256, that nothing
  // else uses at the time; may be nullptr if that is 0. RunError if cuBLASLt refuses, or an argument is
  // missing or not aligned.
  void run(const Gemm& gemm, const GemmArguments& arguments, const Stream& stream, void* workspace) const;

 private:
  struct State;
  std::vector<GemmChoice> measured(const GemmProblem& problem, GemmDescriptors& descriptors,
                                   const Stream& stream, DeviceRange scratch) const;
  Gemm planned(std::unique_ptr<Gemm::State> gemm, const GemmChoice& choice);

  std::unique_ptr<State> state_;
};

}  // namespace hydrac::runtime::cuda
