// The tensors of a job: safetensors entries to ATen tensors and back, and the parameters that training
// changes.
#pragma once
#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <vector>

#include "oracle/job/graph.h"
#include "oracle/job/safetensors.h"

namespace hydrac::oracle {

// A copy on `device`: floating-point tensors as `floating` (kDouble or kFloat), integers as kLong.
at::Tensor load_tensor(const TensorView& view, at::ScalarType floating, at::Device device);

// Adds a copy of `tensor`, as F64.
void store_tensor(SafetensorsWriter& writer, const std::string& name, const at::Tensor& tensor);

// `tensor` with the shape that `value` declares. Throws JobError, naming `name`, when the shapes differ,
// except that a tensor of one element may be of any rank.
at::Tensor with_shape_of(const Value& value, const at::Tensor& tensor, const std::string& name);

struct Parameter {
  int value = 0;  // index into Graph::values
  int slot = 0;
  std::string name;   // "attn.qkv.weight.3": value and slot
  at::Tensor tensor;  // a leaf that requires a gradient; updated in place
  bool decays = false;

  at::Tensor gradient() const { return tensor.grad(); }  // undefined: the loss does not depend on it
};

// The matrix after it was stored as Value::nf4 says.
at::Tensor as_stored(const Value& value, const at::Tensor& tensor);

std::string slot_name(const Value& value, int slot);

// Every slot of every parameter of the graph, in the graph's order, as leaves without data yet. Those of the
// values in `decay` get weight decay.
std::vector<Parameter> list_parameters(const Graph& graph, const std::set<std::string>& decay);

}  // namespace hydrac::oracle
