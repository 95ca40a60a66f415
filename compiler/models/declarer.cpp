#include "models/declarer.h"

#include <algorithm>
#include <cmath>

#include "models/freeze.h"
#include "spec/hugging_face/hugging_face.h"

namespace hydrac::models {

using ir::CheckpointPart;
using ir::Init;
using ir::ValueId;

Declarer::Declarer(ir::Graph& graph, const spec::Spec& spec)
    : graph_(graph), spec_(spec), family_(spec::family_of(spec)) {}

ValueId Declarer::matrix(const std::string& name, ir::Shape shape, int slots, double deviation,
                         const std::vector<Names>& names, bool in_block, Division division) {
  ir::Value value = parameter(name, std::move(shape), slots, {Init::Kind::normal, deviation}, true);
  value.parameter->checkpoint = parts(value, names, in_block && family_.stores_in_out);
  divide(value, names, division);
  if (in_block) {
    for (const Names& part : names)
      value.parameter->matrices.push_back({part.first_row, part.rows ? part.rows : value.shape[0].size});
  }
  const ValueId id = add(value, kinds_of(value));
  if (in_block) matrices_.emplace_back(id, std::move(value));
  return id;
}

std::string Declarer::named_of_expert(std::string_view ours, int64_t expert) const {
  std::string name = named(ours);
  return name.replace(name.find('*'), 1, std::to_string(expert));
}

ValueId Declarer::experts(const std::string& name, ir::Shape shape, int slots, double deviation,
                          double token_share, const std::vector<Names>& names) {
  ir::Value value = parameter(name, std::move(shape), slots, {Init::Kind::normal, deviation}, true);
  value.parameter->checkpoint = parts(value, names, false);
  value.parameter->token_share = token_share;
  for (const Names& part : names) value.parameter->matrices.push_back({part.first_row, part.rows});
  return add(value, kinds_of(value));
}

ValueId Declarer::vector(const std::string& name, ir::Dim size, int slots, Init init,
                         const std::vector<Names>& names, const std::optional<Names>& of_last_slot,
                         Division division) {
  ir::Value value = parameter(name, {std::move(size)}, slots, init, false);
  auto& checkpoint = value.parameter->checkpoint = parts(value, names, false);
  if (of_last_slot) {
    for (CheckpointPart& part : checkpoint) part.last_slot = slots - 2;
    checkpoint.push_back({of_last_slot->name, 0, value.shape[0].size, false, slots - 1, slots - 1});
  }
  divide(value, names, division);
  return add(value, kinds_of(value));
}

// The value becomes a rank's part.
void Declarer::divide(ir::Value& value, const std::vector<Names>& names, Division division) const {
  const int64_t ranks = spec_.parallel.tensor;
  if (ranks == 1 || division == Division::none) return;
  ir::Split split{ranks, division == Division::columns ? 1 : 0, value.shape, {}};
  if (division == Division::columns) {
    value.shape[1].size /= ranks;
  } else if (division == Division::vocabulary) {
    value.shape[0].size = vocab_rows(spec_) / ranks;
    split.rows = {{0, split.whole[0].size, value.shape[0].size}};
  } else {
    for (const Names& part : names) {
      const int64_t rows = part.rows ? part.rows : split.whole[0].size;
      split.rows.push_back({part.first_row, rows, rows / ranks});
    }
    value.shape[0].size /= ranks;
  }
  value.parameter->split = std::move(split);
}

void Declarer::mark_partial_gradient(ValueId parameter) {
  const auto mark = [&](ValueId value) {
    graph_.value(value).parameter->partial_gradient = spec_.parallel.tensor > 1;
  };
  mark(parameter);
  if (const auto runs = runs_.find(parameter); runs != runs_.end())
    for (const SlotRun& run : runs->second) mark(run.value);
}

ir::Value Declarer::parameter(const std::string& name, ir::Shape shape, int slots, Init init,
                              bool decay) const {
  ir::Value value;
  value.name = name;
  value.role = ir::Role::parameter;
  value.slots = slots;
  value.shape = std::move(shape);
  value.parameter = ir::ParameterInfo{.init = init, .decay = decay, .checkpoint = {}};
  return value;
}

std::vector<CheckpointPart> Declarer::parts(const ir::Value& value, const std::vector<Names>& names,
                                            bool transposed) const {
  const int64_t rows = value.shape[0].size;
  std::vector<CheckpointPart> parts;
  for (const Names& part : names) {
    const int64_t own_rows = part.rows ? part.rows : rows;
    if (!parts.empty() && parts.back().name == part.name)
      parts.back().rows += own_rows;
    else
      parts.push_back({part.name, part.first_row, own_rows, transposed, 0, value.slots - 1});
  }
  return parts;
}

namespace {

// The share of all tokens that routed layers compute.
double routed_share(const spec::Spec& spec) {
  return static_cast<double>(spec::chosen_tokens(spec)) / static_cast<double>(spec.train.sequence_len);
}

ir::Dim ranks(size_t adapters, int64_t rank) {
  return {static_cast<int64_t>(adapters) * rank, adapters == 1 ? "Rank" : std::to_string(adapters) + "Rank"};
}

// The slots of `run` as a parameter of their own.
ir::Value part_of(const ir::Value& whole, const SlotRun& run) {
  ir::Value part = whole;
  if (run.first > 0) part.name += "." + std::to_string(run.first);
  part.slots = run.slots;
  part.parameter->first_layer = run.first;
  part.parameter->layer_step = run.step;
  part.parameter->checkpoint.clear();
  for (CheckpointPart names : whole.parameter->checkpoint) {
    const CheckpointPart all = names;
    names.first_slot = run.slots;
    for (int slot = 0; slot < run.slots; ++slot) {
      const int of_whole = run.first + slot * run.step;
      if (of_whole < all.first_slot || of_whole > all.last_slot) continue;
      names.first_slot = std::min(names.first_slot, slot);
      names.last_slot = slot;
    }
    if (names.first_slot < run.slots) part.parameter->checkpoint.push_back(std::move(names));
  }
  return part;
}

}  // namespace

std::vector<Declarer::Kind> Declarer::kinds_of(const ir::Value& value) const {
  const int64_t on_device = value.slots - spec_.optimizations.offload.weights;
  std::vector<Kind> kinds;
  for (int slot = 0; slot < value.slots; ++slot)
    kinds.push_back({is_frozen(spec_, value, slot), slot >= on_device && !value.parameter->matrices.empty()});
  return kinds;
}

ValueId Declarer::add(const ir::Value& value, const std::vector<Kind>& kinds, std::optional<int> place) {
  const int step = value.slots > 1 ? spec::layers_of_iteration(spec_) : 1;
  std::vector<SlotRun> runs;
  for (int begin = place.value_or(0); begin < (place ? *place + 1 : step); ++begin) {
    for (int first = begin, end = begin; first < value.slots; first = end) {
      while (end < value.slots && kinds[end] == kinds[first]) end += step;
      SlotRun run{first, step, (end - first) / step};
      ir::Value part = part_of(value, run);
      if (kinds[first].is_frozen) part.role = ir::Role::frozen;
      part.parameter->on_host = kinds[first].on_host;
      if (step > 1 && begin == step - 1) part.parameter->token_share = routed_share(spec_);
      run.value = graph_.add(std::move(part));
      runs.push_back(run);
    }
  }
  const ValueId id = runs[0].value;
  if (runs.size() > 1 || place) runs_[id] = std::move(runs);
  return id;
}

ValueId Declarer::vector_of_routed(const std::string& name, ir::Dim size, Init init,
                                   const std::string& name_there) {
  const auto layers = static_cast<int>(spec_.model.num_hidden_layers);
  ir::Value value = parameter(name, {std::move(size)}, layers, init, false);
  value.parameter->checkpoint = parts(value, {{name_there}}, false);
  return add(value, kinds_of(value), spec::layers_of_iteration(spec_) - 1);
}

std::map<ValueId, Adapter> Declarer::declare_adapters() {
  std::map<ValueId, Adapter> adapters;
  for (const auto& [matrix, whole] : matrices_) {
    std::vector<CheckpointPart> targets = whole.parameter->checkpoint;
    std::erase_if(targets, [&](const CheckpointPart& part) { return !adapts(spec_, module_of(part)); });
    if (targets.empty()) continue;
    adapters[matrix] = declare_adapter(whole, targets);
    adapters[matrix].site = static_cast<int64_t>(adapters.size()) - 1;
  }
  return adapters;
}

namespace {

// Rows of the value that `rows` of the whole parameter are.
ir::RowRange own_rows(const ir::Value& value, ir::RowRange rows) {
  const auto& split = value.parameter->split;
  if (!split || split->axis == 1) return rows;
  ir::RowRange own;
  for (const ir::Split::Rows& part : split->rows) {
    if (part.first < rows.first) own.first += part.own;
    if (part.first >= rows.first && part.first < rows.first + rows.count) own.count += part.own;
  }
  return own;
}

// Of a matrix whose outputs are divided, B's rows are too, and of one whose inputs are, A's columns.
void divide_adapter(const ir::Value& weight, ir::Value& a, ir::Value& b) {
  const auto& split = weight.parameter->split;
  if (!split) return;
  ir::Value& part = split->axis == 0 ? b : a;
  part.parameter->split = split;
  part.parameter->split->whole = {split->axis == 0 ? split->whole[0] : a.shape[0],
                                  split->axis == 0 ? b.shape[1] : split->whole[1]};
}

}  // namespace

// Named as PEFT names them, and drawn as there: A uniformly within 1 / sqrt(in), B zeros.
Adapter Declarer::declare_adapter(const ir::Value& weight, const std::vector<CheckpointPart>& targets) {
  const int64_t rank = spec_.adapter.r;
  const std::string name = weight.name.substr(0, weight.name.rfind('.'));
  const double bound = 1 / std::sqrt(static_cast<double>(whole_shape(weight)[1].size));
  ir::Value a = parameter(name + ".lora_a", {ranks(targets.size(), rank), weight.shape[1]}, weight.slots,
                          {Init::Kind::uniform, bound}, true);
  ir::Value b =
      parameter(name + ".lora_b", {weight.shape[0], ranks(1, rank)}, weight.slots, {Init::Kind::zeros}, true);
  divide_adapter(weight, a, b);
  Adapter adapter;
  for (const CheckpointPart& target : targets) {
    const std::string module = "base_model.model." + module_of(target);
    const ir::RowRange own{static_cast<int64_t>(adapter.targets.size()) * rank, rank};
    a.parameter->matrices.push_back(own);
    a.parameter->checkpoint.push_back(
        {module + ".lora_A.weight", own.first, own.count, false, 0, weight.slots - 1});
    adapter.targets.push_back(own_rows(weight, {target.first_row, target.rows}));
    b.parameter->matrices.push_back(adapter.targets.back());
    b.parameter->checkpoint.push_back(
        {module + ".lora_B.weight", target.first_row, target.rows, false, 0, weight.slots - 1});
  }
  // For the adapter matrix that is not divided, each rank computes only terms of the gradient: from its own
  // rows, or from its own outputs.
  ir::Value& whole = a.parameter->split ? b : a;
  whole.parameter->partial_gradient = divides_stream();
  adapter.a = add(a, std::vector<Kind>(static_cast<size_t>(a.slots)));
  adapter.b = add(b, std::vector<Kind>(static_cast<size_t>(b.slots)));
  return adapter;
}

}  // namespace hydrac::models
