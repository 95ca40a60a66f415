// The safetensors format: a reader that checks everything (files come from strangers), and a writer that
// streams, so that no tensor is copied whole. Written files equal those of the Python package byte for byte.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file_writer.h"

namespace hydrac::runtime {

// In the order in which the format lays tensors out: the last of this list comes first in a file.
enum class SafetensorsDtype {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};

std::string_view dtype_name(SafetensorsDtype dtype);  // "F32", "BF16", ...
std::optional<SafetensorsDtype> dtype_named(std::string_view name);
int64_t dtype_bytes(SafetensorsDtype dtype);

struct TensorEntry {
  std::string name;
  SafetensorsDtype dtype;
  std::vector<int64_t> shape;  // [] is a scalar
  uint64_t begin, end;         // bytes [begin, end) of the file's data section, which starts after the header

  int64_t elements() const;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// A header, checked in full against the size of the data section: known dtypes, shape x size == range, ranges
// that cover the section exactly without gaps or overlaps, unique names, no overflow.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // sorted by name
  SafetensorsMetadata metadata;
};

// `json` is the header without its length, `label` what errors call the file. InputError names file and
// tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& label);

// A file mapped into memory, read only. All checks happen in the constructor; what it hands out cannot be out
// of range. (A file that another process truncates afterwards raises SIGBUS, as with every mapping.)
class SafetensorsReader {
 public:
  // InputError: unreadable, truncated, or anything in it that does not hold.
  explicit SafetensorsReader(const std::filesystem::path& file);
  // Over bytes that the caller keeps alive; `label` is what errors call them.
  SafetensorsReader(std::span<const std::byte> bytes, std::string label);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }  // sorted by name
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  const std::string& label() const { return label_; }

  // nullptr when there is none.
  const TensorEntry* find(std::string_view name) const;
  // InputError that names the file and the missing tensor.
  const TensorEntry& at(std::string_view name) const;

  // The tensor's bytes: row-major, little-endian, NOT necessarily aligned. Valid as long as the reader.
  std::span<const std::byte> bytes(const TensorEntry& tensor) const;

 private:
  void parse();
  void unmap();

  std::string label_;
  std::span<const std::byte> file_;
  size_t data_start_ = 0;
  bool mapped_ = false;
  SafetensorsHeader header_;
};

// One tensor to write. `write` is called once and must give the file exactly elements x size bytes, in any
// pieces.
struct TensorToWrite {
  std::string name;
  SafetensorsDtype dtype = SafetensorsDtype::f32;
  std::vector<int64_t> shape;
  std::function<void(FileWriter&)> write;
};

// Writes a complete file: the largest dtype first, by name within a dtype, as the format's own implementation
// does. `tensors` may come in any order. Our own bugs are std::logic_error: duplicate names, negative sizes,
// and a callback that writes another number of bytes than the shape says. RunError from the file.
void write_safetensors(FileWriter& file, std::vector<TensorToWrite> tensors,
                       const SafetensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace hydrac::runtime
