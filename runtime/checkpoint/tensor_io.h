// Copies between arrays in memory and tensors in a file. The file's may be transposed (GPT-2's Conv1D is [in,
// out]) and of another floating-point format. The caller decides which tensor goes where.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace hydrac::runtime {

// A tensor of the file, which may be f32, f64, bf16 or f16 there, and the memory for its elements as
// consecutive float32. Transposed (two dimensions only), the file's [a, b] becomes b rows of a elements. The
// caller owns the memory.
struct TensorTarget {
  std::string name;
  std::vector<int64_t> shape;  // what the file must have
  float* data = nullptr;
  bool transpose = false;
};

// True for the four dtypes that read_tensor() reads.
bool is_float(SafetensorsDtype dtype);

// Encodes `values` as `dtype` (f32, f64, bf16 or f16; round to nearest even) from `out` on.
void encode_floats(std::span<const float> values, SafetensorsDtype dtype, std::byte* out);

// The reverse: so many elements of the format `dtype`, which need not be aligned, as float32.
void decode_floats(const std::byte* in, SafetensorsDtype dtype, std::span<float> values);

// The entry for write_safetensors: any dtype, contiguous and as it lies in memory (int64 counters, quantized
// optimizer state). `data` must live until it is written.
TensorToWrite raw_tensor_to_write(std::string name, SafetensorsDtype dtype, std::vector<int64_t> shape,
                                  const void* data);

// The tensor of this name. InputError that names file and tensor when it is missing or has another shape.
const TensorEntry& entry_of_shape(const SafetensorsReader& file, const std::string& name,
                                  const std::vector<int64_t>& shape);

// Fills `target` from the tensor of its name. InputError with file and tensor if it is missing, has another
// shape, or is no floating-point tensor.
void read_tensor(const SafetensorsReader& file, const TensorTarget& target);

// The tensor's bytes in the file, not necessarily aligned. InputError unless dtype and shape are exactly
// these.
std::span<const std::byte> raw_tensor(const SafetensorsReader& file, const std::string& name,
                                      SafetensorsDtype dtype, const std::vector<int64_t>& shape);

}  // namespace hydrac::runtime
