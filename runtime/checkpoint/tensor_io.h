// Between float arrays in memory and tensors in a file: a file's tensor may be a row or column range of a
// packed array (q inside qkv, a vocabulary without its padding), lie transposed (GPT-2's Conv1D is [in, out])
// and have another floating-point format. Which tensor goes where is decided by the caller.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace hydrac::runtime {

// A tensor of the file, and where its float32 elements lie in memory. The caller owns the memory.
// In memory it is rows of consecutive elements, `row_stride` elements apart. Not transposed, a row is the
// last dimension and all others are rows; transposed (two dimensions only), the file's [a, b] is b rows of a
// elements.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;  // as the file has it
  const float* data = nullptr;
  int64_t row_stride = 0;  // 0: rows lie one after another
  bool transpose = false;
  SafetensorsDtype dtype =
      SafetensorsDtype::f32;  // of the file: f32, f64, bf16 or f16 (round to nearest even)
};

// The inverse: where a tensor that is read goes. The file's dtype may be f32, f64, bf16 or f16.
struct TensorTarget {
  std::string name;
  std::vector<int64_t> shape;  // what the file must have
  float* data = nullptr;
  int64_t row_stride = 0;
  bool transpose = false;
};

// `values` in the format `dtype` (f32, f64, bf16 or f16; round to nearest even): so many elements from `out`
// on.
void encode_floats(std::span<const float> values, SafetensorsDtype dtype, std::byte* out);

// The entry for write_safetensors; streams in pieces of a few hundred KiB. `source.data` must live until it
// is written.
TensorToWrite tensor_to_write(TensorSource source);

// Any dtype, contiguous and as it lies in memory (int64 counters, quantized optimizer state).
TensorToWrite raw_tensor_to_write(std::string name, SafetensorsDtype dtype, std::vector<int64_t> shape,
                                  const void* data);

// Fills `target` from the tensor of its name. InputError that names file and tensor when it is missing, has
// another shape, or is no floating-point tensor.
void read_tensor(const SafetensorsReader& file, const TensorTarget& target);

// Copies the tensor's bytes to `data`. InputError unless dtype and shape are exactly these.
void read_raw_tensor(const SafetensorsReader& file, const std::string& name, SafetensorsDtype dtype,
                     const std::vector<int64_t>& shape, void* data);

}  // namespace hydrac::runtime
