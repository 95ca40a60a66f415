#include "targets/executable/call_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "driver/slot_places.h"
#include "runtime/checkpoint/safetensors.h"
#include "spec/keys/key_table.h"
#include "targets/executable/checkpoint_tensors.h"

namespace hydrac::targets {

namespace {

// The location of a key; for a section, that of its first key that the user wrote.
diag::Location where(const spec::Spec& spec, const std::string& key) {
  if (spec::find_key(key)) return spec.where(key);
  for (const spec::KeyRow& row : spec::key_rows()) {
    if (row.path.starts_with(key + ".") && spec.is_set(row.path)) return spec.where(row.path);
  }
  return {};
}

// `words` without characters that a line of the table, or a raw string around it, cannot hold.
std::string in_line(const std::string& words) {
  std::string text;
  for (const char c : words) text += c < ' ' || c == '"' || c == 127 ? '?' : c;
  return text;
}

// CallTable's names of the types that can be infinite; empty for the others.
std::string_view type_name(ir::DType dtype) {
  const bool is_float = dtype == ir::DType::f32 || is_narrow_float(dtype);
  return is_float && !is_f8(dtype) ? dtype_name(stored_type(dtype)) : "";  // 8 bits are written saturated
}

class TableText {
 public:
  TableText(const driver::Compiled& compiled, SpecPlaces places) : compiled_(compiled), places_(places) {}

  std::string print();

 private:
  void add_call(const program::Call& call);
  std::string uses(const std::vector<ir::Use>& uses);
  const std::string& name_of_tensor(ir::ValueId id);
  std::string origin(const std::string& key) const;

  const driver::Compiled& compiled_;
  const SpecPlaces places_;
  std::map<ir::ValueId, std::string> names_;
  std::map<std::string, int> taken_;
  std::string tensors_, functions_;
};

const std::string& TableText::name_of_tensor(ir::ValueId id) {
  std::string& name = names_[id];
  if (!name.empty()) return name;
  const ir::Value& value = compiled_.graph.value(id);
  const int count = ++taken_[value.name];
  name = count == 1 ? value.name : fmt::format("{}~{}", value.name, count);
  const driver::SlotPlaces places = driver::slot_places(compiled_, id);
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : value.shape) sizes.push_back(dim.size);
  tensors_ += fmt::format("tensor {} {} {} {} {} {}", name, places.stride, places.apart, value.slots,
                          type_name(value.dtype), places.offset);
  tensors_ += fmt::format(" {} {} {}\n", sizes.size(), fmt::join(sizes, " "),
                          fmt::join(resolved_view(compiled_.graph, id).strides, " "));
  return name;
}

std::string TableText::uses(const std::vector<ir::Use>& uses) {
  std::string text;
  for (const ir::Use& use : uses) {
    const ir::Value& value = compiled_.graph.value(use);
    // A regression's missing targets are NaN.
    if (type_name(value.dtype).empty() || use.value == compiled_.graph.inputs.any_targets()) continue;
    text += " " + name_of_tensor(use.value);
    if (value.slots == 1) continue;
    if (!use.slot.per_layer)
      text += fmt::format("[{}]", use.slot.index);
    else
      text += use.slot.index == 0 ? "[l]" : fmt::format("[l{:+}]", use.slot.index);
  }
  return text;
}

std::string TableText::origin(const std::string& key) const {
  return in_line(places_ == SpecPlaces::lines ? place_of(compiled_.spec, key) : key);
}

void TableText::add_call(const program::Call& call) {
  functions_ += program::is<program::Launch>(call) ? "call kernel " : "call ";
  functions_ += name_of(compiled_.program, call);
  if (program::is<program::Gemm>(call)) functions_ += " for " + call.label;
  functions_ += fmt::format(" @ {}\n", origin(call.origin));
  functions_ += fmt::format("uses{} ->{}\n", uses(call.operands), uses(call.results));
}

std::string TableText::print() {
  for (const program::Function& function : compiled_.program.functions) {
    functions_ += fmt::format("function {}\n", function.name);
    for (const program::Section& section : function.sections) {
      functions_ += fmt::format("section {} {}", section.layers, section.reverse ? "down" : "up");
      functions_ += section.first_layer > 0 ? fmt::format(" {}\n", section.first_layer) : "\n";
      for (const program::Call& call : section.calls) add_call(call);
    }
  }
  return tensors_ + functions_;
}

}  // namespace

std::string place_of(const spec::Spec& spec, const std::string& key) {
  const diag::Location location = where(spec, key);
  if (!location.known()) return key + ", by default";
  if (location.on_command_line()) return key + " on the command line";
  return fmt::format("{}, {}:{}", key, location.file, location.line);
}

std::string call_table(const driver::Compiled& compiled, SpecPlaces places) {
  return TableText(compiled, places).print();
}

}  // namespace hydrac::targets
