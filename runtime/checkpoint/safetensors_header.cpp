// The header's parser: JSON events straight into tensor entries. It builds only what the format allows, so a
// hostile header cannot cost more than its own size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

struct DtypeInfo {
  std::string_view name;
  int64_t bytes;
};
// In the order of SafetensorsDtype.
constexpr std::array<DtypeInfo, 16> dtypes{{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
}};
static_assert(dtypes.size() == static_cast<size_t>(SafetensorsDtype::u64) + 1);

[[noreturn]] void fail(const std::string& label, const std::string& what) {
  throw InputError(fmt::format("{}: {}; the file is damaged or is no safetensors file", label, what));
}

[[noreturn]] void fail(const std::string& label, const std::string& tensor, const std::string& what) {
  fail(label, fmt::format("tensor {}: {}", in_quotes(tensor), what));
}

class HeaderParser : public nlohmann::json_sax<json> {
 public:
  HeaderParser(const std::string& label, SafetensorsHeader& header) : label_(label), header_(header) {}

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || (depth_ == 1 && at_.empty())) unexpected("an object");
    ++depth_;
    if (depth_ == 2 && !in_metadata_) {
      header_.tensors.emplace_back();
      tensor().name = name_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offsets_.clear();
    }
    at_.clear();
    return true;
  }

  bool key(string_t& key) override {
    if (depth_ == 1) {
      name_ = key;
      in_metadata_ = key == "__metadata__";
      if (!names_.insert(key).second) fail(label_, fmt::format("two entries are called {}", in_quotes(key)));
      at_ = "entry";
    } else if (in_metadata_) {
      metadata_key_ = key;
      if (header_.metadata.contains(key)) {
        fail(label_, fmt::format("__metadata__ has {} twice", in_quotes(key)));
      }
      at_ = "metadata";
    } else {
      bool* seen = key == "dtype"          ? &has_dtype_
                   : key == "shape"        ? &has_shape_
                   : key == "data_offsets" ? &has_offsets_
                                           : nullptr;
      if (!seen) fail(label_, name_, fmt::format("unknown field {}", in_quotes(key)));
      if (*seen) fail(label_, name_, fmt::format("field {} is given twice", in_quotes(key)));
      *seen = true;
      at_ = key;
    }
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish_tensor();
    at_.clear();
    return true;
  }

  bool start_array(std::size_t) override {
    if (in_array_ || (at_ != "shape" && at_ != "data_offsets")) unexpected("an array");
    in_array_ = true;
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    at_.clear();
    return true;
  }

  bool string(string_t& text) override {
    if (at_ == "metadata") {
      header_.metadata[metadata_key_] = text;
    } else if (at_ == "dtype") {
      const auto dtype = dtype_named(text);
      if (!dtype) fail(label_, name_, fmt::format("unknown dtype {}", in_quotes(text)));
      tensor().dtype = *dtype;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (!in_array_) unexpected("a number");
    if (at_ == "data_offsets") {
      offsets_.push_back(number);
    } else if (number > static_cast<uint64_t>(INT64_MAX)) {
      fail(label_, name_, fmt::format("dimension {} is too large", number));
    } else {
      tensor().shape.push_back(static_cast<int64_t>(number));
    }
    return true;
  }

  bool number_integer(number_integer_t number) override {
    if (!in_array_) unexpected("a number");
    fail(label_, name_, fmt::format("{} has the negative number {}", at_, number));
  }

  bool number_float(number_float_t, const string_t& text) override {
    if (!in_array_) unexpected("a number");
    fail(label_, name_, fmt::format("{} has {}, which is no whole number of 64 bits", at_, in_quotes(text)));
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    fail(label_, fmt::format("the header is no valid JSON at its byte {}", position));
  }

 private:
  TensorEntry& tensor() { return header_.tensors.back(); }

  [[noreturn]] void unexpected(const char* what) {
    if (depth_ == 0) fail(label_, fmt::format("the header is {}, not an object", what));
    if (depth_ == 1) fail(label_, name_, fmt::format("the entry is {}, not an object", what));
    if (in_metadata_)
      fail(label_, fmt::format("__metadata__ {} is {}, not a string", in_quotes(metadata_key_), what));
    fail(label_, name_, fmt::format("{} has {} where none may stand", at_, what));
  }

  void finish_tensor() {
    const char* missing = !has_dtype_     ? "dtype"
                          : !has_shape_   ? "shape"
                          : !has_offsets_ ? "data_offsets"
                                          : nullptr;
    if (missing) fail(label_, name_, fmt::format("field \"{}\" is missing", missing));
    if (offsets_.size() != 2) {
      fail(label_, name_, fmt::format("data_offsets has {} numbers instead of 2", offsets_.size()));
    }
    tensor().begin = offsets_[0];
    tensor().end = offsets_[1];
  }

  const std::string& label_;
  SafetensorsHeader& header_;
  std::set<std::string> names_;
  std::string name_, metadata_key_;
  std::string at_;  // the value that is due: "entry", "metadata", a field's name, or "" for none
  int depth_ = 0;
  bool in_metadata_ = false, in_array_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> offsets_;
};

void check_size(const TensorEntry& tensor, uint64_t data_bytes, const std::string& label) {
  if (tensor.begin > tensor.end) {
    fail(label, tensor.name,
         fmt::format("data_offsets end at {} before they begin at {}", tensor.end, tensor.begin));
  }
  if (tensor.end > data_bytes) {
    fail(label, tensor.name,
         fmt::format("ends at byte {} of the data, of which there are {}", tensor.end, data_bytes));
  }
  int64_t bytes = dtype_bytes(tensor.dtype);
  bool overflow = false;
  for (const int64_t size : tensor.shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  if (overflow)
    fail(label, tensor.name, fmt::format("shape [{}] is too large", fmt::join(tensor.shape, ", ")));
  if (static_cast<uint64_t>(bytes) != tensor.end - tensor.begin) {
    fail(label, tensor.name,
         fmt::format("shape [{}] of {} takes {} bytes, data_offsets give {}", fmt::join(tensor.shape, ", "),
                     dtype_name(tensor.dtype), bytes, tensor.end - tensor.begin));
  }
}

// The ranges, in order, must follow each other without a gap or an overlap and use up the data.
void check_cover(const std::vector<TensorEntry>& tensors, uint64_t data_bytes, const std::string& label) {
  std::vector<const TensorEntry*> by_offset;
  for (const TensorEntry& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
  });
  uint64_t covered = 0;
  for (const TensorEntry* tensor : by_offset) {
    if (tensor->begin != covered) {
      fail(label, tensor->name,
           fmt::format("begins at byte {} of the data, but what stands before it ends at byte {} ({})",
                       tensor->begin, covered, tensor->begin > covered ? "a gap" : "an overlap"));
    }
    covered = tensor->end;
  }
  if (covered != data_bytes)
    fail(label, fmt::format("{} bytes at the end belong to no tensor", data_bytes - covered));
}

}  // namespace

std::string_view dtype_name(SafetensorsDtype dtype) {
  return dtypes[static_cast<size_t>(dtype)].name;
}

int64_t dtype_bytes(SafetensorsDtype dtype) {
  return dtypes[static_cast<size_t>(dtype)].bytes;
}

std::optional<SafetensorsDtype> dtype_named(std::string_view name) {
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (dtypes[i].name == name) return static_cast<SafetensorsDtype>(i);
  }
  return std::nullopt;
}

int64_t TensorEntry::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

SafetensorsHeader parse_safetensors_header(std::string_view json_text, uint64_t data_bytes,
                                           const std::string& label) {
  // Also keeps out a byte-order mark, which the JSON parser would skip and other readers would not.
  if (!json_text.starts_with('{')) fail(label, "the header does not begin with '{'");
  SafetensorsHeader header;
  HeaderParser parser(label, header);
  json::sax_parse(json_text, &parser);
  for (const TensorEntry& tensor : header.tensors) check_size(tensor, data_bytes, label);
  check_cover(header.tensors, data_bytes, label);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  return header;
}

}  // namespace hydrac::runtime
