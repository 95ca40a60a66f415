// Copies between a program's tensors, wherever they are, and safetensors files: one tensor at a time passes
// through host memory, so that saving a model needs no second copy of it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// Sees a tensor's bytes before they are written, and throws to end the writing.
using TensorCheck = std::function<void(const NamedTensor& tensor, std::span<const std::byte> data)>;

// A tensor that a file has for its other readers and the program lacks: all elements are 0.
struct ZeroTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Writes a safetensors file of these tensors of `program`, and of `zeros` in the type of the first of them.
void write_tensors(FileWriter& file, StepProgram& program, const std::vector<NamedTensor>& tensors,
                   const TensorCheck& check = {}, const std::vector<ZeroTensor>& zeros = {});

// Checks that the file holds exactly these tensors with these shapes. Biases and position embeddings of zeros
// are ignored, because they add nothing. InputError otherwise.
void check_tensors(const SafetensorsReader& file, const std::vector<NamedTensor>& tensors);

// Fills these tensors of `program` from the file. InputError as of check_tensors(), with nothing filled, and
// if element types differ. Floating-point tensors may come from other floating-point types, rounded to
// nearest even.
void read_tensors(const std::filesystem::path& file, StepProgram& program,
                  const std::vector<NamedTensor>& tensors);

// A tensor's elements as a file has them: not transposed.
std::vector<std::byte> tensor_bytes(StepProgram& program, const NamedTensor& tensor);
// The other way.
void upload_bytes(StepProgram& program, const NamedTensor& tensor, std::span<const std::byte> bytes);

// Copies `entry` of `file` to the program, rounded to nearest even if the types differ. It has the shape of
// `tensor`, and is a floating-point tensor if that is one. InputError if it cannot be converted, or holds NaN
// or infinity.
void upload_tensor(const SafetensorsReader& file, const TensorEntry& entry, StepProgram& program,
                   const NamedTensor& tensor);

// A tensor that is only ever added, and is 0.
bool adds_nothing(const SafetensorsReader& file, const TensorEntry& tensor);

// The index of the first NaN or infinite element of `data`, of a floating-point type. Integers have none.
std::optional<int64_t> first_non_finite(SafetensorsDtype dtype, std::span<const std::byte> data);

}  // namespace hydrac::runtime
