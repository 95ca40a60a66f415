#include "runtime/cuda/gemm_descriptors.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cuda/library.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

int blas_type(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return abi::kType32F;
    case ElementType::bf16:
      return abi::kType16BF;
    case ElementType::f16:
      return abi::kType16F;
    case ElementType::fp8_e4m3:
      return abi::kType8FE4M3;
    case ElementType::fp8_e5m2:
      return abi::kType8FE5M2;
  }
  return abi::kType32F;
}

std::uint32_t blas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return abi::kEpilogueDefault;
    case Epilogue::bias:
      return abi::kEpilogueBias;
    case Epilogue::relu:
      return abi::kEpilogueRelu;
    case Epilogue::relu_bias:
      return abi::kEpilogueReluBias;
    case Epilogue::gelu:
      return abi::kEpilogueGelu;
    case Epilogue::gelu_bias:
      return abi::kEpilogueGeluBias;
    case Epilogue::gelu_aux:
      return abi::kEpilogueGeluAux;
    case Epilogue::gelu_aux_bias:
      return abi::kEpilogueGeluAuxBias;
    case Epilogue::dgelu:
      return abi::kEpilogueDgelu;
    case Epilogue::dgelu_bias_gradient:
      return abi::kEpilogueDgeluBiasGradient;
    case Epilogue::bias_gradient_a:  // ours and theirs are swapped
      return abi::kEpilogueBiasGradientB;
    case Epilogue::bias_gradient_b:
      return abi::kEpilogueBiasGradientA;
  }
  return abi::kEpilogueDefault;
}

// How cuBLASLt is to search.
class Preference {
 public:
  Preference(const GemmProblem& problem, std::int64_t workspace_bytes) {
    check_blas(cublaslt().cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(abi::kPreferenceWorkspaceBytes, static_cast<std::uint64_t>(workspace_bytes));
    set(abi::kPreferenceReductionMask, abi::kReductionComputeType);
    for (int which : {abi::kPreferenceAlignmentA, abi::kPreferenceAlignmentB, abi::kPreferenceAlignmentC,
                      abi::kPreferenceAlignmentD}) {
      set(which, static_cast<std::uint32_t>(problem.alignment));
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
GemmDescriptors::Layout GemmDescriptors::layout_of(const StoredMatrix& matrix, std::int64_t batch) {
  const abi::CublasLtApi& api = cublaslt();
  abi::cublasLtMatrixLayout_t made = nullptr;
  check_blas(api.cublasLtMatrixLayoutCreate(&made, blas_type(matrix.type),
                                            static_cast<std::uint64_t>(matrix.columns),
                                            static_cast<std::uint64_t>(matrix.rows), matrix.ld),
             "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  if (batch == 1) return layout;
  const auto count = static_cast<std::int32_t>(batch);
  check_blas(api.cublasLtMatrixLayoutSetAttribute(made, abi::kLayoutBatchCount, &count, sizeof count),
             "cublasLtMatrixLayoutSetAttribute");
  check_blas(api.cublasLtMatrixLayoutSetAttribute(made, abi::kLayoutBatchStride, &matrix.stride,
                                                  sizeof matrix.stride),
             "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

GemmDescriptors::GemmDescriptors(const GemmProblem& problem) : problem_(problem) {
  check_problem(problem);
  abi::cublasLtMatmulDesc_t made = nullptr;
  const int compute = problem.tf32 ? abi::kCompute32FFastTF32 : abi::kCompute32F;
  check_blas(cublaslt().cublasLtMatmulDescCreate(&made, compute, abi::kType32F), "cublasLtMatmulDescCreate");
  desc_.reset(made);
  const std::int32_t first = problem.transpose_b ? abi::kOpT : abi::kOpN;
  const std::int32_t second = problem.transpose_a ? abi::kOpT : abi::kOpN;
  const std::uint32_t epilogue = blas_epilogue(problem.epilogue);
  set(abi::kDescTransA, &first, sizeof first);
  set(abi::kDescTransB, &second, sizeof second);
  set(abi::kDescEpilogue, &epilogue, sizeof epilogue);
  if (uses_aux(problem.epilogue)) {
    const std::int64_t ld = aux_ld(problem);
    set(abi::kDescAuxLd, &ld, sizeof ld);
  }
  if (problem.fast_accumulate) {
    const std::int8_t fast = 1;
    set(abi::kDescFastAccumulation, &fast, sizeof fast);
  }
  a_ = layout_of(stored_a(problem), problem.batch);
  b_ = layout_of(stored_b(problem), problem.batch);
  c_ = layout_of(stored_c(problem), problem.batch);
  d_ = layout_of(stored_d(problem), problem.batch);
}

void GemmDescriptors::set(int attribute, const void* value, std::size_t bytes) {
  check_blas(cublaslt().cublasLtMatmulDescSetAttribute(desc_.get(), attribute, value, bytes),
             "cublasLtMatmulDescSetAttribute");
}

void GemmDescriptors::set_pointers(const GemmArguments& arguments) {
  if (uses_bias(problem_.epilogue)) set(abi::kDescBiasPointer, &arguments.bias, sizeof arguments.bias);
  if (uses_aux(problem_.epilogue)) set(abi::kDescAuxPointer, &arguments.aux, sizeof arguments.aux);
  if (!is_fp8(problem_)) return;
  set(abi::kDescScaleA, &arguments.scale_b, sizeof arguments.scale_b);
  set(abi::kDescScaleB, &arguments.scale_a, sizeof arguments.scale_a);
}

void GemmDescriptors::set_stand_in_pointers() {
  GemmArguments stand_in;
  stand_in.bias = stand_in.aux = reinterpret_cast<void*>(problem_.alignment);
  stand_in.scale_a = stand_in.scale_b = reinterpret_cast<const float*>(std::uintptr_t{16});
  set_pointers(stand_in);
}

std::vector<abi::cublasLtMatmulHeuristicResult_t> GemmDescriptors::propose(abi::cublasLtHandle_t handle,
                                                                           std::int64_t workspace_bytes,
                                                                           int wanted) {
  const Preference preference(problem_, workspace_bytes);
  set_stand_in_pointers();
  std::vector<abi::cublasLtMatmulHeuristicResult_t> results(wanted);
  int found = 0;
  const auto status =
      cublaslt().cublasLtMatmulAlgoGetHeuristic(handle, desc_.get(), b_.get(), a_.get(), c_.get(), d_.get(),
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
  const auto status = cublaslt().cublasLtMatmulAlgoCheck(handle, desc_.get(), b_.get(), a_.get(), c_.get(),
                                                         d_.get(), &algorithm, &result);
  *workspace_bytes = static_cast<std::int64_t>(result.workspace_bytes);
  return status == abi::kBlasSuccess && result.state == abi::kBlasSuccess;
}

abi::cublasStatus_t GemmDescriptors::run(abi::cublasLtHandle_t handle,
                                         const abi::cublasLtMatmulAlgo_t& algorithm,
                                         const GemmArguments& arguments, const Stream& stream,
                                         void* workspace, std::int64_t workspace_bytes) {
  set_pointers(arguments);
  const void* c = problem_.beta == 0 || arguments.c == nullptr ? arguments.d : arguments.c;
  return cublaslt().cublasLtMatmul(handle, desc_.get(), &problem_.alpha, arguments.b, b_.get(), arguments.a,
                                   a_.get(), &problem_.beta, c, c_.get(), arguments.d, d_.get(), &algorithm,
                                   workspace, static_cast<std::size_t>(workspace_bytes), stream.handle());
}

}  // namespace hydrac::runtime::cuda
