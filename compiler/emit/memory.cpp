#include "emit/memory.h"
#include "emit/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "emit/writer.h"

namespace hydrac::emit {

namespace {

std::string slots_text(const driver::Compiled& compiled, const Tensors& tensors, const Field& field) {
  const ir::Shape& shape = compiled.graph.value(field.value).shape;
  if (field.count == head_parts(compiled.program) && !shape.empty() && shape.front().symbol == "R")
    return "kHeadParts";
  const std::string all = tensors.slots_text(field, field.count),
                    but_one = tensors.slots_text(field, field.count - 1);
  const bool is_one_more = all == std::to_string(field.count) && but_one != std::to_string(field.count - 1);
  return is_one_more ? but_one + " + 1" : all;
}

// "[B,T,3HD]", and where it lies if that is inside another tensor.
std::string field_comment(const driver::Compiled& compiled, const Tensors& tensors, const Field& field) {
  const ir::Value& value = compiled.graph.value(field.value);
  std::string text = value.shape.empty() ? "scalar" : symbols_of(value.shape);
  if (field.count > 1 && field.count < value.slots) text += ", in turn";
  if (value.view) {
    const std::string base = tensors.field(storage_of(compiled.graph, field.value)).name;
    if (base != "all") text += ", inside " + base;
  }
  return text;
}

std::string grouped(int64_t number) {  // 11'972'356'096
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, '\'');
  return digits;
}

// Bytes from a slot to the next, in elements of the field. What lies inside another tensor has that one's.
std::string stride_text(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                        const Field& field) {
  const ir::Value& value = compiled.graph.value(field.value);
  const int64_t elements = field.stride / size_of(value.dtype);
  const ir::Value& storage = compiled.graph.value(storage_of(compiled.graph, field.value));
  for (const ir::Shape* shape : {&value.shape, &storage.shape}) {
    if (elements == element_count(*shape)) return elements_text(dimensions, *shape);
  }
  return grouped(elements);
}

class MemoryText {
 public:
  MemoryText(const driver::Compiled& compiled, const codegen::Dimensions& dimensions, const Tensors& tensors)
      : compiled_(compiled), dimensions_(dimensions), tensors_(tensors) {}

  std::string print();

 private:
  std::vector<const Field*> fields(size_t group) const;
  void parameters();
  void group(size_t group);
  void memory();
  // Places of a field's slots: in the arena, or by elements in the pack that `from` bytes into it begins.
  std::string slots(const Field& field, int64_t from, int64_t unit) const;

  const driver::Compiled& compiled_;
  const codegen::Dimensions& dimensions_;
  const Tensors& tensors_;
  Writer out_;
};

std::vector<const Field*> MemoryText::fields(size_t group) const {
  std::vector<const Field*> result;
  for (const Field& field : tensors_.fields()) {
    if (field.group == static_cast<int>(group)) result.push_back(&field);
  }
  return result;
}

std::string MemoryText::slots(const Field& field, int64_t from, int64_t unit) const {
  const std::string offset = grouped((field.offset - from) / unit);
  if (field.count == 1) return offset;
  return fmt::format("{}, {}, {}", stride_text(compiled_, dimensions_, field),
                     slots_text(compiled_, tensors_, field), offset);
}

// Packs of one layout are structs of the same type.
void MemoryText::parameters() {
  const int64_t start = tensors_.pack(kWeights);
  const int64_t unit = size_of(compiled_.graph.value(compiled_.pack.parameters).dtype);
  std::map<std::string, const Field*> weights;
  out_.line("// All parameters, or one value for each of them, in one pack.");
  out_.line("template <class Float>");
  out_.open("struct Parameters {");
  out_.line("Pack<Float> pack;");
  out_.line(fmt::format("Float* all = pack.tensor(0);  // {}",
                        symbols_of(compiled_.graph.value(compiled_.pack.parameters).shape)));
  for (const Field* field : fields(kWeights)) {
    weights[field->name] = field;
    if (field->name == "all") continue;
    const bool one = field->count == 1;
    out_.line(fmt::format("{} {} = pack.{}({});  // {}", one ? "Float*" : "Slots<Float>", field->name,
                          one ? "tensor" : "slots", slots(*field, start, unit),
                          field_comment(compiled_, tensors_, *field)));
  }
  out_.close("};");
  out_.line("");
  for (const size_t group : {kWeights, kGradients, kCopies}) {
    if (fields(group).empty() || !tensors_.is_packed(group)) continue;
    const Group& g = tensors_.groups()[group];
    out_.line(fmt::format("// {}", g.comment));
    out_.line(fmt::format("using {} = Parameters<{}>;", g.type, fields(group)[0]->type));
    for (const Field* field : fields(group)) {
      const int64_t bytes = size_of(compiled_.graph.value(field->value).dtype);
      const auto found = weights.find(field->name);
      if (found == weights.end() || found->second->count != field->count ||
          (field->offset - tensors_.pack(group)) / bytes != (found->second->offset - start) / unit ||
          field->stride / bytes != found->second->stride / unit)
        throw std::logic_error(field->name + " is not packed as the parameter is");
    }
  }
  out_.line("");
}

void MemoryText::group(size_t group) {
  const Group& g = tensors_.groups()[group];
  out_.line(fmt::format("// {}", g.comment));
  out_.open(fmt::format("struct {} {{", g.type));
  out_.line("Arena at;");
  for (const Field* field : fields(group)) {
    const bool one = field->count == 1;
    out_.line(fmt::format("{} {} = at.{}<{}>({});  // {}",
                          one ? field->type + "*" : fmt::format("Slots<{}>", field->type), field->name,
                          one ? "tensor" : "slots", field->type, slots(*field, 0, 1),
                          field_comment(compiled_, tensors_, *field)));
  }
  out_.close("};");
  out_.line("");
}

void MemoryText::memory() {
  out_.line(
      "// The tensors of the program, each at its place in the arena, in bytes from its start. Slots: "
      "elements");
  out_.line(
      "// from one to the next, how many lie apart, and the place of the first. Activations that are never");
  out_.line("// alive at the same time share bytes; PLAN.md draws the map.");
  out_.open("struct Memory {");
  out_.line("explicit Memory(std::byte* arena) : at{arena} {}");
  out_.line("");
  out_.line("Arena at;");
  for (size_t g = 0; g < tensors_.groups().size(); ++g) {
    if (fields(g).empty()) continue;
    const Group& group = tensors_.groups()[g];
    if (tensors_.is_packed(g)) {
      out_.line(fmt::format("{} {}{{at.pack<{}>({})}};", group.type, group.variable, fields(g)[0]->type,
                            grouped(tensors_.pack(g))));
    } else {
      out_.line(fmt::format("{} {}{{at}};", group.type, group.variable));
    }
  }
  out_.close("};");
  out_.line("");
}

std::string MemoryText::print() {
  bool is_first = true;
  for (size_t g = 0; g < tensors_.groups().size(); ++g) {
    if (fields(g).empty()) continue;
    if (!tensors_.is_packed(g)) group(g);
    if (tensors_.is_packed(g) && std::exchange(is_first, false)) parameters();
  }
  memory();
  out_.line(
      fmt::format("inline constexpr std::int64_t kArenaBytes = {};", grouped(compiled_.plan.arena_bytes)));
  out_.line(fmt::format(
      "inline constexpr std::int64_t kPersistentBytes = {};  // of which live as long as the program",
      grouped(compiled_.plan.persistent_bytes)));
  out_.line(fmt::format("inline constexpr std::int64_t kInputBytes = {};  // of which are inputs",
                        grouped(compiled_.plan.input_bytes)));
  if (compiled_.plan.host_bytes > 0)
    out_.line(fmt::format(
        "inline constexpr std::int64_t kHostBytes = {};  // the arena's last ones: in the host's memory",
        grouped(compiled_.plan.host_bytes)));
  if (compiled_.plan.exchange_bytes > 0) {
    out_.line("// Memory for numbers that ranks copy from each other.");
    out_.line(fmt::format("inline constexpr std::int64_t kExchangeOffset = {};",
                          grouped(compiled_.plan.exchange_offset)));
    out_.line(fmt::format("inline constexpr std::int64_t kExchangeBytes = {};",
                          grouped(compiled_.plan.exchange_bytes)));
  }
  if (compiled_.plan.kept_bytes > 0)
    out_.line(fmt::format(
        "inline constexpr std::int64_t kKeptBytes = {};  // before these: the GPU's, and live as long",
        grouped(compiled_.plan.kept_bytes)));
  return out_.text();
}

}  // namespace

std::string memory_header(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                          const Tensors& tensors) {
  return MemoryText(compiled, dimensions, tensors).print();
}

}  // namespace hydrac::emit
