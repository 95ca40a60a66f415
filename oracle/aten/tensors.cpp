#include "oracle/aten/tensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "oracle/job/error.h"
#include "oracle/job/nf4.h"

namespace hydrac::oracle {
namespace {

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "F64") return at::kDouble;
  if (dtype == "F32") return at::kFloat;
  if (dtype == "I32") return at::kInt;
  return at::kLong;  // I64, and U32 once widened
}

}  // namespace

at::Tensor load_tensor(const TensorView& view, at::ScalarType floating, at::Device device) {
  at::Tensor stored = at::empty(view.shape, scalar_type(view.dtype));
  if (view.dtype == "U32") {
    for (std::int64_t i = 0; i < stored.numel(); ++i) {
      std::uint32_t element = 0;
      std::memcpy(&element, view.data + i * sizeof element, sizeof element);
      stored.data_ptr<std::int64_t>()[i] = element;
    }
  } else if (view.bytes > 0) {
    std::memcpy(stored.data_ptr(), view.data, view.bytes);
  }
  return stored.to(device, stored.is_floating_point() ? floating : at::kLong);
}

void store_tensor(SafetensorsWriter& writer, const std::string& name, const at::Tensor& tensor) {
  const at::Tensor doubles = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  writer.add(name, doubles.sizes().vec(), doubles.data_ptr<double>());
}

at::Tensor with_shape_of(const Value& value, const at::Tensor& tensor, const std::string& name) {
  if (tensor.sizes() == at::IntArrayRef(value.shape)) return tensor;
  std::int64_t elements = 1;
  for (const std::int64_t dim : value.shape) elements *= dim;
  if (tensor.numel() != 1 || elements != 1)
    throw JobError(fmt::format("{} has shape [{}]; the graph says [{}]", name,
                               fmt::join(tensor.sizes(), ", "), fmt::join(value.shape, ", ")));
  return tensor.reshape(value.shape);
}

at::Tensor as_stored(const Value& value, const at::Tensor& tensor) {
  if (value.nf4.empty()) return tensor;
  at::Tensor stored = tensor.to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
  double* part = stored.data_ptr<double>();
  for (const std::int64_t rows : value.nf4) {
    store_as_nf4(part, rows * value.shape[1]);
    part += rows * value.shape[1];
  }
  return stored.to(tensor.options());
}

std::string slot_name(const Value& value, int slot) {
  return fmt::format("{}.{}", value.name, slot);
}

std::vector<Parameter> list_parameters(const Graph& graph, const std::set<std::string>& decay) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < static_cast<int>(graph.values.size()); ++i) {
    const Value& value = graph.values[i];
    if (value.role != Role::parameter) continue;
    for (int slot = 0; slot < value.slots; ++slot)
      parameters.push_back({i, slot, slot_name(value, slot), {}, decay.count(value.name) > 0});
  }
  return parameters;
}

}  // namespace hydrac::oracle
