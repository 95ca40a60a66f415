#include "runtime/checkpoint/tensor_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/float_formats.h"
#include "runtime/checkpoint/quote.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr int64_t piece_elements = int64_t{1} << 16;

bool is_float(SafetensorsDtype dtype) {
  return dtype == SafetensorsDtype::f32 || dtype == SafetensorsDtype::f64 ||
         dtype == SafetensorsDtype::bf16 || dtype == SafetensorsDtype::f16;
}

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

void decode(const std::byte* in, SafetensorsDtype dtype, std::span<float> values) {
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

// The file's tensor as rows x columns, and the distance of memory's rows.
struct Layout {
  int64_t rows = 1, columns = 1, row_stride = 0;
};

Layout layout_of(const std::string& name, const std::vector<int64_t>& shape, int64_t row_stride,
                 bool transpose) {
  if (transpose && shape.size() != 2)
    throw std::logic_error(fmt::format("tensor {}: only a matrix can be transposed", name));
  Layout layout;
  if (!shape.empty()) layout.columns = shape.back();
  for (size_t i = 0; i + 1 < shape.size(); ++i) layout.rows *= shape[i];
  const int64_t memory_columns = transpose ? layout.rows : layout.columns;
  layout.row_stride = row_stride == 0 ? memory_columns : row_stride;
  if (layout.row_stride < memory_columns)
    throw std::logic_error(fmt::format("tensor {}: its rows overlap in memory", name));
  if (layout.rows == 0 || layout.columns == 0) {
    layout.rows = 0;  // however many empty columns or rows the other dimension has
  } else if (!transpose && layout.row_stride == layout.columns) {
    layout = {1, layout.rows * layout.columns, layout.rows * layout.columns};
  }
  return layout;
}

// Calls use(first row, row count) for blocks of the file's rows that fit a piece.
template <typename Use>
void for_row_blocks(const Layout& layout, Use use) {
  const int64_t block = std::max<int64_t>(1, piece_elements / std::max<int64_t>(1, layout.columns));
  for (int64_t row = 0; row < layout.rows; row += block) use(row, std::min(block, layout.rows - row));
}

// Calls use(memory offset, file offset, count) for runs that are consecutive in both and fit a piece.
template <typename Use>
void for_runs(const Layout& layout, Use use) {
  for (int64_t row = 0; row < layout.rows; ++row) {
    for (int64_t column = 0; column < layout.columns; column += piece_elements) {
      use(row * layout.row_stride + column, row * layout.columns + column,
          std::min(piece_elements, layout.columns - column));
    }
  }
}

void write_encoded(FileWriter& file, std::span<const float> values, SafetensorsDtype dtype,
                   std::vector<std::byte>& piece) {
  if (dtype == SafetensorsDtype::f32) return file.write(std::as_bytes(values));
  piece.resize(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  encode_floats(values, dtype, piece.data());
  file.write(piece);
}

void write_transposed(FileWriter& file, const TensorSource& source, const Layout& layout) {
  std::vector<float> rows;
  std::vector<std::byte> piece;
  for_row_blocks(layout, [&](int64_t first, int64_t count) {
    rows.resize(static_cast<size_t>(count * layout.columns));
    for (int64_t column = 0; column < layout.columns; ++column) {
      const float* from = source.data + column * layout.row_stride + first;
      for (int64_t row = 0; row < count; ++row)
        rows[static_cast<size_t>(row * layout.columns + column)] = from[row];
    }
    write_encoded(file, rows, source.dtype, piece);
  });
}

void read_transposed(const std::byte* from, SafetensorsDtype dtype, const TensorTarget& target,
                     const Layout& layout) {
  std::vector<float> rows;
  for_row_blocks(layout, [&](int64_t first, int64_t count) {
    rows.resize(static_cast<size_t>(count * layout.columns));
    decode(from + first * layout.columns * dtype_bytes(dtype), dtype, rows);
    for (int64_t column = 0; column < layout.columns; ++column) {
      float* to = target.data + column * layout.row_stride + first;
      for (int64_t row = 0; row < count; ++row)
        to[row] = rows[static_cast<size_t>(row * layout.columns + column)];
    }
  });
}

const TensorEntry& entry_of_shape(const SafetensorsReader& file, const std::string& name,
                                  const std::vector<int64_t>& shape) {
  const TensorEntry& entry = file.at(name);
  if (entry.shape != shape) {
    throw InputError(fmt::format("{}: tensor {} has the shape [{}], the model needs [{}]", file.label(),
                                 in_quotes(name), fmt::join(entry.shape, ", "), fmt::join(shape, ", ")));
  }
  return entry;
}

}  // namespace

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

TensorToWrite tensor_to_write(TensorSource source) {
  if (!is_float(source.dtype))
    throw std::logic_error(fmt::format("tensor {}: not a floating-point dtype", source.name));
  TensorToWrite tensor{source.name, source.dtype, source.shape, {}};
  tensor.write = [source = std::move(source)](FileWriter& file) {
    const Layout layout = layout_of(source.name, source.shape, source.row_stride, source.transpose);
    if (source.transpose) return write_transposed(file, source, layout);
    std::vector<std::byte> piece;
    for_runs(layout, [&](int64_t memory, int64_t, int64_t count) {
      write_encoded(file, std::span(source.data + memory, static_cast<size_t>(count)), source.dtype, piece);
    });
  };
  return tensor;
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
  const TensorEntry& entry = entry_of_shape(file, target.name, target.shape);
  if (!is_float(entry.dtype)) {
    throw InputError(fmt::format("{}: tensor {} is {}, the model needs F32, F64, BF16 or F16", file.label(),
                                 in_quotes(target.name), dtype_name(entry.dtype)));
  }
  const Layout layout = layout_of(target.name, target.shape, target.row_stride, target.transpose);
  const std::byte* from = file.bytes(entry).data();
  if (target.transpose) return read_transposed(from, entry.dtype, target, layout);
  for_runs(layout, [&](int64_t memory, int64_t offset, int64_t count) {
    decode(from + offset * dtype_bytes(entry.dtype), entry.dtype,
           std::span(target.data + memory, static_cast<size_t>(count)));
  });
}

void read_raw_tensor(const SafetensorsReader& file, const std::string& name, SafetensorsDtype dtype,
                     const std::vector<int64_t>& shape, void* data) {
  const TensorEntry& entry = entry_of_shape(file, name, shape);
  if (entry.dtype != dtype) {
    throw InputError(fmt::format("{}: tensor {} is {}, not {}", file.label(), in_quotes(name),
                                 dtype_name(entry.dtype), dtype_name(dtype)));
  }
  const std::span<const std::byte> bytes = file.bytes(entry);
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
}

}  // namespace hydrac::runtime
