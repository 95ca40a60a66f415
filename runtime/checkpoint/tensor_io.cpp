#include "runtime/checkpoint/tensor_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/float_formats.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr int64_t kPieceElements = int64_t{1} << 16;

template <typename Stored, typename Convert>
void encode_as(std::span<const float> values, std::byte* out, Convert convert) {
  for (const float value : values) {
    const Stored stored = convert(value);
    std::memcpy(out, &stored, sizeof stored);
    out += sizeof stored;
  }
}

template <typename Stored, typename Convert>
void decode_as(const std::byte* in, std::span<float> values, Convert convert) {
  for (float& value : values) {
    Stored stored;
    std::memcpy(&stored, in, sizeof stored);
    value = convert(stored);
    in += sizeof stored;
  }
}

// Blocks of the file's rows, each as many as fit a piece.
void decode_transposed(const std::byte* in, SafetensorsDtype dtype, int64_t rows, int64_t columns,
                       float* out) {
  if (columns == 0) return;
  const int64_t block = std::max<int64_t>(1, kPieceElements / columns);
  std::vector<float> piece;
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    piece.resize(static_cast<size_t>(count * columns));
    decode_floats(in + first * columns * dtype_bytes(dtype), dtype, piece);
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < count; ++row)
        out[column * rows + first + row] = piece[static_cast<size_t>(row * columns + column)];
    }
  }
}

}  // namespace

const TensorEntry& entry_of_shape(const SafetensorsReader& file, const std::string& name,
                                  const std::vector<int64_t>& shape) {
  const TensorEntry& entry = file.at(name);
  if (entry.shape != shape) {
    throw InputError(fmt::format("{}: tensor {} has the shape [{}], the model needs [{}]", file.label(),
                                 in_quotes(name), fmt::join(entry.shape, ", "), fmt::join(shape, ", ")));
  }
  return entry;
}

bool is_float(SafetensorsDtype dtype) {
  return dtype == SafetensorsDtype::f32 || dtype == SafetensorsDtype::f64 ||
         dtype == SafetensorsDtype::bf16 || dtype == SafetensorsDtype::f16;
}

void decode_floats(const std::byte* in, SafetensorsDtype dtype, std::span<float> values) {
  switch (dtype) {
    case SafetensorsDtype::bf16:
      return decode_as<uint16_t>(in, values, bf16_to_f32);
    case SafetensorsDtype::f16:
      return decode_as<uint16_t>(in, values, f16_to_f32);
    case SafetensorsDtype::f64:
      return decode_as<double>(in, values, [](double value) { return static_cast<float>(value); });
    default:
      std::memcpy(values.data(), in, values.size_bytes());
  }
}

void encode_floats(std::span<const float> values, SafetensorsDtype dtype, std::byte* out) {
  switch (dtype) {
    case SafetensorsDtype::bf16:
      return encode_as<uint16_t>(values, out, f32_to_bf16);
    case SafetensorsDtype::f16:
      return encode_as<uint16_t>(values, out, f32_to_f16);
    case SafetensorsDtype::f64:
      return encode_as<double>(values, out, [](float value) { return static_cast<double>(value); });
    default:
      std::memcpy(out, values.data(), values.size_bytes());
  }
}

TensorToWrite raw_tensor_to_write(std::string name, SafetensorsDtype dtype, std::vector<int64_t> shape,
                                  const void* data) {
  TensorToWrite tensor{std::move(name), dtype, std::move(shape), {}};
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t size : tensor.shape) bytes *= size;
  tensor.write = [data, bytes](FileWriter& file) {
    file.write(std::span(static_cast<const std::byte*>(data), static_cast<size_t>(bytes)));
  };
  return tensor;
}

void read_tensor(const SafetensorsReader& file, const TensorTarget& target) {
  if (target.transpose && target.shape.size() != 2)
    throw std::logic_error(fmt::format("tensor {}: only a matrix can be transposed", target.name));
  const TensorEntry& entry = entry_of_shape(file, target.name, target.shape);
  if (!is_float(entry.dtype)) {
    throw InputError(fmt::format("{}: tensor {} is {}, the model needs F32, F64, BF16 or F16", file.label(),
                                 in_quotes(target.name), dtype_name(entry.dtype)));
  }
  const std::span<const std::byte> bytes = file.bytes(entry);
  if (target.transpose)
    return decode_transposed(bytes.data(), entry.dtype, target.shape[0], target.shape[1], target.data);
  const size_t count = bytes.size() / static_cast<size_t>(dtype_bytes(entry.dtype));
  if (count > 0) decode_floats(bytes.data(), entry.dtype, std::span(target.data, count));
}

std::span<const std::byte> raw_tensor(const SafetensorsReader& file, const std::string& name,
                                      SafetensorsDtype dtype, const std::vector<int64_t>& shape) {
  const TensorEntry& entry = entry_of_shape(file, name, shape);
  if (entry.dtype != dtype) {
    throw InputError(fmt::format("{}: tensor {} is {}, not {}", file.label(), in_quotes(name),
                                 dtype_name(entry.dtype), dtype_name(dtype)));
  }
  return file.bytes(entry);
}

}  // namespace hydrac::runtime
