#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/error.h"

namespace hydrac::runtime {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and read in place");

namespace {

constexpr uint64_t length_bytes = 8;
constexpr uint64_t longest_header = 100'000'000;  // the limit of the format's own implementation

// The descriptor is not needed once the file is mapped.
std::span<const std::byte> map_file(const std::filesystem::path& path) {
  const RegularFile file(path);
  const size_t size = file.size();
  void* at = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0) : nullptr;
  const std::string problem = at == MAP_FAILED ? std::strerror(errno) : file.problem();
  if (!problem.empty()) throw InputError(fmt::format("cannot read {}: {}", path.string(), problem));
  return {static_cast<const std::byte*>(at), size};
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& file)
    : label_(file.string()), file_(map_file(file)), mapped_(true) {
  try {
    parse();
  } catch (...) {
    unmap();
    throw;
  }
}

SafetensorsReader::SafetensorsReader(std::span<const std::byte> bytes, std::string label)
    : label_(std::move(label)), file_(bytes) {
  parse();
}

SafetensorsReader::~SafetensorsReader() {
  unmap();
}

void SafetensorsReader::unmap() {
  if (mapped_ && !file_.empty()) ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

void SafetensorsReader::parse() {
  if (file_.size() < length_bytes) {
    throw InputError(fmt::format("{}: has {} bytes, too few for a safetensors file", label_, file_.size()));
  }
  uint64_t header_bytes;
  std::memcpy(&header_bytes, file_.data(), length_bytes);
  if (header_bytes > longest_header) {
    throw InputError(fmt::format(
        "{}: a header of {} bytes is longer than the format allows ({}); this is no safetensors file", label_,
        header_bytes, longest_header));
  }
  const uint64_t after_length = file_.size() - length_bytes;
  if (header_bytes > after_length) {
    throw InputError(fmt::format(
        "{}: the header needs {} bytes and the file has {} left; it is truncated or no safetensors file",
        label_, header_bytes, after_length));
  }
  const std::string_view json(reinterpret_cast<const char*>(file_.data()) + length_bytes, header_bytes);
  header_ = parse_safetensors_header(json, after_length - header_bytes, label_);
  data_start_ = length_bytes + header_bytes;
}

const TensorEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors().begin(), tensors().end(), name,
                       [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

const TensorEntry& SafetensorsReader::at(std::string_view name) const {
  if (const TensorEntry* tensor = find(name)) return *tensor;
  throw InputError(fmt::format("{}: has no tensor {}; it belongs to another model", label_, in_quotes(name)));
}

std::span<const std::byte> SafetensorsReader::bytes(const TensorEntry& tensor) const {
  return file_.subspan(data_start_ + tensor.begin, tensor.end - tensor.begin);
}

}  // namespace hydrac::runtime
