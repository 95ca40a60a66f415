#include "emit/split_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "emit/sizes.h"
#include "models/parameters.h"
#include "targets/executable/checkpoint_tensors.h"

namespace hydrac::emit {

namespace {

// "{2, C, {{0, 64, 32}, {64, 64, 32}}}"; `row`: the size of a whole row.
std::string split_text(const runtime::SplitParameter& split, const std::string& row) {
  std::vector<std::string> rows;
  for (const runtime::SplitParameter::Rows& part : split.rows)
    rows.push_back(fmt::format("{{{}, {}, {}}}", part.first, part.count, part.own));
  return fmt::format("{{{}, {}, {{{}}}}}", split.ranks, row, fmt::join(rows, ", "));
}

}  // namespace

std::string split_name(const Tensors& tensors, const ir::Value& parameter) {
  return parameter.parameter->split ? tensors.field(parameter.id).name + "_parts" : "";
}

void define_splits(Writer& out, const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                   const Tensors& tensors) {
  if (compiled.spec.parallel.tensor == 1) return;
  out.line(
      "// Of which a rank has parts: of how many ranks, the size of a whole row, and first row, number of "
      "rows");
  out.line(
      "// and a rank's number of each stretch that they divide by itself. No stretch: they divide rows.");
  for (const ir::Value& value : compiled.graph.values) {
    if (!value.parameter || !value.parameter->split) continue;
    const runtime::SplitParameter split = targets::split_of(value);
    const bool has_whole_rows = !split.rows.empty() && value.shape.size() == 2;
    const std::string row =
        has_whole_rows ? size_text(dimensions, value.shape[1]) : std::to_string(split.row);
    out.line(fmt::format("const SplitParameter {}{};", split_name(tensors, value), split_text(split, row)));
  }
  out.line("");
}

void define_packed(Writer& out, const driver::Compiled& compiled, const Tensors& tensors) {
  if (compiled.spec.parallel.tensor == 1) return;
  out.line("// Parameters in a rank's packs and in those of one process, where a checkpoint has them.");
  out.open("const std::vector<PackedParameter> packed = {");
  size_t next = 0;
  const std::vector<runtime::PackedParameter> packed = targets::packed_parameters(compiled);
  for (const models::ParameterGroup& group : compiled.pack.groups) {
    for (const ir::ValueId member : group.members) {
      const runtime::PackedParameter& p = packed.at(next++);
      const std::string name = split_name(tensors, compiled.graph.value(member));
      out.line(fmt::format("{{{}, {}, {}, {}, {}, {}, {}}},",
                           name.empty() ? split_text(p.split, std::to_string(p.split.row)) : name, p.rows,
                           p.whole_offset, p.whole_stride, p.offset, p.stride, p.slots));
    }
  }
  out.close("};");
}

}  // namespace hydrac::emit
