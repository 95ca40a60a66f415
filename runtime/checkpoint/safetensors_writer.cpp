#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/safetensors.h"

namespace hydrac::runtime {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and written as it lies in memory");

namespace {

uint64_t byte_count(const TensorToWrite& tensor) {
  int64_t bytes = dtype_bytes(tensor.dtype);
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      throw std::logic_error(
          fmt::format("tensor {} has the shape [{}]", tensor.name, fmt::join(tensor.shape, ", ")));
    }
  }
  return static_cast<uint64_t>(bytes);
}

// Padded with spaces to a multiple of 8, so that the data, largest dtype first, is aligned.
std::string header_json(const std::vector<TensorToWrite>& tensors, const SafetensorsMetadata& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) pairs.push_back(json_string(key) + ":" + json_string(value));
    entries.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t end = offset + byte_count(tensor);
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(tensor.name), dtype_name(tensor.dtype),
                                  fmt::join(tensor.shape, ","), offset, end));
    offset = end;
  }
  std::string json = fmt::format("{{{}}}", fmt::join(entries, ","));
  json.append((8 - json.size() % 8) % 8, ' ');
  return json;
}

}  // namespace

void write_safetensors(FileWriter& file, std::vector<TensorToWrite> tensors,
                       const SafetensorsMetadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  std::vector<std::string> names;
  for (const TensorToWrite& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw std::logic_error(fmt::format("two tensors are called {}", *twice));

  const std::string json = header_json(tensors, metadata);
  const uint64_t length = json.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(json);
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t before = file.size();
    tensor.write(file);
    if (file.size() - before != byte_count(tensor)) {
      throw std::logic_error(fmt::format("tensor {} wrote {} bytes instead of {}", tensor.name,
                                         file.size() - before, byte_count(tensor)));
    }
  }
}

}  // namespace hydrac::runtime
