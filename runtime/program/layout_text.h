// Words in which an emitted program writes its ProgramLayout. Pointers count from the arena's start: they are
// those of an arena at nullptr.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program/layout.h"
#include "runtime/program/slots.h"

namespace hydrac::runtime {

inline int64_t offset_of(const void* tensor) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor));
}

inline Place place(const void* tensor, int64_t elements = 1) {
  return {offset_of(tensor), elements};
}

// How parameters start, in the order that numbers them for their random numbers: one, or one a slot.
class Starts {
 public:
  explicit Starts(std::vector<ParameterStart>& list) : list_(list) {}

  void zeros(const float* tensor, int64_t elements) { add(tensor, elements, ParameterStart::Kind::zeros); }
  void zeros(const Slots<float>& tensors, int64_t elements) {
    for (int s = 0; s < tensors.count; ++s) zeros(tensors[s], elements);
  }
  void ones(const float* tensor, int64_t elements) { add(tensor, elements, ParameterStart::Kind::ones); }
  void ones(const Slots<float>& tensors, int64_t elements) {
    for (int s = 0; s < tensors.count; ++s) ones(tensors[s], elements);
  }
  void normal(const float* tensor, int64_t elements, double deviation) {
    add(tensor, elements, ParameterStart::Kind::normal, deviation);
  }
  void normal(const Slots<float>& tensors, int64_t elements, double deviation) {
    for (int s = 0; s < tensors.count; ++s) normal(tensors[s], elements, deviation);
  }

 private:
  void add(const float* tensor, int64_t elements, ParameterStart::Kind kind, double deviation = 0) {
    list_.push_back({place(tensor, elements), kind, deviation});
  }

  std::vector<ParameterStart>& list_;
};

// A tensor under its name in a checkpoint, with its shape there.
template <class T>
NamedTensor named(std::string name, const T* tensor, std::vector<int64_t> shape) {
  static_assert(std::same_as<T, float> || std::same_as<T, int32_t> || std::same_as<T, uint32_t>);
  NamedTensor result{.name = std::move(name), .shape = std::move(shape)};
  result.dtype = std::same_as<T, float>     ? SafetensorsDtype::f32
                 : std::same_as<T, int32_t> ? SafetensorsDtype::i32
                                            : SafetensorsDtype::u32;
  result.address = static_cast<uint64_t>(offset_of(tensor));
  return result;
}

// How a checkpoint's tensor lies in memory: `offset` elements into the program's, and there as [out, in]
// where it is [in, out] in the checkpoint.
struct InMemory {
  int64_t offset = 0;
  bool transposed = false;
};

// Parameters under their names in a checkpoint, with their shapes there: one, or one a layer.
class CheckpointNames {
 public:
  explicit CheckpointNames(std::vector<NamedTensor>& list) : list_(list) {}

  void add(std::string name, const float* tensor, std::vector<int64_t> shape, InMemory form = {}) {
    NamedTensor result = named(std::move(name), tensor, std::move(shape));
    result.address += static_cast<uint64_t>(form.offset) * sizeof(float);
    result.transposed = form.transposed;
    list_.push_back(std::move(result));
  }
  // "model.layers.3.mlp.up_proj.weight" from "model.layers.{}.mlp.up_proj.weight".
  void add_layers(int layers, const std::string& name, const Slots<float>& tensors,
                  const std::vector<int64_t>& shape, InMemory form = {}) {
    for (int l = 0; l < layers; ++l)
      add(std::string(name).replace(name.find("{}"), 2, std::to_string(l)), tensors[l], shape, form);
  }
  // Of a program with one layer.
  void add_layers(int layers, const std::string& name, float* tensor, const std::vector<int64_t>& shape,
                  InMemory form = {}) {
    add_layers(layers, name, Slots<float>{tensor}, shape, form);
  }

 private:
  std::vector<NamedTensor>& list_;
};

}  // namespace hydrac::runtime
