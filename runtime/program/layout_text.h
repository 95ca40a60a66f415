// Words in which an emitted program writes its ProgramLayout. Pointers count from the arena's start: they are
// those of an arena at nullptr.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program/layout.h"

namespace hydrac::runtime {

inline int64_t offset_of(const void* tensor) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor));
}

inline Place place(const void* tensor, int64_t elements = 1) {
  return {offset_of(tensor), elements};
}

inline ParameterStart zeros(const float* tensor, int64_t elements) {
  return {place(tensor, elements), ParameterStart::Kind::zeros, 0};
}
inline ParameterStart ones(const float* tensor, int64_t elements) {
  return {place(tensor, elements), ParameterStart::Kind::ones, 0};
}
inline ParameterStart normal(const float* tensor, int64_t elements, double deviation) {
  return {place(tensor, elements), ParameterStart::Kind::normal, deviation};
}

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

// One that memory holds as [out, in], and the checkpoint as [in, out].
inline NamedTensor transposed(std::string name, const float* tensor, std::vector<int64_t> shape) {
  NamedTensor result = named(std::move(name), tensor, std::move(shape));
  result.transposed = true;
  return result;
}

// "model.layers.3.mlp.up_proj.weight" from "model.layers.{}.mlp.up_proj.weight".
inline std::string of_layer(int layer, std::string name) {
  return name.replace(name.find("{}"), 2, std::to_string(layer));
}

}  // namespace hydrac::runtime
