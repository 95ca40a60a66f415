#include "passes/weight_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ir/body_builder.h"
#include "models/sharing.h"

namespace hydrac::passes {

using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;
using ir::Value;
using ir::ValueId;

bool is_matmul(const Node& node) {
  return node.op == ir::Op::linear || node.op == ir::Op::gemm;
}

WeightCopies::WeightCopies(ir::Graph& graph, const models::Pack& pack, ir::DType type)
    : graph_(graph), pack_(pack), type_(type), is_other_type_(graph.value(pack.parameters).dtype != type) {
  if (!pack_.shards_weights) return;
  find_gathered();
  declare_own_copies();
}

// Matrices, embedding tables, and the biases of matmuls have working copies; norms' weights and biases are
// read as they are stored.
WeightCopies::Kind WeightCopies::kind_of_copy(const Node& node, const Value& value) const {
  if (!value.parameter) return Kind::none;
  const bool is_divided = pack_.is_divided && value.trains();
  if (value.shape.size() == 2 || is_matmul(node)) {
    if (value.dtype != type_) return Kind::working;
    if (is_divided) return value.parameter->decay ? Kind::working : Kind::vector;
  }
  return is_divided ? Kind::vector : Kind::none;
}

WeightCopies::Place WeightCopies::place_of(ValueId parameter) const {
  for (const models::ParameterGroup& group : pack_.groups) {
    if (std::ranges::count(group.members, parameter) == 0) continue;
    const int64_t row = graph_.value(parameter).view.value().offset / pack_.row - group.first_row;
    const auto behind = std::ranges::upper_bound(group.stretches, row, {}, &models::Stretch::first_row);
    return {&group, &*std::prev(behind)};
  }
  throw std::logic_error(graph_.value(parameter).name + " is in no group");
}

// Of a stretch, in the pack of copies.
int64_t WeightCopies::first_row(const Place& place) const {
  return pack_.shards_weights ? places_.at(place.stretch) : place.group->first_row + place.stretch->first_row;
}

// Parameters that are stretches of their own and that loops over their layers alone read.
void WeightCopies::find_gathered() {
  for (const ir::Function& function : graph_.functions) {
    if (function.name == "update") continue;
    for (const ir::Region& region : function.regions) {
      for (const Node& node : region.nodes) {
        for (const Use use : node.inputs) {
          if (use.value == ir::kNoValue) continue;
          const Value& value = graph_.value(use);
          if (kind_of_copy(node, value) != Kind::working) continue;
          const bool is_of_layer = use.slot == ir::Slot{true, 0} && region.layers == value.slots &&
                                   place_of(use.value).stretch->member == use.value;
          (is_of_layer ? gathered_ : whole_).insert(use.value);
        }
      }
    }
  }
  for (const ValueId parameter : whole_) gathered_.erase(parameter);
}

void WeightCopies::declare_own_copies() {
  for (const models::ParameterGroup& group : pack_.groups) {
    own_copies_.push_back(group.own_parameters);
    if (!is_other_type_) continue;
    Value copies = graph_.value(group.own_parameters);
    copies.name += suffix();
    copies.role = Role::working_copy;
    copies.dtype = type_;
    copies.view.reset();
    own_copies_.back() = add_behind_rows_ahead(graph_, group, std::move(copies));
  }
}

std::vector<ValueId> WeightCopies::read_by(const ir::Region& region) const {
  std::vector<ValueId> parameters;
  for (const Node& node : region.nodes)
    for (const Use use : node.inputs)
      if (gathered_.contains(use.value) && std::ranges::count(parameters, use.value) == 0)
        parameters.push_back(use.value);
  return parameters;
}

void WeightCopies::begin(const ir::Function& function, ir::Region& region) {
  of_region_.clear();
  const std::vector<ValueId> parameters = read_by(region);
  if (parameters.empty()) return;
  const std::string name = function.name == "micro_step" ? region.name : function.name + "." + region.name;
  Value layer;
  layer.name = "weights." + name;
  layer.dtype = type_;
  layer.exact = true;
  layer.slots = region.layers;
  layer.shape = {{0, ""}, graph_.value(pack_.parameters).shape[1]};
  const ValueId storage = graph_.add(std::move(layer));
  Node node{.op = ir::Op::all_gather,
            .attributes = {{"ranks", pack_.sharing_ranks}, {"weights_of_layer", true}},
            .scope = "weights",
            .origin = "parallel.zero"};
  int64_t rows = 0;
  for (const ValueId parameter : parameters) {
    Value copy = graph_.value(parameter);
    copy.name += "." + name;
    copy.role = Role::activation;
    copy.dtype = type_;
    copy.exact = true;
    copy.parameter.reset();
    copy.view = ir::View{storage, rows * pack_.row, 0, contiguous_strides(copy.shape)};
    rows += element_count(copy.shape) / pack_.row;
    of_region_[parameter] = graph_.add(std::move(copy));
    node.inputs.push_back({own_rows(parameter), {true, 0}});
    node.outputs.push_back({of_region_[parameter], {true, 0}});
  }
  graph_.value(storage).shape[0].size = rows;
  region.nodes.insert(region.nodes.begin(), std::move(node));
}

// A rank's rows of a parameter that layers gather.
ValueId WeightCopies::own_rows(ValueId parameter) {
  const auto [found, is_new] = own_rows_.try_emplace(parameter, ir::kNoValue);
  if (!is_new) return found->second;
  const Place place = place_of(parameter);
  const auto group = static_cast<size_t>(place.group - pack_.groups.data());
  return found->second = own_rows_of(graph_, *place.stretch, own_copies_[group]);
}

Use WeightCopies::read(const Node& node, Use use) {
  if (use.value == ir::kNoValue) return use;
  switch (kind_of_copy(node, graph_.value(use))) {
    case Kind::none:
      return use;
    case Kind::vector:
      return {vector_copy(use.value), use.slot};
    case Kind::working:
      break;
  }
  if (const auto found = of_region_.find(use.value); found != of_region_.end())
    return {found->second, use.slot};
  return {working_copy(use.value), use.slot};
}

// The copy of a whole parameter: at its place in the pack of copies.
ValueId WeightCopies::working_copy(ValueId parameter) {
  if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
  if (working_pack_ == ir::kNoValue) declare_working_pack();
  Value copy = graph_.value(parameter);
  copy.name += suffix();
  copy.role = Role::working_copy;
  copy.dtype = type_;
  copy.parameter.reset();
  copy.view->base = working_pack_;
  if (pack_.shards_weights) {
    const Place place = place_of(parameter);
    copy.view->offset += (first_row(place) - place.group->first_row - place.stretch->first_row) * pack_.row;
  }
  return copies_[parameter] = graph_.add(std::move(copy));
}

void WeightCopies::declare_working_pack() {
  Value pack = graph_.value(pack_.parameters);
  pack.name = (pack_.shards_weights ? "whole_parameters" : pack.name) + suffix();
  pack.role = Role::working_copy;
  pack.dtype = type_;
  if (pack_.shards_weights) {
    int64_t rows = 0;
    for (const models::ParameterGroup& group : pack_.groups) {
      for (const models::Stretch& stretch : group.stretches) {
        if (std::ranges::none_of(whole_, [&](ValueId id) { return place_of(id).stretch == &stretch; }))
          continue;
        places_[&stretch] = rows;
        rows += stretch.own * pack_.sharing_ranks * stretch.slots;
      }
    }
    pack.shape[0] = {rows, "Whole"};
  }
  working_pack_ = graph_.add(std::move(pack));
}

// The copy of a divided parameter in its own type. Such do not decay: they lie behind one another at a
// group's end, and their copies likewise.
ValueId WeightCopies::vector_copy(ValueId parameter) {
  if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
  if (vectors_ == ir::kNoValue) declare_vectors();
  const auto group = std::ranges::find_if(pack_.groups, [&](const models::ParameterGroup& g) {
    return std::ranges::count(g.members, parameter) > 0;
  });
  Value copy = graph_.value(parameter);
  if (copy.parameter->decay)
    throw std::logic_error(fmt::format("{} is divided and read in {}", copy.name, to_string(copy.dtype)));
  const int64_t before =
      group->first_row + group->stretches.back().first_row - first_vectors_[group - pack_.groups.begin()];
  copy.name += ".whole";
  copy.role = Role::master;
  copy.parameter.reset();
  copy.view->base = vectors_;
  copy.view->offset -= before * pack_.row;
  return copies_[parameter] = graph_.add(std::move(copy));
}

void WeightCopies::declare_vectors() {
  Value vectors = graph_.value(pack_.parameters);
  vectors.name = "vectors";
  vectors.role = Role::master;
  int64_t rows = 0;
  for (const models::ParameterGroup& group : pack_.groups) {
    first_vectors_.push_back(rows);
    rows += group.used_rows - group.decayed_rows;
  }
  vectors.shape[0] = {rows, "Vectors"};
  vectors_ = graph_.add(std::move(vectors));
}

void WeightCopies::make() {
  if (!has_copies() && !pack_.is_divided) return;
  if (has_copies() && !pack_.is_divided)
    for (const models::ParameterGroup& group : pack_.groups)
      group_copies_.push_back(rows_of(graph_, group, working_pack_));
  rewrite(graph_.function("update"));
  graph_.functions.push_back({"load", {{"load", 0, false, false, {}}}});
  rewrite(graph_.functions.back());
}

void WeightCopies::rewrite(ir::Function& function) {
  ops::RegionBuilder b(graph_, function.regions.back());
  b.enter("optimizer", "optimizations.precision");
  if (pack_.is_divided) return gather(function, b);
  for (size_t i = 0; i < pack_.groups.size(); ++i)
    b.emit_node(ir::Op::cast, {{pack_.groups[i].parameters, {}}}, {{group_copies_[i], {}}});
}

// Each rank makes the copies of its part; a vector's is the sum of what one rank has and zeros.
void WeightCopies::gather(ir::Function& function, ops::RegionBuilder& b) {
  std::vector<ValueId> own = own_copies_;
  for (const models::ParameterGroup& group : pack_.groups) {
    if (!is_other_type_) break;
    const auto number = static_cast<size_t>(&group - pack_.groups.data());
    const Value& parameters = graph_.value(group.own_parameters);
    if (!pack_.shards_weights)
      own.push_back(b.exact(b.fresh(parameters.name + suffix(), parameters.shape, type_)).value);
    b.emit_node(ir::Op::cast, {{group.own_parameters, {}}}, {{own[number], {}}});
  }
  if (vectors_ != ir::kNoValue) {
    for (size_t i = 0; i < pack_.groups.size(); ++i) spread_vectors(b, i);
    b.emit_node(ir::Op::all_reduce, {{vectors_, {}}}, {{vectors_, {}}}, {{"ranks", pack_.sharing_ranks}});
  }
  const auto gathered = [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
    if (pack_.shards_weights && !places_.contains(&stretch)) return models::Moved{};
    return models::Moved{own_rows_of(graph_, stretch, own[static_cast<size_t>(&group - pack_.groups.data())]),
                         whole_copies_of(group, stretch)};
  };
  for (ir::Region& region :
       regions_of_stretches(pack_, "gather", ir::Op::all_gather, "optimizations.precision", gathered))
    function.regions.push_back(std::move(region));
}

// Of all rows of a stretch.
ValueId WeightCopies::whole_copies_of(const models::ParameterGroup& group, const models::Stretch& stretch) {
  if (stretch.member != ir::kNoValue) return working_copy(stretch.member);
  auto [found, is_new] = stretch_copies_.try_emplace(stretch.parameters);
  if (is_new)
    found->second = whole_rows_of(graph_, pack_, stretch, working_pack_, first_row({&group, &stretch}));
  return found->second;
}

// A group's rows of the vectors: those that this rank has, and zeros.
void WeightCopies::spread_vectors(ops::RegionBuilder& b, size_t number) {
  // Vectors are a group's last stretch.
  const models::ParameterGroup& group = pack_.groups[number];
  const ir::Dim rows{group.used_rows - group.decayed_rows, ""};
  if (rows.size == 0) return;
  Value part = graph_.value(vectors_);
  part.name += group.name.empty() ? "" : "." + group.name;
  part.shape[0] = rows;
  part.view = ir::View{vectors_, first_vectors_[number] * pack_.row, 0, contiguous_strides(part.shape)};
  const models::Stretch& stretch = group.stretches.back();
  const ir::Dim width = part.shape[1];
  const Node node{.inputs = {{group.own_parameters, {}}, {graph_.find("rank"), {}}},
                  .outputs = {{graph_.add(std::move(part)), {}}}};
  ir::BodyBuilder k(graph_, node, {rows});
  k.columns({width});
  const auto number_of = [&](int64_t n, const char* name) {
    return k.constant(static_cast<double>(n), ir::ExprType::i64, name);
  };
  const Term first = convert(k.scalar(1), ir::ExprType::i64) * number_of(stretch.own, "kOwnRows");
  const Term row = k.named("own_row", k.position(k.row(0)) - first);
  const Term zero = number_of(0, "");
  const Term is_own = k.named("is_own", !(row < zero) && row < number_of(stretch.own, "kOwnRows"));
  const Term at = k.named(
      "at", convert(select(is_own, row, zero) + number_of(stretch.first_own_row, ""), ir::ExprType::i32));
  k.store(0, select(is_own, k.gather(0, at, {}, {k.column(0)}), k.constant(0)));
  b.emit_body(node, "own_vectors", k.take(), "the rank's rows of the vectors, and zeros for the others'");
}

std::vector<std::string> WeightCopies::whole_matrices() const {
  std::vector<std::string> names;
  for (const ValueId parameter : whole_)
    if (graph_.value(parameter).parameter->decay) names.push_back(graph_.value(parameter).name);
  return names;
}

std::string WeightCopies::suffix() const {
  return fmt::format(".{}", to_string(type_));
}

}  // namespace hydrac::passes
