#include "emit/memory.h"
#include "emit/sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/writer.h"

namespace hydrac::emit {

namespace {

std::string layers_text(const driver::Compiled& compiled, int slots) {
  const int layers = static_cast<int>(compiled.spec.model.num_hidden_layers);
  if (slots == layers) return "L";
  if (slots == layers + 1) return "L + 1";
  return std::to_string(slots);
}

// "[B,T,3HD] x L", and where it lies if that is inside another tensor.
std::string field_comment(const driver::Compiled& compiled, const Tensors& tensors, const Field& field) {
  const ir::Value& value = compiled.graph.value(field.value);
  std::string text = value.shape.empty() ? "scalar" : symbols_of(value.shape);
  if (field.count > 1) text += " x " + layers_text(compiled, field.count);
  const bool one_at_a_time = field.count < value.slots;
  if (one_at_a_time && field.count == 1) text += ", one layer's at a time";
  if (one_at_a_time && field.count > 1) text += ", in turn";
  if (value.view) {
    const std::string base = tensors.field(storage_of(compiled.graph, field.value)).name;
    if (base != "all") text += ", inside " + base;
  }
  return text;
}

std::string grouped(int64_t number) {  // 11'972'356'096
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), "'");
  return digits;
}

// Bytes from a slot to the next, in elements of the field.
std::string stride_text(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                        const Field& field) {
  const ir::Value& value = compiled.graph.value(field.value);
  const int64_t elements = field.stride / size_of(value.dtype);
  return elements == element_count(value.shape) ? elements_text(dimensions, value.shape) : grouped(elements);
}

}  // namespace

std::string memory_header(const driver::Compiled& compiled, const Tensors& tensors) {
  codegen::Writer out;
  for (size_t g = 0; g < tensors.groups().size(); ++g) {
    const Group& group = tensors.groups()[g];
    const auto in_group = [&](const Field& field) { return field.group == static_cast<int>(g); };
    if (std::ranges::none_of(tensors.fields(), in_group)) continue;
    out.line("// " + group.comment);
    out.open(fmt::format("struct {} {{", group.type));
    for (const Field& field : tensors.fields()) {
      if (!in_group(field)) continue;
      const std::string type = field.count == 1 ? field.type + "*" : "Slots<" + field.type + ">";
      out.line(fmt::format("{} {};  // {}", type, field.name, field_comment(compiled, tensors, field)));
    }
    out.close("};");
    out.line("");
  }
  out.line(
      "// The tensors of the program, each at its place in the arena. Activations that are never alive at "
      "the");
  out.line("// same time share bytes; PLAN.md draws the map.");
  out.open("struct Memory {");
  out.line("explicit Memory(std::byte* arena);");
  out.line("");
  for (size_t g = 0; g < tensors.groups().size(); ++g) {
    const Group& group = tensors.groups()[g];
    if (std::ranges::any_of(tensors.fields(), [&](const Field& f) { return f.group == static_cast<int>(g); }))
      out.line(fmt::format("{} {};", group.type, group.variable));
  }
  out.close("};");
  out.line("");
  out.line(
      fmt::format("inline constexpr std::int64_t kArenaBytes = {};", grouped(compiled.plan.arena_bytes)));
  out.line(fmt::format(
      "inline constexpr std::int64_t kPersistentBytes = {};  // of which live as long as the program",
      grouped(compiled.plan.persistent_bytes)));
  out.line(fmt::format("inline constexpr std::int64_t kInputBytes = {};  // of which are inputs",
                       grouped(compiled.plan.input_bytes)));
  return out.text();
}

std::string memory_source(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                          const Tensors& tensors) {
  codegen::Writer out;
  out.open("Memory::Memory(std::byte* arena) {");
  out.line("const Arena at{arena};");
  int group = -1;
  for (const Field& field : tensors.fields()) {
    if (std::exchange(group, field.group) != field.group) out.line("");
    const std::string name = tensors.groups()[static_cast<size_t>(field.group)].variable + "." + field.name;
    if (field.count == 1) {
      out.line(fmt::format("{} = at.tensor<{}>({});", name, field.type, grouped(field.offset)));
    } else {
      out.line(fmt::format("{} = at.slots<{}>({}, {}, {});", name, field.type, grouped(field.offset),
                           stride_text(compiled, dimensions, field), layers_text(compiled, field.count)));
    }
  }
  out.close();
  return out.text();
}

}  // namespace hydrac::emit
