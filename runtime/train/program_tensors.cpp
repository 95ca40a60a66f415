#include "runtime/train/program_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/float_formats.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

using Buffer = std::vector<std::byte>;

// [rows, columns] elements of any type as [columns, rows].
Buffer transposed(std::span<const std::byte> from, int64_t rows, int64_t columns, SafetensorsDtype dtype) {
  const auto size = static_cast<size_t>(dtype_bytes(dtype));
  const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(columns);
  constexpr size_t tile = 32;  // rows of both sides stay in the cache
  Buffer to(from.size());
  for (size_t top = 0; top < height; top += tile) {
    for (size_t column = 0; column < width; ++column) {
      for (size_t row = top; row < std::min(top + tile, height); ++row)
        std::memcpy(&to[(column * height + row) * size], &from[(row * width + column) * size], size);
    }
  }
  return to;
}

TensorToWrite to_write(StepProgram& program, const NamedTensor& tensor, const TensorCheck& check,
                       Buffer& buffer) {
  if (tensor.transposed && tensor.shape.size() != 2)
    throw std::logic_error(fmt::format("tensor {}: only a matrix can be transposed", tensor.name));
  TensorToWrite entry{tensor.name, tensor.dtype, tensor.shape, {}};
  entry.write = [&](FileWriter& file) {
    buffer.resize(static_cast<size_t>(tensor.bytes()));
    program.download(tensor, buffer);
    if (check) check(tensor, buffer);
    if (tensor.transposed) buffer = transposed(buffer, tensor.shape[1], tensor.shape[0], tensor.dtype);
    file.write(buffer);
  };
  return entry;
}

TensorToWrite zeros_to_write(const ZeroTensor& tensor, SafetensorsDtype dtype) {
  TensorToWrite entry{tensor.name, dtype, tensor.shape, {}};
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t size : tensor.shape) bytes *= size;
  entry.write = [bytes](FileWriter& file) { file.write(Buffer(static_cast<size_t>(bytes))); };
  return entry;
}

// The first number whose exponent is all ones: infinity or NaN.
template <typename Bits>
std::optional<int64_t> first_with_exponent(std::span<const std::byte> data, Bits exponent) {
  for (size_t at = 0; at < data.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, &data[at], sizeof bits);
    if ((bits & exponent) == exponent) return static_cast<int64_t>(at / sizeof bits);
  }
  return std::nullopt;
}

void require_finite(const SafetensorsReader& file, const TensorEntry& entry) {
  if (!is_float(entry.dtype)) return;
  const std::span<const std::byte> bytes = file.bytes(entry);
  const std::optional<int64_t> found = first_non_finite(entry.dtype, bytes);
  if (!found) return;
  float value = 0;
  decode_floats(bytes.data() + *found * dtype_bytes(entry.dtype), entry.dtype, std::span(&value, 1));
  std::vector<int64_t> place = entry.shape;
  int64_t rest = *found;
  for (size_t d = place.size(); d-- > 0; rest /= entry.shape[d]) place[d] = rest % entry.shape[d];
  throw InputError(fmt::format("{}: tensor {} is {} at [{}]; the file is damaged, or its training diverged",
                               file.label(), in_quotes(entry.name), std::isnan(value) ? "NaN" : "infinite",
                               fmt::join(place, ", ")));
}

}  // namespace

std::vector<std::byte> tensor_bytes(StepProgram& program, const NamedTensor& tensor) {
  Buffer buffer(static_cast<size_t>(tensor.bytes()));
  program.download(tensor, buffer);
  if (!tensor.transposed) return buffer;
  return transposed(buffer, tensor.shape[1], tensor.shape[0], tensor.dtype);
}

void upload_bytes(StepProgram& program, const NamedTensor& tensor, std::span<const std::byte> bytes) {
  if (tensor.transposed)
    return program.upload(tensor, transposed(bytes, tensor.shape[0], tensor.shape[1], tensor.dtype));
  program.upload(tensor, bytes);
}

bool adds_nothing(const SafetensorsReader& file, const TensorEntry& tensor) {
  const bool is_added = tensor.name.ends_with(".bias") || tensor.name.ends_with("wpe.weight");
  return is_added && std::ranges::all_of(file.bytes(tensor), [](std::byte b) { return b == std::byte{0}; });
}

std::optional<int64_t> first_non_finite(SafetensorsDtype dtype, std::span<const std::byte> data) {
  switch (dtype) {
    case SafetensorsDtype::f16:
      return first_with_exponent<uint16_t>(data, 0x7C00);
    case SafetensorsDtype::bf16:
      return first_with_exponent<uint16_t>(data, 0x7F80);
    case SafetensorsDtype::f32:
      return first_with_exponent<uint32_t>(data, 0x7F800000);
    case SafetensorsDtype::f64:
      return first_with_exponent<uint64_t>(data, 0x7FF0000000000000);
    case SafetensorsDtype::boolean:
    case SafetensorsDtype::u8:
    case SafetensorsDtype::i8:
    case SafetensorsDtype::i16:
    case SafetensorsDtype::u16:
    case SafetensorsDtype::i32:
    case SafetensorsDtype::u32:
    case SafetensorsDtype::i64:
    case SafetensorsDtype::u64:
      return std::nullopt;
    case SafetensorsDtype::f8_e5m2:
    case SafetensorsDtype::f8_e4m3:
    case SafetensorsDtype::f8_e8m0:
      break;
  }
  throw std::logic_error(fmt::format("{} is no type of parameters", dtype_name(dtype)));
}

void write_tensors(FileWriter& file, StepProgram& program, const std::vector<NamedTensor>& tensors,
                   const TensorCheck& check, const std::vector<ZeroTensor>& zeros) {
  Buffer buffer;
  std::vector<TensorToWrite> entries;
  for (const NamedTensor& tensor : tensors) entries.push_back(to_write(program, tensor, check, buffer));
  for (const ZeroTensor& tensor : zeros) entries.push_back(zeros_to_write(tensor, tensors.at(0).dtype));
  write_safetensors(file, std::move(entries));
}

void check_tensors(const SafetensorsReader& reader, const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> known;
  for (const NamedTensor& tensor : tensors) known.insert(tensor.name);
  for (const TensorEntry& entry : reader.tensors()) {
    if (known.contains(entry.name) || adds_nothing(reader, entry)) continue;
    throw InputError(fmt::format("{}: the model has no tensor {}; the file belongs to another one",
                                 reader.label(), in_quotes(entry.name)));
  }
  for (const NamedTensor& tensor : tensors) entry_of_shape(reader, tensor.name, tensor.shape);
}

void read_tensors(const std::filesystem::path& file, StepProgram& program,
                  const std::vector<NamedTensor>& tensors) {
  const SafetensorsReader reader(file);
  check_tensors(reader, tensors);
  for (const NamedTensor& tensor : tensors) upload_tensor(reader, reader.at(tensor.name), program, tensor);
}

void upload_tensor(const SafetensorsReader& file, const TensorEntry& entry, StepProgram& program,
                   const NamedTensor& tensor) {
  require_finite(file, entry);
  const auto bytes = static_cast<size_t>(tensor.bytes());
  if (tensor.nf4 && !tensor.transposed && is_float(entry.dtype)) {
    entry_of_shape(file, entry.name, tensor.shape);
    return program.upload(tensor, entry.dtype, file.bytes(entry));
  }
  if (is_float(tensor.dtype) && entry.dtype != tensor.dtype) {
    std::vector<float> floats(bytes / static_cast<size_t>(dtype_bytes(tensor.dtype)));
    read_tensor(file, {entry.name, tensor.shape, floats.data(), tensor.transposed});
    if (tensor.dtype == SafetensorsDtype::f32)
      return program.upload(tensor, std::as_bytes(std::span(floats)));
    Buffer buffer(bytes);
    encode_floats(floats, tensor.dtype, buffer.data());
    return program.upload(tensor, buffer);
  }
  upload_bytes(program, tensor, raw_tensor(file, entry.name, tensor.dtype, tensor.shape));
}

}  // namespace hydrac::runtime
