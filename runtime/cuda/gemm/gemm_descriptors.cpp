#include "runtime/cuda/gemm/gemm_descriptors.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/batch_stride.h"
#include "runtime/cuda/library.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

int blas_type(ElementType type) {
  constexpr int types[] = {
#define HYDRAC_FLOAT(name, bytes, type, stored, blas) abi::kType##blas,
#include "runtime/base/dtypes.def"
  };
  return types[static_cast<int>(type)];
}

// How cuBLASLt is to search.
class Preference {
 public:
  explicit Preference(std::int64_t workspace_bytes) {
    check_blas(cublaslt().cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(abi::kPreferenceWorkspaceBytes, static_cast<std::uint64_t>(workspace_bytes));
    set(abi::kPreferenceReductionMask, abi::kReductionComputeType);
    for (int which : {abi::kPreferenceAlignmentA, abi::kPreferenceAlignmentB, abi::kPreferenceAlignmentC,
                      abi::kPreferenceAlignmentD}) {
      set(which, static_cast<std::uint32_t>(kOperandAlignment));
    }
  }
  ~Preference() { cublaslt().cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  abi::cublasLtMatmulPreference_t handle() const { return preference_; }

 private:
  template <class Value>
  void set(int attribute, Value value) {
    check_blas(cublaslt().cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  }
  abi::cublasLtMatmulPreference_t preference_ = nullptr;
};

constexpr std::uint16_t kFirstCluster = 2, kLastCluster = 51;  // cuBLASLt's numbers for 1x1x1 to 1x15x1

template <class Value>
abi::cublasLtMatmulAlgo_t with(abi::cublasLtMatmulAlgo_t algorithm, int attribute, Value value) {
  check_blas(cublaslt().cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof value),
             "cublasLtMatmulAlgoConfigSetAttribute");
  return algorithm;
}

// The tiles that an algorithm knows, in cuBLASLt's order.
std::vector<std::uint32_t> tiles(const abi::cublasLtMatmulAlgo_t& algorithm) {
  const abi::CublasLtApi& api = cublaslt();
  std::size_t bytes = 0;
  if (api.cublasLtMatmulAlgoCapGetAttribute(&algorithm, abi::kCapabilityTiles, nullptr, 0, &bytes) !=
      abi::kBlasSuccess)
    return {};
  std::vector<std::uint32_t> ids(bytes / sizeof(std::uint32_t));
  check_blas(
      api.cublasLtMatmulAlgoCapGetAttribute(&algorithm, abi::kCapabilityTiles, ids.data(), bytes, &bytes),
      "cublasLtMatmulAlgoCapGetAttribute");
  return ids;
}

bool deterministic(const abi::cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  const auto status = cublaslt().cublasLtMatmulAlgoConfigGetAttribute(&algorithm, abi::kConfigReduction,
                                                                      &scheme, sizeof scheme, &written);
  return status == abi::kBlasSuccess &&
         (scheme == abi::kReductionNone || scheme == abi::kReductionComputeType);
}

}  // namespace

void check_blas(abi::cublasStatus_t status, const char* call) {
  if (status != abi::kBlasSuccess)
    throw RunError(fmt::format("{}: {}", call, cublaslt().cublasLtGetStatusName(status)));
}

void GemmDescriptors::Deleter::operator()(abi::cublasLtMatmulDesc_t desc) const {
  cublaslt().cublasLtMatmulDescDestroy(desc);
}

void GemmDescriptors::Deleter::operator()(abi::cublasLtMatrixLayout_t layout) const {
  cublaslt().cublasLtMatrixLayoutDestroy(layout);
}

// A row-major matrix as the column-major one that has the same memory.
GemmDescriptors::Layout GemmDescriptors::layout_of(const StoredMatrix& matrix) {
  const abi::CublasLtApi& api = cublaslt();
  abi::cublasLtMatrixLayout_t made = nullptr;
  check_blas(api.cublasLtMatrixLayoutCreate(&made, blas_type(matrix.type),
                                            static_cast<std::uint64_t>(matrix.columns),
                                            static_cast<std::uint64_t>(matrix.rows), matrix.columns),
             "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  if (matrix.batch == 1) return layout;
  const auto set = [&](int attribute, const auto& value) {
    check_blas(api.cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
  };
  set(abi::kLayoutBatchCount, static_cast<std::int32_t>(matrix.batch));
  set(abi::kLayoutBatchStride, batch_stride(matrix.rows, matrix.columns));
  return layout;
}

GemmDescriptors::GemmDescriptors(const GemmProblem& problem, int sms) : problem_(problem) {
  check_problem(problem);
  abi::cublasLtMatmulDesc_t made = nullptr;
  const int compute = problem.tf32 ? abi::kCompute32FFastTF32 : abi::kCompute32F;
  check_blas(cublaslt().cublasLtMatmulDescCreate(&made, compute, abi::kType32F), "cublasLtMatmulDescCreate");
  desc_.reset(made);
  const std::int32_t first = problem.transpose_b ? abi::kOpT : abi::kOpN;
  const std::int32_t second = problem.transpose_a ? abi::kOpT : abi::kOpN;
  const std::uint32_t epilogue = problem.bias ? abi::kEpilogueBias : abi::kEpilogueDefault;
  set(abi::kDescTransA, &first, sizeof first);
  set(abi::kDescTransB, &second, sizeof second);
  set(abi::kDescEpilogue, &epilogue, sizeof epilogue);
  if (const std::int32_t some = multiprocessors(problem, sms); some > 0)
    set(abi::kDescMultiprocessors, &some, sizeof some);
  if (const std::int8_t fast = 1; problem.fast_sums) set(abi::kDescFastSums, &fast, sizeof fast);
  a_ = layout_of(stored_a(problem));
  b_ = layout_of(stored_b(problem));
  d_ = layout_of(stored_d(problem));
}

void GemmDescriptors::set(int attribute, const void* value, std::size_t bytes) {
  check_blas(cublaslt().cublasLtMatmulDescSetAttribute(desc_.get(), attribute, value, bytes),
             "cublasLtMatmulDescSetAttribute");
}

void GemmDescriptors::set_pointers(const GemmArguments& arguments) {
  if (problem_.bias) set(abi::kDescBiasPointer, &arguments.bias, sizeof arguments.bias);
  if (!is_f8(problem_.a)) return;
  set(abi::kDescScaleA, &arguments.b_scale, sizeof arguments.b_scale);
  set(abi::kDescScaleB, &arguments.a_scale, sizeof arguments.a_scale);
}

void GemmDescriptors::set_stand_in_pointers() {
  const auto* const somewhere = reinterpret_cast<const float*>(kOperandAlignment);
  set_pointers({.bias = somewhere, .a_scale = somewhere, .b_scale = somewhere});
}

std::vector<abi::cublasLtMatmulHeuristicResult_t> GemmDescriptors::propose(abi::cublasLtHandle_t handle,
                                                                           std::int64_t workspace_bytes,
                                                                           int wanted) {
  const Preference preference(workspace_bytes);
  set_stand_in_pointers();
  std::vector<abi::cublasLtMatmulHeuristicResult_t> results(wanted);
  int found = 0;
  const auto status =
      cublaslt().cublasLtMatmulAlgoGetHeuristic(handle, desc_.get(), b_.get(), a_.get(), d_.get(), d_.get(),
                                                preference.handle(), wanted, results.data(), &found);
  if (status == abi::kBlasNotSupported || status == abi::kBlasInvalidValue ||
      status == abi::kBlasArchMismatch)
    return {};
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(found);
  std::erase_if(results, [](const abi::cublasLtMatmulHeuristicResult_t& result) {
    return result.state != abi::kBlasSuccess || !deterministic(result.algo);
  });
  return results;
}

std::vector<abi::cublasLtMatmulHeuristicResult_t> GemmDescriptors::variants(
    abi::cublasLtHandle_t handle, const abi::cublasLtMatmulAlgo_t& algorithm, Vary what,
    std::int64_t workspace_bytes) {
  std::vector<abi::cublasLtMatmulHeuristicResult_t> found;
  const auto add = [&](abi::cublasLtMatmulAlgo_t changed) {
    std::int64_t needed = 0;
    if (!accepts(handle, changed, &needed) || needed > workspace_bytes || !deterministic(changed)) return;
    abi::cublasLtMatmulHeuristicResult_t result = {};
    result.algo = changed;
    result.workspace_bytes = static_cast<std::size_t>(needed);
    found.push_back(result);
  };
  switch (what) {
    case Vary::tile:
      for (std::uint32_t tile : tiles(algorithm)) add(with(algorithm, abi::kConfigTile, tile));
      break;
    case Vary::cluster:
      for (std::uint16_t shape = kFirstCluster; shape <= kLastCluster; ++shape)
        add(with(algorithm, abi::kConfigCluster, shape));
      break;
    case Vary::split_k:
      for (std::int32_t parts : {1, 2, 3, 4, 6, 8, 12, 16, 32}) {
        const std::uint32_t scheme = parts == 1 ? abi::kReductionNone : abi::kReductionComputeType;
        add(with(with(algorithm, abi::kConfigSplitK, parts), abi::kConfigReduction, scheme));
      }
      break;
    case Vary::swizzle:
      for (std::uint32_t swizzle : {0u, 1u}) add(with(algorithm, abi::kConfigSwizzle, swizzle));
      break;
  }
  return found;
}

bool GemmDescriptors::accepts(abi::cublasLtHandle_t handle, const abi::cublasLtMatmulAlgo_t& algorithm,
                              std::int64_t* workspace_bytes) {
  set_stand_in_pointers();
  abi::cublasLtMatmulHeuristicResult_t result = {};
  const auto status = cublaslt().cublasLtMatmulAlgoCheck(handle, desc_.get(), b_.get(), a_.get(), d_.get(),
                                                         d_.get(), &algorithm, &result);
  *workspace_bytes = static_cast<std::int64_t>(result.workspace_bytes);
  return status == abi::kBlasSuccess && result.state == abi::kBlasSuccess;
}

abi::cublasStatus_t GemmDescriptors::run(abi::cublasLtHandle_t handle,
                                         const abi::cublasLtMatmulAlgo_t& algorithm,
                                         const GemmArguments& arguments, const Stream& stream,
                                         void* workspace, std::int64_t workspace_bytes) {
  set_pointers(arguments);
  const float alpha = 1, beta = problem_.accumulate ? 1 : 0;
  return cublaslt().cublasLtMatmul(handle, desc_.get(), &alpha, arguments.b, b_.get(), arguments.a, a_.get(),
                                   &beta, arguments.d, d_.get(), arguments.d, d_.get(), &algorithm, workspace,
                                   static_cast<std::size_t>(workspace_bytes), stream.handle());
}

}  // namespace hydrac::runtime::cuda
