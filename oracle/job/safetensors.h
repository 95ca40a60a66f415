// The safetensors files of a job: its tensors in, its results out. The oracle's own reader and writer, so
// that a mistake in the runtime's cannot hide in both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hydrac::oracle {

struct TensorView {
  std::string dtype;  // F64, F32, I64, I32, U32
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;  // row-major, little-endian; owned by the file; not aligned
  std::size_t bytes = 0;
};

class SafetensorsFile {
 public:
  // Reads the whole file. Throws JobError, naming the file and the tensor, when it cannot be read or its
  // header is malformed, names an unknown dtype, or disagrees with its own shapes or with the file's size.
  explicit SafetensorsFile(const std::filesystem::path& path);

  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const TensorView* find(const std::string& name) const;  // nullptr: the file has no such tensor
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

 private:
  std::vector<std::byte> contents_;
  std::map<std::string, TensorView> tensors_;
};

class SafetensorsWriter {
 public:
  // Copies as many elements as `shape` holds (one for an empty shape), as F64 or I32. A name taken twice is
  // replaced.
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const double* data);
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const std::int32_t* data);

  // Tensors in the order of their names. Throws JobError when the file cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::vector<char> bytes;
  };
  void add_bytes(const std::string& name, const char* dtype, const std::vector<std::int64_t>& shape,
                 const void* data, std::size_t element_size);

  std::map<std::string, Entry> entries_;
};

}  // namespace hydrac::oracle
