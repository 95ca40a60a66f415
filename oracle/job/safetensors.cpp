#include "oracle/job/safetensors.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;

const std::map<std::string, std::size_t> kElementSizes = {
    {"F64", 8}, {"F32", 4}, {"I64", 8}, {"I32", 4}, {"U32", 4}};

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw JobError("cannot be opened");
  const std::streamoff size = file.tellg();
  if (size < 0) throw JobError("cannot be read");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size)) throw JobError("cannot be read");
  return bytes;
}

std::size_t natural(const json& value, const std::string& what) {
  if (!value.is_number_unsigned()) throw JobError(fmt::format("{} must hold integers >= 0", what));
  return value.get<std::size_t>();
}

// `data` is everything behind the header.
TensorView parse_entry(const std::string& name, const json& entry, const std::byte* data, std::size_t size) {
  const std::string what = fmt::format("tensor \"{}\"", name);
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!entry.is_object() || !entry.contains(key)) throw JobError(fmt::format("{} has no {}", what, key));
  if (!entry["dtype"].is_string() || !kElementSizes.count(entry["dtype"].get<std::string>()))
    throw JobError(fmt::format("{} has dtype {}; the oracle reads F64, F32, I64, I32 and U32", what,
                               entry["dtype"].dump()));
  if (!entry["shape"].is_array() || !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    throw JobError(fmt::format("{} has a malformed shape or data_offsets", what));

  TensorView view;
  view.dtype = entry["dtype"].get<std::string>();
  std::size_t bytes = kElementSizes.at(view.dtype);
  for (const json& dim : entry["shape"]) {
    const std::size_t extent = natural(dim, what + ": shape");
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > INT64_MAX)
      throw JobError(fmt::format("{} has a shape too large to be true", what));
    view.shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::size_t begin = natural(entry["data_offsets"][0], what + ": data_offsets");
  const std::size_t end = natural(entry["data_offsets"][1], what + ": data_offsets");
  if (begin > end || end > size) throw JobError(fmt::format("{} lies outside the file", what));
  if (end - begin != bytes)
    throw JobError(fmt::format("{} has {} bytes of data; its shape needs {}", what, end - begin, bytes));
  view.data = data + begin;
  view.bytes = bytes;
  return view;
}

std::map<std::string, TensorView> parse(const std::vector<std::byte>& contents) {
  std::uint64_t header_bytes = 0;
  if (contents.size() < kLengthBytes) throw JobError("is too short for a safetensors header");
  std::memcpy(&header_bytes, contents.data(), kLengthBytes);
  if (header_bytes > contents.size() - kLengthBytes)
    throw JobError(
        fmt::format("states a header of {} bytes but holds {} bytes in all", header_bytes, contents.size()));

  const char* text = reinterpret_cast<const char*>(contents.data()) + kLengthBytes;
  const json header = json::parse(text, text + header_bytes, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) throw JobError("has a header that is no JSON object");
  const std::size_t data_begin = kLengthBytes + header_bytes;
  std::map<std::string, TensorView> tensors;
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__")
      tensors[name] = parse_entry(name, entry, contents.data() + data_begin, contents.size() - data_begin);
  return tensors;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  try {
    contents_ = read_bytes(path);
    tensors_ = parse(contents_);
  } catch (const JobError& e) {
    throw JobError(fmt::format("{}: {}", path.filename().string(), e.what()));
  }
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsWriter::add(const std::string& name, const std::vector<std::int64_t>& shape,
                            const double* data) {
  add_bytes(name, "F64", shape, data, sizeof *data);
}

void SafetensorsWriter::add(const std::string& name, const std::vector<std::int64_t>& shape,
                            const std::int32_t* data) {
  add_bytes(name, "I32", shape, data, sizeof *data);
}

void SafetensorsWriter::add_bytes(const std::string& name, const char* dtype,
                                  const std::vector<std::int64_t>& shape, const void* data,
                                  std::size_t element_size) {
  std::size_t bytes = element_size;
  for (const std::int64_t dim : shape) bytes *= static_cast<std::size_t>(dim);
  const char* begin = static_cast<const char*>(data);
  entries_[name] = Entry{dtype, shape, std::vector<char>(begin, begin + bytes)};
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  json header = json::object();
  std::size_t offset = 0;
  for (const auto& [name, entry] : entries_) {
    header[name] = {{"dtype", entry.dtype},
                    {"shape", entry.shape},
                    {"data_offsets", {offset, offset + entry.bytes.size()}}};
    offset += entry.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');  // keeps the data aligned
  const std::uint64_t header_bytes = text.size();

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&header_bytes), kLengthBytes);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& [name, entry] : entries_)
    file.write(entry.bytes.data(), static_cast<std::streamsize>(entry.bytes.size()));
  file.close();
  if (!file) throw JobError(fmt::format("{}: cannot be written", path.filename().string()));
}

}  // namespace hydrac::oracle
