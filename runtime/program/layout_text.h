// The vocabulary in which an emitted program writes its ProgramLayout. Pointers are offsets: those of an
// arena at nullptr.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program/layout.h"
#include "runtime/program/nf4.h"
#include "runtime/program/shared_bytes.h"
#include "runtime/program/slots.h"
#include "runtime/program/split_parameter.h"

namespace hydrac {
struct bf16;  // of cuda/types.cuh
struct f16;
}  // namespace hydrac

namespace hydrac::runtime {

inline int64_t offset_of(const void* tensor) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor));
}

inline Place place(const void* tensor, int64_t elements = 1) {
  return {offset_of(tensor), elements};
}

// The type of T's elements in a checkpoint.
template <class T>
constexpr SafetensorsDtype stored_type() {
  if constexpr (std::same_as<T, float>) {
    return SafetensorsDtype::f32;
  } else if constexpr (std::same_as<T, bf16>) {
    return SafetensorsDtype::bf16;
  } else if constexpr (std::same_as<T, f16>) {
    return SafetensorsDtype::f16;
  } else if constexpr (std::same_as<T, int32_t>) {
    return SafetensorsDtype::i32;
  } else if constexpr (std::same_as<T, uint32_t>) {
    return SafetensorsDtype::u32;
  } else {
    static_assert(std::same_as<T, uint8_t>);  // codes of an optimizer's moments
    return SafetensorsDtype::u8;
  }
}

template <class P, class G>
GradientPlace gradients(const P* parameters, const G* gradients, int64_t elements) {
  return {place(parameters, elements), place(gradients, elements), stored_type<P>(), stored_type<G>()};
}

// A matrix as 4-bit codes (runtime/program/nf4.h), or one in each slot: its three tensors, and the number of
// elements in each part that was quantized by itself.
template <class Codes, class Groups>  // pointers or Slots
struct Nf4Tensors {
  Codes codes, block_codes;
  Groups groups;
  std::vector<int64_t> parts;

  // Places of one slot.
  std::vector<Nf4Place> places(int slot) const {
    Nf4Place next{address(codes, slot), address(block_codes, slot), address(groups, slot)};
    std::vector<Nf4Place> list;
    for (const int64_t elements : parts) {
      next.elements = elements;
      list.push_back(next);
      next = behind(next);
    }
    return list;
  }
  int slots() const {
    if constexpr (requires { codes.count; })
      return codes.count;
    else
      return 1;
  }

 private:
  template <class Tensors>
  static uint64_t address(const Tensors& tensors, int slot) {
    if constexpr (requires { tensors.count; })
      return static_cast<uint64_t>(offset_of(tensors[slot]));
    else
      return static_cast<uint64_t>(offset_of(tensors));
  }
};

template <class Codes, class Groups>
Nf4Tensors<Codes, Groups> nf4(Codes codes, Codes block_codes, Groups groups, std::vector<int64_t> parts) {
  return {codes, block_codes, groups, std::move(parts)};
}

// A parameter, or one a slot, of which ranks that share layers have parts each.
template <class Tensors>  // T* or Slots<T>
struct SplitTensors {
  Tensors tensors;
  const SplitParameter& parameter;
};
template <class Tensors>
SplitTensors<Tensors> split(const Tensors& tensors, const SplitParameter& parameter) {
  return {tensors, parameter};
}
template <class T>
std::vector<TensorPiece> pieces_of(const SplitTensors<T*>& of, int64_t first_row, int64_t rows) {
  return pieces_of(of.parameter, first_row, rows, 0, static_cast<uint64_t>(offset_of(of.tensors)), sizeof(T));
}

// How parameters start, in the order that numbers them for their random numbers: one, or one a slot.
class Starts {
 public:
  explicit Starts(std::vector<ParameterStart>& list) : list_(list) {}

  // First elements of the tensors; for SplitTensors, rows of the whole parameter.
  template <class Tensors>  // const T*, Slots<T> or SplitTensors
  void zeros(const Tensors& tensors, int64_t elements) {
    add(tensors, elements, ParameterStart::Kind::zeros);
  }
  template <class Tensors>
  void ones(const Tensors& tensors, int64_t elements) {
    add(tensors, elements, ParameterStart::Kind::ones);
  }
  template <class Tensors>
  void constant(const Tensors& tensors, int64_t elements, double number) {
    add(tensors, elements, ParameterStart::Kind::constant, number);
  }
  template <class Tensors>
  void normal(const Tensors& tensors, int64_t elements, double deviation) {
    add(tensors, elements, ParameterStart::Kind::normal, deviation);
  }
  template <class Codes, class Groups>
  void normal(const Nf4Tensors<Codes, Groups>& tensors, double deviation) {
    for (int s = 0; s < tensors.slots(); ++s)
      list_.push_back(
          {{}, ParameterStart::Kind::normal, deviation, SafetensorsDtype::f32, tensors.places(s)});
  }
  template <class Tensors>
  void uniform(const Tensors& tensors, int64_t elements, double bound) {
    add(tensors, elements, ParameterStart::Kind::uniform, bound);
  }

 private:
  template <class T>
  void add(T* tensor, int64_t elements, ParameterStart::Kind kind, double number = 0) {
    list_.push_back({place(tensor, elements), kind, number, stored_type<T>()});
  }
  template <class T>
  void add(const Slots<T>& tensors, int64_t elements, ParameterStart::Kind kind, double number = 0) {
    for (int s = 0; s < tensors.count; ++s) add(tensors[s], elements, kind, number);
  }
  template <class T>
  void add(const SplitTensors<T*>& of, int64_t rows, ParameterStart::Kind kind, double number = 0) {
    list_.push_back({{}, kind, number, stored_type<T>(), {}, pieces_of(of, 0, rows)});
  }
  template <class T>
  void add(const SplitTensors<Slots<T>>& of, int64_t rows, ParameterStart::Kind kind, double number = 0) {
    for (int s = 0; s < of.tensors.count; ++s) add(split(of.tensors[s], of.parameter), rows, kind, number);
  }

  std::vector<ParameterStart>& list_;
};

// A tensor under its name in a checkpoint, with its shape there.
template <class T>
NamedTensor named(std::string name, const T* tensor, std::vector<int64_t> shape) {
  NamedTensor result{.name = std::move(name), .shape = std::move(shape), .dtype = stored_type<T>()};
  result.address = static_cast<uint64_t>(offset_of(tensor));
  return result;
}

// Sharded parameters: each of `ranks` ranks has `own` elements of each of `slots` consecutive slots. The
// addresses of `whole` are placeholders.
struct Division {
  int64_t ranks, own, slots;
};
template <class T>
void divide(ProgramLayout& layout, const T* whole, const T* own, const Division& division) {
  const int64_t bytes = division.own * static_cast<int64_t>(sizeof(T));
  for (int64_t slot = 0; slot < division.slots; ++slot)
    layout.divided.push_back({offset_of(whole) + slot * division.ranks * bytes, division.ranks * bytes,
                              static_cast<uint64_t>(offset_of(own) + slot * bytes), bytes});
}

// The place of a checkpoint's tensor in memory: `offset` elements into the program's tensor, and stored as
// [out, in] if the checkpoint has [in, out].
struct InMemory {
  int64_t offset = 0;
  bool transposed = false;
  int first_layer = 0;  // of the slots: their layers are first_layer, first_layer + layer_step, ..
  int layer_step = 1;
  size_t part = 0;        // of 4-bit codes
  int64_t first_row = 0;  // of SplitTensors, instead of `offset`: where it begins in the whole parameter

  int layer(int slot) const { return first_layer + slot * layer_step; }
};

// Parameters under their names in a checkpoint, with their shapes there: one, or one a layer.
class CheckpointNames {
 public:
  explicit CheckpointNames(std::vector<NamedTensor>& list) : list_(list) {}

  template <class T>
  void add(std::string name, const T* tensor, std::vector<int64_t> shape, InMemory form = {}) {
    NamedTensor result = named(std::move(name), tensor, std::move(shape));
    result.address += static_cast<uint64_t>(form.offset) * sizeof(T);
    result.transposed = form.transposed;
    list_.push_back(std::move(result));
  }
  template <class T>
  void add(std::string name, const SplitTensors<T*>& of, std::vector<int64_t> shape, InMemory form = {}) {
    const int64_t rows = shape[form.transposed ? 1 : 0];
    list_.push_back({.name = std::move(name),
                     .shape = std::move(shape),
                     .dtype = stored_type<T>(),
                     .transposed = form.transposed,
                     .pieces = pieces_of(of, form.first_row, rows)});
  }
  // "model.layers.3.mlp.up_proj.weight" from "model.layers.{}.mlp.up_proj.weight".
  template <class T>
  void add_layers(int layers, const std::string& name, const Slots<T>& tensors,
                  const std::vector<int64_t>& shape, InMemory form = {}) {
    for (int l = 0; l < layers; ++l) add(name_of_layer(name, form.layer(l)), tensors[l], shape, form);
  }
  template <class T>
  void add_layers(int layers, const std::string& name, const SplitTensors<Slots<T>>& of,
                  const std::vector<int64_t>& shape, InMemory form = {}) {
    for (int l = 0; l < layers; ++l)
      add(name_of_layer(name, form.layer(l)), split(of.tensors[l], of.parameter), shape, form);
  }
  template <class Codes, class Groups>
  void add_layers(int layers, const std::string& name, const Nf4Tensors<Codes, Groups>& tensors,
                  const std::vector<int64_t>& shape, InMemory form = {}) {
    for (int l = 0; l < layers; ++l) {
      NamedTensor result{.name = name_of_layer(name, form.layer(l)),
                         .shape = shape,
                         .transposed = form.transposed,
                         .nf4 = tensors.places(l)[form.part]};
      list_.push_back(std::move(result));
    }
  }
  // For a program with one layer.
  template <class T>
  void add_layers(int layers, const std::string& name, T* tensor, const std::vector<int64_t>& shape,
                  InMemory form = {}) {
    add_layers(layers, name, Slots<T>{tensor}, shape, form);
  }
  template <class T>
  void add_layers(int layers, const std::string& name, const SplitTensors<T*>& of,
                  const std::vector<int64_t>& shape, InMemory form = {}) {
    add_layers(layers, name, split(Slots<T>{of.tensors}, of.parameter), shape, form);
  }

 private:
  static std::string name_of_layer(std::string name, int layer) {
    return name.replace(name.find("{}"), 2, std::to_string(layer));
  }

  std::vector<NamedTensor>& list_;
};

}  // namespace hydrac::runtime
