// Parameters in layout.cpp of an emitted program: how they start, where checkpoints have them, what the
// optimizer knows of them, and what ranks divide.
#include "emit/layout_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/number_text.h"
#include "emit/sizes.h"
#include "emit/split_layout.h"
#include "models/pack.h"
#include "models/parameters.h"
#include "targets/executable/checkpoint_tensors.h"

namespace hydrac::emit {

namespace {

using runtime::ParameterStart;

// As runtime::Starts calls them.
std::string start_name(ParameterStart::Kind kind) {
  switch (kind) {
    case ParameterStart::Kind::zeros:
      return "zeros";
    case ParameterStart::Kind::ones:
      return "ones";
    case ParameterStart::Kind::constant:
      return "constant";
    case ParameterStart::Kind::normal:
      return "normal";
    case ParameterStart::Kind::uniform:
      return "uniform";
  }
  throw std::logic_error("a start that no parameter has");
}

}  // namespace

// Each layer of a tensor of the files is rows of a slot.
void LayoutText::text_encoder() {
  if (layout_.texts.rows == 0) return;
  const models::EncoderInterface& encoder = compiled_.interface.objective.encoder;
  const ir::Shape& texts = value(compiled_.graph.inputs.text_tokens).shape;
  out_.line(fmt::format("layout.texts = {{{}, {}}};", size_text(dimensions_, texts[0]),
                        size_text(dimensions_, texts[1])));
  out_.line("// The encoder of replies, under the names of its own files; no checkpoint holds it.");
  out_.line("CheckpointNames text_encoder(layout.encoder_parameters);");
  const ir::Dim width = value(encoder.word).shape[1];
  for (const models::EncoderTensor& of : encoder.tensors) {
    const ir::Value& parameter = value(of.value);
    ir::Shape shape = parameter.shape, before = parameter.shape;
    if (of.part.rows == width.size) shape[0] = width;  // of queries, keys or values
    const int64_t widths = of.part.first_row / width.size;
    before[0] = {of.part.first_row, (widths == 1 ? "" : std::to_string(widths)) + width.symbol};
    std::vector<std::string> sizes;
    for (const ir::Dim& dim : shape) sizes.push_back(size_text(dimensions_, dim));
    const bool a_layer = of.part.name.find("{}") != std::string::npos;
    out_.line(fmt::format(
        "text_encoder.{}\"{}\", {}, {{{}}}{});", a_layer ? "add_layers(kTextLayers, " : "add(", of.part.name,
        field(parameter), fmt::join(sizes, ", "),
        of.part.first_row == 0 ? "" : fmt::format(", {{.offset = {}}}", elements_text(dimensions_, before))));
  }
  out_.line("");
}

std::string LayoutText::field(const ir::Value& parameter) const {
  return fmt::format("m.{}.{}", tensors_.group_of(parameter.id).variable, tensors_.field(parameter.id).name);
}

// "split(m.weights.attn_qkv_weight, attn_qkv_weight_parts)"
std::string LayoutText::tensors_of(const ir::Value& parameter) const {
  const std::string parts = split_name(tensors_, parameter);
  return parts.empty() ? field(parameter) : fmt::format("split({}, {})", field(parameter), parts);
}

// "nf4(m.frozen.w_codes, m.frozen.w_block_codes, m.frozen.w_groups, {C * C, KV * C, KV * C})"
std::string LayoutText::nf4(const ir::Value& parameter) const {
  const ir::Nf4Storage& stored = *parameter.parameter->nf4;
  std::vector<std::string> parts;
  for (const ir::RowRange& part : stored.parts)
    parts.push_back(
        fmt::format("{} * {}", rows(parameter, part.count), size_text(dimensions_, parameter.shape[1])));
  return fmt::format("nf4({}, {}, {}, {{{}}})", field(value(stored.codes)), field(value(stored.block_codes)),
                     field(value(stored.groups)), fmt::join(parts, ", "));
}

std::string LayoutText::rows(const ir::Value& parameter, int64_t rows) const {
  if (rows == parameter.shape[0].size) return size_text(dimensions_, parameter.shape[0]);
  return rows == compiled_.spec.model.vocab_size ? "kVocabSize" : std::to_string(rows);
}

void LayoutText::starts() {
  out_.line("// In this order parameters are numbered for their random numbers.");
  out_.line("Starts starts(layout.starts);");
  auto next = layout_.starts.begin();
  for (const ir::Value& parameter : compiled_.graph.values) {
    if (!parameter.parameter) continue;
    const ParameterStart& start = *next;
    next += parameter.slots;
    const std::string kind = start_name(start.kind);
    const bool has_number =
        start.kind != ParameterStart::Kind::zeros && start.kind != ParameterStart::Kind::ones;
    if (parameter.parameter->nf4) {
      out_.line(fmt::format("starts.normal({}, {});", nf4(parameter), codegen::number_text(start.number)));
      continue;
    }
    const std::string split = split_name(tensors_, parameter);
    const int64_t whole_rows = models::checkpoint_rows(parameter);
    std::string elements = split.empty() ? rows(parameter, whole_rows) : std::to_string(whole_rows);
    if (split.empty() && parameter.shape.size() == 2)
      elements += " * " + size_text(dimensions_, parameter.shape[1]);
    out_.line(fmt::format("starts.{}({}, {}{});", kind, tensors_of(parameter), elements,
                          has_number ? ", " + codegen::number_text(start.number) : ""));
  }
  out_.line("");
}

void LayoutText::checkpoint_part(const std::string& list, const ir::Value& parameter,
                                 const ir::CheckpointPart& part) {
  const bool a_layer = part.name.find("{}") != std::string::npos;
  const bool matrix = parameter.shape.size() == 2;
  const auto& split = parameter.parameter->split;
  const std::string columns = !matrix                     ? ""
                              : split && split->axis == 1 ? std::to_string(split->whole[1].size)
                                                          : size_text(dimensions_, parameter.shape[1]);
  std::vector<std::string> shape = {split ? std::to_string(part.rows) : rows(parameter, part.rows)}, form;
  if (matrix) shape.push_back(columns);
  if (part.transposed) std::swap(shape.front(), shape.back());
  // Rows before this part: multiples of the heads' widths or of the mlp's.
  const auto& stored = parameter.parameter->nf4;
  if (!stored && !split && part.first_row > 0)
    form.push_back(fmt::format(".offset = {}{}", part.first_row, matrix ? " * " + columns : ""));
  if (part.transposed) form.push_back(".transposed = true");
  if (a_layer && parameter.parameter->first_layer > 0)
    form.push_back(fmt::format(".first_layer = {}", parameter.parameter->first_layer));
  if (a_layer && parameter.parameter->layer_step > 1)
    form.push_back(fmt::format(".layer_step = {}", parameter.parameter->layer_step));
  if (stored && stored->parts.size() > 1) {
    const auto own = std::ranges::find(stored->parts, part.first_row, &ir::RowRange::first);
    form.push_back(fmt::format(".part = {}", own - stored->parts.begin()));
  }
  if (split && part.first_row > 0) form.push_back(fmt::format(".first_row = {}", part.first_row));
  std::string name = fmt::format("add(\"{}\"", part.name),
              tensor = stored ? nf4(parameter) : tensors_of(parameter);
  if (a_layer) {
    if (part.first_slot != 0) throw std::logic_error(part.name + " does not begin with the first layer");
    const bool all = part.last_slot + 1 == compiled_.spec.model.num_hidden_layers;
    name = fmt::format("add_layers({}, \"{}\"", all ? "L" : std::to_string(part.last_slot + 1), part.name);
  } else if (!split) {
    tensor = "m." + tensors_.text({parameter.id, {false, part.first_slot}}, "");
  }
  out_.line(fmt::format("{}.{}, {}, {{{}}}{});", list, name, tensor, fmt::join(shape, ", "),
                        form.empty() ? "" : fmt::format(", {{{}}}", fmt::join(form, ", "))));
}

void LayoutText::checkpoint() {
  out_.line("// Under the names that Hugging Face's checkpoints have.");
  checkpoint_names("parameters", false);
  if (layout_.base_parameters.empty()) return;
  out_.line("// The model's own, which no checkpoint of adapters holds.");
  checkpoint_names("base_parameters", true);
}

void LayoutText::checkpoint_names(const std::string& list, bool base) {
  out_.line(fmt::format("CheckpointNames {0}(layout.{0});", list));
  for (const ir::Value& parameter : compiled_.graph.values) {
    if (!parameter.parameter || targets::is_base(compiled_, parameter) != base) continue;
    for (const ir::CheckpointPart& part : parameter.parameter->checkpoint)
      checkpoint_part(list, parameter, part);
  }
  out_.line("");
}

void LayoutText::optimizer_state() {
  define_packed(out_, compiled_, tensors_);
  for (const ir::Value& value : compiled_.graph.values) {
    if (value.role != ir::Role::optimizer_state || value.view) continue;
    std::vector<std::string> shape;
    for (const ir::Dim& dim : value.shape) shape.push_back(size_text(dimensions_, dim));
    std::string own =
        fmt::format("named(\"{}\", {}, {{{}}})", value.name, tensor(value.id), fmt::join(shape, ", "));
    std::vector<std::string> stretches;
    for (const ir::SharedRows& rows : value.shared)
      stretches.push_back(rows.times == 1 ? fmt::format("{{{}, {}}}", rows.rows, rows.own)
                                          : fmt::format("{{{}, {}, {}}}", rows.rows, rows.own, rows.times));
    if (!stretches.empty()) own = fmt::format("shared_by_ranks({}, {{{}}})", own, fmt::join(stretches, ", "));
    if (targets::is_pack_of_parts(compiled_, value))
      own = fmt::format("whole_pack({}, {}, packed)", own, compiled_.pack.whole_rows);
    out_.line(fmt::format("layout.optimizer_state.push_back({});", own));
  }
}

void LayoutText::gradients() {
  if (layout_.gradients.empty()) return;
  for (const models::ParameterGroup& group : compiled_.pack.groups)
    out_.line(fmt::format("layout.gradients.push_back(gradients({}, {}, {}));", tensor(group.parameters),
                          tensor(group.gradients), elements_text(dimensions_, value(group.gradients).shape)));
}

// Stretches by their first rows: those that ranks divide by themselves lie one behind the other.
void LayoutText::divided() {
  for (const models::ParameterGroup* group : divided_groups(compiled_.pack)) {
    const int64_t row = compiled_.pack.row;
    for (const models::Stretch& stretch : group->stretches)
      out_.line(fmt::format("divide(layout, {} + {}, {} + {}, {{{}, {} * {}, {}}});",
                            tensor(group->parameters), stretch.first_row * row, tensor(group->own_parameters),
                            stretch.first_own_row * row, compiled_.pack.sharing_ranks, stretch.own, row,
                            stretch.slots));
  }
}

}  // namespace hydrac::emit
