#include "emit/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "codegen/expression_text.h"
#include "codegen/operand_names.h"
#include "driver/slot_places.h"

namespace hydrac::emit {

namespace {

// Groups stand in this order in memory.h. Activations have a group for each function.
const std::vector<Group> kGroups = {
    {"Inputs", "in", "What the host writes before a step; in the arena they lie together, at its start."},
    {"Tables", "tables", "Filled at the start and never written again."},
    {"Weights", "weights", "The parameters themselves."},
    {"Gradients", "grads", "Their gradients; micro-batches add to them."},
    {"Copies", "copies", "The parameters in the type that matmuls read; the optimizer writes them."},
    {"Frozen", "frozen", "Parameters that do not train, in the type that is read."},
    {"Moments", "moments", "Of the optimizer."},
    {"State", "state", "Scalars that live on the device, and scratch memory of matmuls."},
    {"Activations", "act",
     "Of a training step, forward and backward: of the layer at hand, where there are no slots."},
    {"Evaluation", "eval", "Activations of evaluating a batch."},
    {"Generation", "gen", "Activations of the next token's logits."},
    {"Scratch", "scratch", "Of the optimizer's kernels."},
    {"Master", "master", "The rank's part of the parameters, which are on no rank whole, and all vectors."},
    {"Prefill", "prefill", "Activations of reading prompts."},
    {"Decoding", "decode", "Activations of the next token of every sequence."},
    {"Scoring", "score", "Activations of the losses of replies."},
    {"ScoringByBase", "base", "Likewise, by the model without its adapter."},
    {"TextEncoder", "text_encoder", "Parameters of the encoder of replies, which do not train."},
    {"Embedding", "texts", "Activations of the encoder."},
    {"Quantized", "fp8", "The blocks' weights of 8 bits, and their transposes; made after each update."},
};

size_t group_of_role(ir::Role role, const std::string& function) {
  switch (role) {
    case ir::Role::input:
      return 0;
    case ir::Role::constant:
      return 1;
    case ir::Role::parameter:
    case ir::Role::divided:
      return kWeights;
    case ir::Role::master:
      return 12;
    case ir::Role::gradient:
      return kGradients;
    case ir::Role::working_copy:
      return kCopies;
    case ir::Role::frozen:
      return 5;
    case ir::Role::optimizer_state:
      return 6;
    case ir::Role::state:
      return kState;
    case ir::Role::activation:
      break;
  }
  if (function == "micro_step") return 8;
  if (function == "evaluate") return 9;
  if (function == "generate") return 10;
  if (function == "prefill") return 13;
  if (function == "decode") return 14;
  if (function == "score") return 15;
  if (function == "score_base") return 16;
  if (function == "embed") return kEmbedding;
  return 11;
}

std::string without(const std::string& text, const std::string& prefix, const std::string& suffix) {
  std::string result = text;
  if (result.starts_with(prefix)) result.erase(0, prefix.size());
  if (!suffix.empty() && result.ends_with(suffix)) result.erase(result.size() - suffix.size());
  return result;
}

}  // namespace

std::string_view c_type(ir::DType dtype) {
  return codegen::c_type(dtype, codegen::kCudaDialect);
}

Tensors::Tensors(const driver::Compiled& compiled) : compiled_(compiled), groups_(kGroups) {
  if (std::ranges::any_of(compiled.pack.groups, [&](const models::ParameterGroup& part) {
        return compiled.graph.value(part.own_gradients).dtype != ir::DType::f32;
      }))
    groups_[kGradients].comment = "Their gradients: of 16 bits where one matmul writes them.";
  if (compiled.pack.is_divided)
    groups_[kWeights].comment =
        "The parameters, which no rank has whole: addresses behind the arena stand for them.";
  if (compiled.pack.shards_weights)
    groups_[kCopies].comment =
        "What matmuls read: the parameters that all ranks have whole, and the rank's part of what layers "
        "gather.";
  if (spec::samples_replies(compiled.spec))
    groups_[kState].comment =
        "Scalars that live on the device, scratch memory of matmuls, and what is kept of replies: keys and "
        "values, logits, losses, embeddings.";
  if (compiled.pack.frozen)
    groups_[5].comment +=
        " Of what layers gather a rank has its part; addresses behind the arena stand for the whole.";
  for (const ir::Value& value : compiled.graph.values) {
    const ir::ValueId storage = storage_of(compiled.graph, value.id);
    const bool placed = compiled.plan.placements.contains(storage) || compiled.plan.divided.contains(storage);
    const bool lasts = compiled.graph.value(storage).role != ir::Role::activation;
    if (placed && lasts && value.role != ir::Role::activation) add(value.id, "");
  }
  const auto add_arguments = [&](const auto& value_of) {
    for (const program::Function& function : compiled.program.functions)
      for (const program::Section& section : function.sections)
        for (const program::Call& call : section.calls)
          for (const ir::Use use : call.arguments) add(value_of(use.value), function.name);
  };
  add_arguments([](ir::ValueId id) { return id; });
  // Tensors that no call uses whole, such as a layer's gradients.
  add_arguments([&](ir::ValueId id) { return storage_of(compiled.graph, id); });
  order_by_group();
}

void Tensors::add(ir::ValueId id, const std::string& function) {
  if (by_value_.contains(id)) return;
  const ir::Value& value = compiled_.graph.value(id);
  Field field;
  field.value = id;
  const size_t group = group_for(value, function);
  field.group = static_cast<int>(group);
  field.name = name_for(value, group);
  field.type = c_type(value.dtype);
  const driver::SlotPlaces places = driver::slot_places(compiled_, id);
  field.offset = places.offset;
  field.stride = places.stride;
  field.count = places.apart;
  by_value_[id] = fields_.size();
  fields_.push_back(std::move(field));
}

size_t Tensors::group_for(const ir::Value& value, const std::string& function) const {
  const ir::Value& storage = compiled_.graph.value(storage_of(compiled_.graph, value.id));
  if (is_of_encoder(storage)) return kTextEncoder;
  const bool is_frozen = compiled_.pack.frozen && storage.id == compiled_.pack.frozen->parameters;
  const ir::Role role = is_frozen ? ir::Role::frozen : storage.role;
  if (role == ir::Role::working_copy && is_f8(value.dtype)) return kGroups.size() - 1;
  return group_of_role(role, function);
}

bool Tensors::is_of_encoder(const ir::Value& parameter) const {
  return std::ranges::any_of(compiled_.interface.objective.encoder.tensors,
                             [&](const models::EncoderTensor& of) { return of.value == parameter.id; });
}

bool Tensors::is_packed(size_t group) const {
  if (group == kGradients) return compiled_.pack.groups.size() == 1 && !compiled_.pack.shards_gradients;
  const bool has_all_copies =
      !compiled_.pack.shards_weights && compiled_.spec.optimizations.offload.weights == 0;
  return group == kWeights || (group == kCopies && has_all_copies);
}

// All parameters, or a value for each of them, packed as they are.
bool Tensors::is_whole_pack(const ir::Value& value) const {
  const models::Pack& pack = compiled_.pack;
  return value.id == pack.parameters || (is_packed(kGradients) && value.id == pack.groups[0].gradients) ||
         (value.role == ir::Role::working_copy &&
          value.name == "parameters." + std::string(to_string(value.dtype)));
}

std::string Tensors::name_for(const ir::Value& value, size_t group) const {
  const ir::Role role = compiled_.graph.value(storage_of(compiled_.graph, value.id)).role;
  std::string name = value.name;
  if (is_whole_pack(value)) return "all";
  if (group == kTextEncoder || group == kEmbedding) name = without(name, "encoder.", "");
  for (const models::ParameterGroup& part : compiled_.pack.groups) {
    const bool of_parameters = value.view && is_whole_pack(compiled_.graph.value(value.view->base));
    const bool is_gradients = value.id == part.gradients && !compiled_.pack.shards_gradients;
    for (const models::Stretch& stretch : part.stretches)
      if (of_parameters && stretch.member == ir::kNoValue && name.ends_with("." + stretch.name))
        return "rows_" + codegen::identifier(stretch.name);
    if (is_gradients || (of_parameters && name.ends_with("." + part.name))) return part.name;
  }
  if (role == ir::Role::gradient) name = without(name, "d_", "");
  if (role == ir::Role::working_copy) name = without(name, "", "." + std::string(to_string(value.dtype)));
  return codegen::identifier(name);
}

void Tensors::order_by_group() {
  std::ranges::stable_sort(fields_, {}, &Field::group);
  std::set<std::pair<int, std::string>> taken;
  for (size_t i = 0; i < fields_.size(); ++i) {
    Field& field = fields_[i];
    by_value_[field.value] = i;
    const std::string wanted = field.name;
    for (int n = 2; !taken.emplace(field.group, field.name).second; ++n)
      field.name = fmt::format("{}_{}", wanted, n);
  }
}

const Field& Tensors::field(ir::ValueId value) const {
  const auto found = by_value_.find(value);
  if (found == by_value_.end())
    throw std::logic_error(compiled_.graph.value(value).name + " has no place in memory");
  return fields_[found->second];
}

int64_t Tensors::pack(size_t group) const {
  const auto found = std::ranges::find_if(fields_, [&](const Field& field) {
    return field.group == static_cast<int>(group) && field.name == "all";
  });
  if (found == fields_.end()) throw std::logic_error(groups_[group].variable + " have no pack");
  return found->offset;
}

const Group& Tensors::group_of(ir::ValueId value) const {
  return groups_[static_cast<size_t>(field(value).group)];
}

std::string Tensors::text(ir::Use use, const std::string& layer) const {
  const Field& field = this->field(use.value);
  const std::string name = group_of(use.value).variable + "." + field.name;
  if (field.count == 1) return name;
  if (!use.slot.per_layer) return fmt::format("{}[{}]", name, slots_text(field, use.slot.index));
  return use.slot.index == 0 ? fmt::format("{}[{}]", name, layer)
                             : fmt::format("{}[{} + {}]", name, layer, use.slot.index);
}

std::string Tensors::slots_text(const Field& field, int64_t slots) const {
  const auto group = static_cast<size_t>(field.group);
  const bool of_encoder = group == kTextEncoder || group == kEmbedding;
  const int64_t layers = of_encoder ? spec::encoder_of_replies(compiled_.spec)->num_hidden_layers
                                    : compiled_.spec.model.num_hidden_layers;
  if (slots == layers) return of_encoder ? "kTextLayers" : "L";
  return std::to_string(slots);
}

std::string Tensors::short_text(ir::Use use) const {
  const std::string& name = field(use.value).name;
  return group_of(use.value).variable == "grads" ? "d_" + name : name;
}

}  // namespace hydrac::emit
