// The part of cuDNN 9's C interface (the backend API of its graph library) that this folder uses, declared by
// hand so that the build needs no cuDNN. The names are cuDNN's in our spelling; tests/unit/cudnn checks every
// value and type against NVIDIA's headers if those are installed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hydrac::runtime::cudnn::abi {

using Handle = void*;      // cudnnHandle_t
using Descriptor = void*;  // cudnnBackendDescriptor_t
using Stream = void*;      // cudaStream_t and CUstream, which are one

enum class Status : int { success = 0, not_supported = 3000 };
// 3000 to 3999: the graph is fine, but nothing in this library runs it here.
constexpr bool is_not_supported(Status status) {
  return static_cast<int>(status) / 1000 == 3;
}

enum class DataType : int { f32 = 0, f16 = 2, i32 = 4, bf16 = 9, boolean = 11 };

enum class DescriptorType : int {
  pointwise = 0,
  engine = 2,
  engine_config = 3,
  engine_heuristics = 4,
  execution_plan = 5,
  knob_choice = 7,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
  reduction = 21,
  operation_reduction = 22,
  operation_reshape = 31,
};

enum class AttributeType : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  void_pointer = 6,
  heuristics_mode = 8,
  knob_type = 9,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
  character = 24,
};

enum class Attribute : int {
  pointwise_mode = 0,
  pointwise_compute_type = 1,
  pointwise_axis = 9,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  engine_config_engine = 300,
  engine_config_knob_choices = 302,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace_size = 402,
  plan_json = 405,
  knob_choice_type = 600,
  knob_choice_value = 601,
  operation_pointwise_descriptor = 750,
  operation_pointwise_x = 751,
  operation_pointwise_b = 752,
  operation_pointwise_y = 753,
  operation_pointwise_t = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  variant_pack_unique_ids = 1000,
  variant_pack_pointers = 1001,
  variant_pack_workspace = 1003,
  engine_global_index = 1301,
  engine_numerical_note = 1303,
  matmul_compute_type = 1500,
  operation_matmul_a = 1520,
  operation_matmul_b = 1521,
  operation_matmul_c = 1522,
  operation_matmul_descriptor = 1523,
  operation_matmul_m_override = 1525,
  operation_matmul_n_override = 1526,
  operation_matmul_k_override = 1527,
  reduction_operator = 1600,
  reduction_compute_type = 1601,
  operation_reduction_x = 1610,
  operation_reduction_y = 1611,
  operation_reduction_descriptor = 1612,
  operation_reshape_x = 2200,
  operation_reshape_y = 2201,
};

enum class PointwiseMode : int {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exp = 13,
  log = 15,
  identity = 21,
  greater_equal = 303,
  less = 304,
  logical_and = 400,
  gen_index = 501,
  select = 601,  // y = t ? x : b
};

enum class ReductionOperator : int { add = 0, max = 3 };

enum class HeuristicsMode : int { fallback = 2, a = 3 };

enum class NumericalNote : int { nondeterministic = 4 };
constexpr int kNumericalNotes = 10;  // how many kinds of note cuDNN 9 knows
constexpr int kKnobTypes = 44;       // in 9.19; a plan sets fewer

// The functions. Every one is in libcudnn.so.9, which opens its sub-libraries by itself.
using GetVersion = std::size_t();
using GetErrorString = const char*(Status);
using GetLastErrorString = void(char* message, std::size_t max_size);
using Create = Status(Handle*);
using Destroy = Status(Handle);
using SetStream = Status(Handle, Stream);
using BackendCreateDescriptor = Status(DescriptorType, Descriptor*);
using BackendDestroyDescriptor = Status(Descriptor);
using BackendFinalize = Status(Descriptor);
using BackendSetAttribute = Status(Descriptor, Attribute, AttributeType, std::int64_t count,
                                   const void* values);
using BackendGetAttribute = Status(Descriptor, Attribute, AttributeType, std::int64_t requested,
                                   std::int64_t* count, void* values);
using BackendExecute = Status(Handle, Descriptor plan, Descriptor variant_pack);

}  // namespace hydrac::runtime::cudnn::abi
