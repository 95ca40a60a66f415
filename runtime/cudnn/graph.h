// A graph of cuDNN operations on tensors of four dimensions [batch, head, row, column].
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/cudnn/descriptor.h"

namespace hydrac::runtime::cudnn {

using Shape = std::array<std::int64_t, 4>;
// Elements between neighbours; `shape` stored densely, the last dimension contiguous.
Shape dense_strides(const Shape& shape);

// A tensor of one GraphBuilder, which owns what is behind it.
struct Tensor {
  const Descriptor* descriptor = nullptr;
  Shape shape{};
  Shape strides{};
};

// A number that is part of a graph: cuDNN asks for it by its id, in host memory, at every run.
struct Scalar {
  std::int64_t id = 0;
  float value = 0;
};

struct OperationGraph {
  std::deque<Descriptor> parts;  // what `descriptor` refers to
  Descriptor descriptor;
  std::vector<Scalar> scalars;
};

// int32 [batch,1,1,1] tensors with the rows, columns and summands of a matmul that count in each batch;
// null: all.
struct MatmulSizes {
  const Tensor* rows = nullptr;
  const Tensor* columns = nullptr;
  const Tensor* summands = nullptr;
};

// Adds operations in the order in which cuDNN is to see them. Results that stay inside the graph are float32
// unless stated; they never reach memory if cuDNN fuses the graph.
class GraphBuilder {
 public:
  explicit GraphBuilder(const Library& library) : library_(library) {}

  // In device memory at run time, at the address given for `id` (a multiple of 16).
  Tensor external(std::int64_t id, abi::DataType type, const Shape& shape, const Shape& strides);
  // Made and used up in the graph.
  Tensor inside(const Shape& shape, const Shape& strides, abi::DataType type = abi::DataType::f32);
  // A scalar of shape [1,1,1,1], float32.
  Tensor scalar(float value);

  // c = a b, summed in float32; a smaller number of heads in b is shared by groups of a's.
  void matmul(const Tensor& a, const Tensor& b, const Tensor& c, const MatmulSizes& counted = {});
  // y = mode(x, b), or t ? x : b. Computed in `compute`.
  void pointwise(abi::PointwiseMode mode, const Tensor& x, const Tensor* b, const Tensor* t, const Tensor& y,
                 abi::DataType compute = abi::DataType::f32);
  // The result of pointwise() inside the graph, shaped like x.
  Tensor map(abi::PointwiseMode mode, const Tensor& x, const Tensor& b);
  Tensor map(abi::PointwiseMode mode, const Tensor& x);
  // The index of each element in dimension `axis`, as int32.
  Tensor index(const Tensor& like, std::int64_t axis, abi::DataType compute);
  // mode(x, b) for comparisons and logic; boolean.
  Tensor test(abi::PointwiseMode mode, const Tensor& x, const Tensor& b);
  // condition ? where_true : where_false
  Tensor select(const Tensor& condition, const Tensor& where_true, const Tensor& where_false);
  // Over the dimensions in which y has size 1 and x has not (heads: over groups).
  void reduce(abi::ReductionOperator op, const Tensor& x, const Tensor& y);
  // The same elements under other shape and strides.
  void reshape(const Tensor& x, const Tensor& y);

  // Call once, last. Without a handle cuDNN checks the graph, but makes no plans for it.
  OperationGraph finish(abi::Handle handle);

 private:
  Descriptor& add_operation(abi::DescriptorType type);
  Descriptor& make_tensor(std::int64_t id, abi::DataType type, const Shape& shape, const Shape& strides);
  Descriptor pointwise_kind(abi::PointwiseMode mode, abi::DataType compute, std::optional<std::int64_t> axis);
  void add_pointwise(const Descriptor& kind, const Tensor& x, const Tensor* b, const Tensor* t,
                     const Tensor& y);

  const Library& library_;
  std::deque<Descriptor> parts_;  // a deque: tensors and operations keep their places
  std::vector<const Descriptor*> operations_;
  std::vector<Scalar> scalars_;
  std::int64_t next_id_ = 1000;  // the caller's ids are smaller
};

}  // namespace hydrac::runtime::cudnn
