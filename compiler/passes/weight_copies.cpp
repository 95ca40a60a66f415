#include "passes/weight_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "models/sharing.h"

namespace hydrac::passes {

using ir::Node;
using ir::Role;
using ir::Use;
using ir::Value;
using ir::ValueId;

bool is_matmul(const Node& node) {
  return node.op == ir::Op::linear || node.op == ir::Op::gemm || node.op == ir::Op::grouped_matmul ||
         node.op == ir::Op::grouped_weight_gradient;
}

WeightCopies::WeightCopies(ir::Graph& graph, const models::Pack& pack, ir::DType type)
    : graph_(graph),
      pack_(pack),
      type_(type),
      is_other_type_(graph.value(pack.parameters).dtype != type),
      has_host_(std::ranges::any_of(
          graph.values, [](const Value& value) { return value.trains() && value.parameter->on_host; })),
      vectors_(graph, pack) {
  if (!pack_.shards_weights) return;
  find_gathered();
  declare_own_copies();
}

// Matrices, embedding tables, and the biases of matmuls have working copies; norms' weights and biases are
// read as they are stored.
WeightCopies::Kind WeightCopies::kind_of_copy(const Node& node, const Value& value) const {
  if (!value.parameter) return Kind::none;
  if (pack_.frozen && std::ranges::count(pack_.frozen->members, value.id) > 0) return Kind::working;
  const bool is_divided = pack_.is_divided && value.trains();
  if (value.parameter->on_host) return Kind::working;
  if (value.shape.size() == 2 || is_matmul(node)) {
    if (value.dtype != type_) return Kind::working;
    if (is_divided) return value.parameter->decay ? Kind::working : Kind::vector;
  }
  return is_divided ? Kind::vector : Kind::none;
}

WeightCopies::Place WeightCopies::place_of(ValueId parameter) const {
  for (const models::ParameterGroup* group : divided_groups(pack_)) {
    if (std::ranges::count(group->members, parameter) == 0) continue;
    const int64_t row = graph_.value(parameter).view.value().offset / pack_.row - group->first_row;
    const auto behind = std::ranges::upper_bound(group->stretches, row, {}, &models::Stretch::first_row);
    return {group, &*std::prev(behind)};
  }
  throw std::logic_error(graph_.value(parameter).name + " is in no group");
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
          const bool is_of_layer = use.slot.per_layer && place_of(use.value).stretch->member == use.value;
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

bool WeightCopies::is_streamed(ValueId parameter) const {
  const Value& value = graph_.value(parameter);
  return gathered_.contains(parameter) || (value.parameter && value.parameter->on_host);
}

// In the order in which nodes read them.
std::vector<Use> WeightCopies::streamed_by(const ir::Region& region) const {
  std::vector<Use> parameters;
  for (const Node& node : region.nodes) {
    for (const Use use : node.inputs) {
      if (use.value == ir::kNoValue || !is_streamed(use.value)) continue;
      const auto known = std::ranges::find(parameters, use.value, &Use::value);
      if (!use.slot.per_layer || (known != parameters.end() && *known != use))
        throw std::logic_error(to_text(graph_, use) + " is not of the layer");
      if (known == parameters.end()) parameters.push_back(use);
    }
  }
  return parameters;
}

void WeightCopies::begin(const ir::Function& function, ir::Region& region) {
  of_region_.clear();
  const std::vector<Use> parameters = streamed_by(region);
  if (parameters.empty()) return;
  const std::string name = function.name == "micro_step" ? region.name : function.name + "." + region.name;
  declare_layer(name, parameters, region.layers);
  std::vector<Node> nodes = fetched(parameters);
  region.nodes.insert(region.nodes.begin(), std::make_move_iterator(nodes.begin()),
                      std::make_move_iterator(nodes.end()));
}

// The parameters of a layer behind one another, each from a multiple of 64 elements on.
void WeightCopies::declare_layer(const std::string& name, const std::vector<Use>& parameters, int layers) {
  constexpr int64_t kAlignment = 64;
  Value layer;
  layer.name = "weights." + name;
  layer.dtype = type_;
  layer.exact = true;
  layer.slots = layers;
  layer.shape = {{0, ""}};
  const ValueId storage = graph_.add(std::move(layer));
  int64_t elements = 0;
  for (const Use use : parameters) {
    Value copy = graph_.value(use);
    copy.name += "." + name;
    copy.role = Role::activation;
    copy.dtype = type_;
    copy.exact = true;
    copy.slots = layers;
    copy.parameter.reset();
    copy.view = ir::View{storage, elements, 0, contiguous_strides(copy.shape)};
    elements += (element_count(copy.shape) + kAlignment - 1) / kAlignment * kAlignment;
    of_region_[use.value] = {graph_.add(std::move(copy)), use.slot.index};
  }
  graph_.value(storage).shape[0].size = elements;
}

std::vector<Node> WeightCopies::fetched(const std::vector<Use>& parameters) {
  std::vector<Node> nodes;
  for (const Use use : parameters) {
    const bool is_gathered = gathered_.contains(use.value);
    if (nodes.empty() || !is_gathered) {
      Node node{.op = is_gathered ? ir::Op::all_gather : ir::Op::transfer,
                .attributes = {{"weights_of_layer", true}},
                .scope = "weights",
                .origin = is_gathered ? "parallel.zero" : "optimizations.offload.weights"};
      if (is_gathered) node.attributes["ranks"] = pack_.sharing_ranks;
      nodes.push_back(std::move(node));
    }
    const bool is_frozen = !graph_.value(use).trains();
    const ValueId from = is_gathered ? own_rows(use.value) : is_frozen ? use.value : working_copy(use.value);
    nodes.back().inputs.push_back({from, use.slot});
    nodes.back().outputs.push_back({of_region_.at(use.value).copy, {true, 0}});
  }
  return nodes;
}

// A rank's rows of a parameter that layers gather.
ValueId WeightCopies::own_rows(ValueId parameter) {
  const auto [found, is_new] = own_rows_.try_emplace(parameter, ir::kNoValue);
  if (!is_new) return found->second;
  const Place place = place_of(parameter);
  const bool is_frozen = !graph_.value(parameter).trains();
  const ValueId own = is_frozen ? place.group->own_parameters
                                : own_copies_[static_cast<size_t>(place.group - pack_.groups.data())];
  return found->second = own_rows_of(graph_, *place.stretch, own);
}

Use WeightCopies::read(const Node& node, Use use) {
  if (use.value == ir::kNoValue || node.optional_flag("weights_of_layer")) return use;
  switch (kind_of_copy(node, graph_.value(use))) {
    case Kind::none:
      return use;
    case Kind::vector:
      return {vectors_.copy_of(use.value), use.slot};
    case Kind::working:
      break;
  }
  if (const auto found = of_region_.find(use.value); found != of_region_.end())
    return {found->second.copy, {true, use.slot.index - found->second.index}};
  return {working_copy(use.value), use.slot};
}

const CopyPiece* WeightCopies::piece_of(ValueId parameter) {
  if (!places_) declare_places();
  return places_->find(graph_.value(parameter).view.value().offset);
}

// The copy of a whole parameter.
ValueId WeightCopies::working_copy(ValueId parameter) {
  if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
  const CopyPiece* piece = piece_of(parameter);
  if (piece == nullptr) throw std::logic_error(graph_.value(parameter).name + " has no copy that is whole");
  Value copy = graph_.value(parameter);
  copy.name += suffix();
  copy.role = Role::working_copy;
  copy.dtype = type_;
  copy.parameter.reset();
  copy.view->base = piece->base;
  copy.view->offset += piece->at - piece->first;
  return copies_[parameter] = graph_.add(std::move(copy));
}

void WeightCopies::declare_places() {
  const auto is_whole = [&](const models::Stretch& stretch) {
    return std::ranges::any_of(whole_, [&](ValueId id) { return place_of(id).stretch == &stretch; });
  };
  places_ = pack_.shards_weights ? CopyPlaces::of_stretches(graph_, pack_, type_, is_whole)
            : has_host_          ? CopyPlaces::with_host(graph_, pack_, type_)
                                 : CopyPlaces::of_all(graph_, pack_, type_);
}

void WeightCopies::make() {
  if (!has_copies() && !pack_.is_divided) return;
  if (!pack_.is_divided) declare_casts();
  rewrite(graph_.function("update"));
  graph_.functions.push_back({"load", {{"load", 0, false, false, {}}}});
  rewrite(graph_.functions.back());
  std::vector<ir::Region>& regions = graph_.functions.back().regions;
  std::erase_if(regions, [](const ir::Region& region) { return region.nodes.empty(); });
  if (regions.empty()) graph_.functions.pop_back();
}

// One cast for a group; or one for each piece if some copies are elsewhere, because then the copies are not
// rows of the optimizer's kernel.
void WeightCopies::declare_casts() {
  for (const models::ParameterGroup& group : pack_.groups) {
    if (!has_host_)
      casts_.push_back({group.parameters, rows_of(graph_, group, places_->find(0)->base)});
    else
      for (const CopyPiece& piece : places_->of_group(pack_, group)) add_cast(piece);
  }
}

void WeightCopies::add_cast(const CopyPiece& piece) {
  const int64_t count = piece.end - piece.first,
                width = std::gcd(std::gcd(piece.first, piece.at), std::gcd(count, pack_.row));
  const std::string name = fmt::format("from{}", piece.first);
  casts_.push_back({elements_of(graph_, pack_.parameters, piece.first, count, width, name),
                    elements_of(graph_, piece.base, piece.at, count, width, name)});
}

void WeightCopies::rewrite(ir::Function& function) {
  ops::RegionBuilder b(graph_, function.regions.back());
  b.enter("optimizer", "optimizations.precision");
  if (pack_.is_divided) return gather(function, b);
  for (const Cast& cast : casts_) b.emit_node(ir::Op::cast, {{cast.from, {}}}, {{cast.to, {}}});
}

// Each rank makes the copies of its part.
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
  vectors_.make(b);
  const auto gathered = [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
    if (!places_ || places_->find((group.first_row + stretch.first_row) * pack_.row) == nullptr)
      return models::Moved{};
    return models::Moved{own_rows_of(graph_, stretch, own[static_cast<size_t>(&group - pack_.groups.data())]),
                         whole_copies_of(group, stretch)};
  };
  for (ir::Region& region :
       regions_of_stretches(pack_, "gather", ir::Op::all_gather, "optimizations.precision", gathered))
    function.regions.push_back(std::move(region));
}

// Copies of all rows of a stretch.
ValueId WeightCopies::whole_copies_of(const models::ParameterGroup& group, const models::Stretch& stretch) {
  if (stretch.member != ir::kNoValue) return working_copy(stretch.member);
  auto [found, is_new] = stretch_copies_.try_emplace(stretch.parameters);
  if (!is_new) return found->second;
  const int64_t first = (group.first_row + stretch.first_row) * pack_.row;
  const CopyPiece* piece = places_->find(first);
  return found->second = whole_rows_of(graph_, pack_, stretch, piece->base,
                                       (piece->at + first - piece->first) / pack_.row);
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
