#include "runtime/cudnn/graph.h"

#include <utility>

namespace hydrac::runtime::cudnn {
namespace {

using abi::Attribute;
using abi::DataType;
using abi::DescriptorType;

void set_tensor(Descriptor& operation, Attribute attribute, const Tensor& tensor) {
  operation.set(attribute, *tensor.descriptor);
}

}  // namespace

Shape dense_strides(const Shape& shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

Descriptor& GraphBuilder::add_operation(DescriptorType type) {
  Descriptor& operation = parts_.emplace_back(library_, type);
  operations_.push_back(&operation);
  return operation;
}

Descriptor& GraphBuilder::make_tensor(std::int64_t id, DataType type, const Shape& shape,
                                      const Shape& strides) {
  constexpr std::int64_t alignment = 16;
  Descriptor& tensor = parts_.emplace_back(library_, DescriptorType::tensor);
  tensor.set(Attribute::tensor_data_type, type);
  tensor.set_all(Attribute::tensor_dimensions, std::vector(shape.begin(), shape.end()));
  tensor.set_all(Attribute::tensor_strides, std::vector(strides.begin(), strides.end()));
  tensor.set(Attribute::tensor_unique_id, id);
  tensor.set(Attribute::tensor_alignment, alignment);
  return tensor;
}

Tensor GraphBuilder::external(std::int64_t id, DataType type, const Shape& shape, const Shape& strides) {
  Descriptor& tensor = make_tensor(id, type, shape, strides);
  tensor.finalize("a tensor");
  return {&tensor, shape, strides};
}

Tensor GraphBuilder::inside(const Shape& shape, const Shape& strides, DataType type) {
  Descriptor& tensor = make_tensor(next_id_++, type, shape, strides);
  tensor.set(Attribute::tensor_is_virtual, true);
  tensor.finalize("a tensor inside the graph");
  return {&tensor, shape, strides};
}

Tensor GraphBuilder::scalar(float value) {
  const Shape ones{1, 1, 1, 1};
  scalars_.push_back({next_id_++, value});
  Descriptor& tensor = make_tensor(scalars_.back().id, DataType::f32, ones, ones);
  tensor.set(Attribute::tensor_is_by_value, true);
  tensor.finalize("a scalar");
  return {&tensor, ones, ones};
}

void GraphBuilder::matmul(const Tensor& a, const Tensor& b, const Tensor& c, const MatmulSizes& counted) {
  Descriptor& kind = parts_.emplace_back(library_, DescriptorType::matmul);
  kind.set(Attribute::matmul_compute_type, DataType::f32);
  kind.finalize("a kind of matmul");
  Descriptor& operation = add_operation(DescriptorType::operation_matmul);
  set_tensor(operation, Attribute::operation_matmul_a, a);
  set_tensor(operation, Attribute::operation_matmul_b, b);
  set_tensor(operation, Attribute::operation_matmul_c, c);
  operation.set(Attribute::operation_matmul_descriptor, kind);
  if (counted.rows != nullptr) set_tensor(operation, Attribute::operation_matmul_m_override, *counted.rows);
  if (counted.columns != nullptr)
    set_tensor(operation, Attribute::operation_matmul_n_override, *counted.columns);
  if (counted.summands != nullptr)
    set_tensor(operation, Attribute::operation_matmul_k_override, *counted.summands);
  operation.finalize("a matmul");
}

Descriptor GraphBuilder::pointwise_kind(abi::PointwiseMode mode, DataType compute,
                                        std::optional<std::int64_t> axis) {
  Descriptor kind(library_, DescriptorType::pointwise);
  kind.set(Attribute::pointwise_mode, mode);
  kind.set(Attribute::pointwise_compute_type, compute);
  if (axis.has_value()) kind.set(Attribute::pointwise_axis, *axis);
  kind.finalize("a kind of pointwise operation");
  return kind;
}

void GraphBuilder::add_pointwise(const Descriptor& kind, const Tensor& x, const Tensor* b, const Tensor* t,
                                 const Tensor& y) {
  Descriptor& operation = add_operation(DescriptorType::operation_pointwise);
  operation.set(Attribute::operation_pointwise_descriptor, kind);
  set_tensor(operation, Attribute::operation_pointwise_x, x);
  if (b != nullptr) set_tensor(operation, Attribute::operation_pointwise_b, *b);
  if (t != nullptr) set_tensor(operation, Attribute::operation_pointwise_t, *t);
  set_tensor(operation, Attribute::operation_pointwise_y, y);
  operation.finalize("a pointwise operation");
}

void GraphBuilder::pointwise(abi::PointwiseMode mode, const Tensor& x, const Tensor* b, const Tensor* t,
                             const Tensor& y, DataType compute) {
  parts_.push_back(pointwise_kind(mode, compute, std::nullopt));
  add_pointwise(parts_.back(), x, b, t, y);
}

Tensor GraphBuilder::map(abi::PointwiseMode mode, const Tensor& x, const Tensor& b) {
  const Tensor y = inside(x.shape, x.strides);
  pointwise(mode, x, &b, nullptr, y);
  return y;
}

Tensor GraphBuilder::map(abi::PointwiseMode mode, const Tensor& x) {
  const Tensor y = inside(x.shape, x.strides);
  pointwise(mode, x, nullptr, nullptr, y);
  return y;
}

Tensor GraphBuilder::index(const Tensor& like, std::int64_t axis, DataType compute) {
  const Tensor y = inside(like.shape, like.strides, DataType::i32);
  parts_.push_back(pointwise_kind(abi::PointwiseMode::gen_index, compute, axis));
  add_pointwise(parts_.back(), like, nullptr, nullptr, y);
  return y;
}

Tensor GraphBuilder::test(abi::PointwiseMode mode, const Tensor& x, const Tensor& b) {
  const Tensor y = inside(x.shape, x.strides, DataType::boolean);
  pointwise(mode, x, &b, nullptr, y, DataType::boolean);
  return y;
}

Tensor GraphBuilder::select(const Tensor& condition, const Tensor& where_true, const Tensor& where_false) {
  const Tensor y = inside(where_true.shape, where_true.strides);
  pointwise(abi::PointwiseMode::select, where_true, &where_false, &condition, y);
  return y;
}

void GraphBuilder::reduce(abi::ReductionOperator op, const Tensor& x, const Tensor& y) {
  Descriptor& kind = parts_.emplace_back(library_, DescriptorType::reduction);
  kind.set(Attribute::reduction_operator, op);
  kind.set(Attribute::reduction_compute_type, DataType::f32);
  kind.finalize("a kind of reduction");
  Descriptor& operation = add_operation(DescriptorType::operation_reduction);
  operation.set(Attribute::operation_reduction_descriptor, kind);
  set_tensor(operation, Attribute::operation_reduction_x, x);
  set_tensor(operation, Attribute::operation_reduction_y, y);
  operation.finalize("a reduction");
}

void GraphBuilder::reshape(const Tensor& x, const Tensor& y) {
  Descriptor& operation = add_operation(DescriptorType::operation_reshape);
  set_tensor(operation, Attribute::operation_reshape_x, x);
  set_tensor(operation, Attribute::operation_reshape_y, y);
  operation.finalize("a reshape");
}

OperationGraph GraphBuilder::finish(abi::Handle handle) {
  Descriptor graph(library_, DescriptorType::operation_graph);
  if (handle != nullptr) graph.set(Attribute::graph_handle, abi::AttributeType::handle, 1, &handle);
  graph.set_all(Attribute::graph_operations, operations_);
  graph.finalize("the operation graph");
  return {std::move(parts_), std::move(graph), std::move(scalars_)};
}

}  // namespace hydrac::runtime::cudnn
