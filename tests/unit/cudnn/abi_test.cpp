// runtime/cudnn/abi.h says what NVIDIA's own headers say. Built only where those are installed.
#include "runtime/cudnn/abi.h"

#include <cudnn_graph.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace hydrac::runtime::cudnn::abi {
namespace {

// The same number of arguments, each passed alike: integers and enums of one size, or pointers.
template <class Ours, class Theirs>
constexpr bool same_passing() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
           std::is_class_v<Ours> == std::is_class_v<Theirs> &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R(A...), S(B...)>
    : std::bool_constant<same_passing<R, S>() && (same_passing<A, B>() && ...)> {
};

static_assert(SameCall<GetVersion, decltype(cudnnGetVersion)>::value);
static_assert(SameCall<GetErrorString, decltype(cudnnGetErrorString)>::value);
static_assert(SameCall<GetLastErrorString, decltype(cudnnGetLastErrorString)>::value);
static_assert(SameCall<Create, decltype(cudnnCreate)>::value);
static_assert(SameCall<Destroy, decltype(cudnnDestroy)>::value);
static_assert(SameCall<SetStream, decltype(cudnnSetStream)>::value);
static_assert(SameCall<BackendCreateDescriptor, decltype(cudnnBackendCreateDescriptor)>::value);
static_assert(SameCall<BackendDestroyDescriptor, decltype(cudnnBackendDestroyDescriptor)>::value);
static_assert(SameCall<BackendFinalize, decltype(cudnnBackendFinalize)>::value);
static_assert(SameCall<BackendSetAttribute, decltype(cudnnBackendSetAttribute)>::value);
static_assert(SameCall<BackendGetAttribute, decltype(cudnnBackendGetAttribute)>::value);
static_assert(SameCall<BackendExecute, decltype(cudnnBackendExecute)>::value);

template <class Ours, class Theirs>
void expect_same(Ours ours, Theirs theirs, const char* name) {
  EXPECT_EQ(static_cast<long long>(ours), static_cast<long long>(theirs)) << name;
}
#define EXPECT_SAME(ours, theirs) expect_same(ours, theirs, #theirs)

TEST(CudnnAbi, StatusesAndTypesAreNvidias) {
  EXPECT_SAME(Status::success, CUDNN_STATUS_SUCCESS);
  EXPECT_SAME(Status::not_supported, CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_TRUE(is_not_supported(static_cast<Status>(CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE)));
  EXPECT_FALSE(is_not_supported(static_cast<Status>(CUDNN_STATUS_INTERNAL_ERROR)));
  EXPECT_SAME(DataType::f32, CUDNN_DATA_FLOAT);
  EXPECT_SAME(DataType::f16, CUDNN_DATA_HALF);
  EXPECT_SAME(DataType::i32, CUDNN_DATA_INT32);
  EXPECT_SAME(DataType::bf16, CUDNN_DATA_BFLOAT16);
  EXPECT_SAME(DataType::boolean, CUDNN_DATA_BOOLEAN);
  EXPECT_SAME(AttributeType::handle, CUDNN_TYPE_HANDLE);
  EXPECT_SAME(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE);
  EXPECT_SAME(AttributeType::boolean, CUDNN_TYPE_BOOLEAN);
  EXPECT_SAME(AttributeType::int64, CUDNN_TYPE_INT64);
  EXPECT_SAME(AttributeType::void_pointer, CUDNN_TYPE_VOID_PTR);
  EXPECT_SAME(AttributeType::heuristics_mode, CUDNN_TYPE_HEUR_MODE);
  EXPECT_SAME(AttributeType::knob_type, CUDNN_TYPE_KNOB_TYPE);
  EXPECT_SAME(AttributeType::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
  EXPECT_SAME(AttributeType::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
  EXPECT_SAME(AttributeType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  EXPECT_SAME(AttributeType::character, CUDNN_TYPE_CHAR);
  EXPECT_SAME(AttributeType::reduction_operator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
}

TEST(CudnnAbi, DescriptorsAreNvidias) {
  EXPECT_SAME(DescriptorType::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::engine_heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::knob_choice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  EXPECT_SAME(DescriptorType::operation_reshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
}

TEST(CudnnAbi, AttributesOfPlansAreNvidias) {
  EXPECT_SAME(Attribute::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
  EXPECT_SAME(Attribute::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  EXPECT_SAME(Attribute::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  EXPECT_SAME(Attribute::engine_config_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
  EXPECT_SAME(Attribute::engine_config_knob_choices, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  EXPECT_SAME(Attribute::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  EXPECT_SAME(Attribute::plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  EXPECT_SAME(Attribute::plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  EXPECT_SAME(Attribute::plan_json, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  EXPECT_SAME(Attribute::knob_choice_type, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
  EXPECT_SAME(Attribute::knob_choice_value, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  EXPECT_SAME(Attribute::engine_global_index, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  EXPECT_SAME(Attribute::engine_numerical_note, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  EXPECT_SAME(Attribute::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  EXPECT_SAME(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  EXPECT_SAME(Attribute::variant_pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  EXPECT_SAME(Attribute::variant_pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  EXPECT_SAME(Attribute::variant_pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  EXPECT_SAME(HeuristicsMode::fallback, CUDNN_HEUR_MODE_FALLBACK);
  EXPECT_SAME(HeuristicsMode::a, CUDNN_HEUR_MODE_A);
  EXPECT_SAME(NumericalNote::nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  EXPECT_GE(kNumericalNotes, static_cast<int>(CUDNN_NUMERICAL_NOTE_TYPE_COUNT));
  EXPECT_GE(kKnobTypes, static_cast<int>(CUDNN_KNOB_TYPE_COUNTS));
}

TEST(CudnnAbi, AttributesOfOperationsAreNvidias) {
  EXPECT_SAME(Attribute::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  EXPECT_SAME(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
  EXPECT_SAME(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
  EXPECT_SAME(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
  EXPECT_SAME(Attribute::tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  EXPECT_SAME(Attribute::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  EXPECT_SAME(Attribute::tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  EXPECT_SAME(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
  EXPECT_SAME(Attribute::pointwise_compute_type, CUDNN_ATTR_POINTWISE_MATH_PREC);
  EXPECT_SAME(Attribute::pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS);
  EXPECT_SAME(Attribute::operation_pointwise_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  EXPECT_SAME(Attribute::operation_pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  EXPECT_SAME(Attribute::operation_pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  EXPECT_SAME(Attribute::operation_pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  EXPECT_SAME(Attribute::operation_pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  EXPECT_SAME(Attribute::matmul_compute_type, CUDNN_ATTR_MATMUL_COMP_TYPE);
  EXPECT_SAME(Attribute::operation_matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  EXPECT_SAME(Attribute::operation_matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  EXPECT_SAME(Attribute::operation_matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  EXPECT_SAME(Attribute::operation_matmul_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  EXPECT_SAME(Attribute::operation_matmul_m_override, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
  EXPECT_SAME(Attribute::operation_matmul_n_override, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
  EXPECT_SAME(Attribute::operation_matmul_k_override, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
  EXPECT_SAME(Attribute::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
  EXPECT_SAME(Attribute::reduction_compute_type, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  EXPECT_SAME(Attribute::operation_reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  EXPECT_SAME(Attribute::operation_reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  EXPECT_SAME(Attribute::operation_reduction_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  EXPECT_SAME(Attribute::operation_reshape_x, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  EXPECT_SAME(Attribute::operation_reshape_y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  EXPECT_SAME(PointwiseMode::add, CUDNN_POINTWISE_ADD);
  EXPECT_SAME(PointwiseMode::multiply, CUDNN_POINTWISE_MUL);
  EXPECT_SAME(PointwiseMode::divide, CUDNN_POINTWISE_DIV);
  EXPECT_SAME(PointwiseMode::subtract, CUDNN_POINTWISE_SUB);
  EXPECT_SAME(PointwiseMode::exp, CUDNN_POINTWISE_EXP);
  EXPECT_SAME(PointwiseMode::log, CUDNN_POINTWISE_LOG);
  EXPECT_SAME(PointwiseMode::identity, CUDNN_POINTWISE_IDENTITY);
  EXPECT_SAME(PointwiseMode::greater_equal, CUDNN_POINTWISE_CMP_GE);
  EXPECT_SAME(PointwiseMode::less, CUDNN_POINTWISE_CMP_LT);
  EXPECT_SAME(PointwiseMode::logical_and, CUDNN_POINTWISE_LOGICAL_AND);
  EXPECT_SAME(PointwiseMode::gen_index, CUDNN_POINTWISE_GEN_INDEX);
  EXPECT_SAME(PointwiseMode::select, CUDNN_POINTWISE_BINARY_SELECT);
  EXPECT_SAME(ReductionOperator::add, CUDNN_REDUCE_TENSOR_ADD);
  EXPECT_SAME(ReductionOperator::max, CUDNN_REDUCE_TENSOR_MAX);
}

}  // namespace
}  // namespace hydrac::runtime::cudnn::abi
