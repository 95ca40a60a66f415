// A checkpoint's state.json: flat, ordered by key, exact. Step, RNG and data-loader counters, the spec's
// hash, and whatever else a run needs to continue bit for bit.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hydrac::runtime {

class RunState {
 public:
  // Doubles must be finite (std::logic_error): JSON has no other. They come back bit for bit.
  void set(const std::string& key, bool value) { values_[key] = value; }
  void set(const std::string& key, int value) { set(key, static_cast<int64_t>(value)); }
  void set(const std::string& key, int64_t value);
  void set(const std::string& key, uint64_t value) { values_[key] = value; }
  void set(const std::string& key, double value);
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  void set(const std::string& key, const char* value) { values_[key] = std::string(value); }
  void set(const std::string& key, std::vector<uint64_t> value) { values_[key] = std::move(value); }

  bool has(const std::string& key) const { return values_.contains(key); }

  // InputError that names file and key when it is missing, of another type or out of range.
  bool boolean(const std::string& key) const;
  int64_t integer(const std::string& key) const;
  uint64_t counter(const std::string& key) const;
  double number(const std::string& key) const;
  const std::string& text(const std::string& key) const;
  const std::vector<uint64_t>& counters(const std::string& key) const;

  // One key a line, sorted; ends with a newline.
  std::string to_json() const;
  // InputError; `label` is what errors call the file.
  static RunState from_json(std::string_view json, std::string label);

 private:
  // Whole numbers are kept as uint64_t, negative ones as int64_t.
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<uint64_t>>;
  const Value& at(const std::string& key) const;
  [[noreturn]] void wrong(const std::string& key, const char* wanted) const;

  std::map<std::string, Value> values_;
  std::string label_ = "state.json";
};

}  // namespace hydrac::runtime
