#include "models/pack.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "models/packer.h"
#include "models/parameters.h"
#include "models/sharing.h"

namespace hydrac::models {

namespace {

using ir::Dim;
using ir::ValueId;

ir::Value pack_value(const std::string& name, ir::Role role, ir::DType dtype, ir::Shape shape) {
  ir::Value pack;
  pack.name = name;
  pack.role = role;
  pack.dtype = dtype;
  pack.shape = std::move(shape);
  return pack;
}

bool works_on_logits(const ir::Region& region) {
  return std::ranges::any_of(region.nodes,
                             [](const ir::Node& node) { return node.op == ir::Op::cross_entropy; });
}

// Gradients that one matmul writes whole.
std::set<ValueId> written_by_one_matmul(const ir::Graph& graph, bool head_in_parts) {
  std::map<ValueId, int> writers;
  std::set<ValueId> added_up;
  for (const ir::Region& region : graph.function("micro_step").regions) {
    const bool in_parts = head_in_parts && works_on_logits(region);
    for (const ir::Node& node : region.nodes) {
      for (ir::Use output : node.outputs) {
        if (output.value == ir::kNoValue || graph.value(output).role != ir::Role::gradient) continue;
        ++writers[output.value];
        if (in_parts || node.op != ir::Op::gemm || node.flag("accumulate")) added_up.insert(output.value);
      }
    }
  }
  std::set<ValueId> written;
  for (const auto& [gradient, count] : writers) {
    if (count == 1 && !added_up.contains(gradient)) written.insert(gradient);
  }
  return written;
}

// Whether matmuls and embeddings read the parameter: others compute in f32 with what they read.
bool is_operand(const ir::Graph& graph, const ir::Value& parameter) {
  if (parameter.shape.size() == 2) return true;
  return std::ranges::any_of(graph.function("micro_step").regions, [&](const ir::Region& region) {
    return std::ranges::any_of(region.nodes, [&](const ir::Node& node) {
      return node.op == ir::Op::linear &&
             std::ranges::any_of(node.inputs, [&](ir::Use use) { return use.value == parameter.id; });
    });
  });
}

// Whether the gradient of what the matrix is multiplied by is wanted.
bool passes_a_gradient(const ir::Graph& graph, ValueId matrix) {
  return std::ranges::any_of(graph.function("micro_step").regions, [&](const ir::Region& region) {
    return std::ranges::any_of(region.nodes, [&](const ir::Node& node) {
      const bool is_backward =
          node.op == ir::Op::gemm || (node.op == ir::Op::grouped_matmul && !node.flag("transpose_b"));
      return is_backward && node.inputs[1].value == matrix;
    });
  });
}

}  // namespace

ValueId gradient_of(const ir::Graph& graph, const ir::Value& parameter) {
  const ValueId gradient = graph.find("d_" + parameter.name);
  if (gradient == ir::kNoValue) throw std::logic_error("no gradient reaches " + parameter.name);
  return gradient;
}

PackTypes pack_types(const spec::Spec& spec, ir::DType activations) {
  const auto& o = spec.optimizations;
  PackTypes types;
  if (o.weights == spec::WeightType::bf16) types.parameters = ir::DType::bf16;
  if (o.gradients == spec::GradientType::compute) types.gradients = activations;
  types.matmuls = activations;
  if (o.optimizer_state == spec::StateType::bf16) types.moments = ir::DType::bf16;
  if (o.optimizer_state == spec::StateType::int8) types.moments = ir::DType::u8;
  types.exact_embeddings = o.embedding_state == spec::EmbeddingState::fp32;
  types.head_in_parts = o.loss != spec::LossKernel::materialized;
  if (spec.parallel.zero > 0) types.sharing_ranks = spec.parallel.data;
  types.shards_gradients = types.sharing_ranks > 1 && spec.parallel.zero > 1;
  types.shards_weights = types.sharing_ranks > 1 && spec.parallel.zero > 2;
  types.tensor_ranks = spec.parallel.tensor;
  return types;
}

namespace {

bool is_embedding(const ir::Graph& graph, const ir::Value& parameter) {
  return std::ranges::any_of(graph.function("micro_step").regions, [&](const ir::Region& region) {
    return std::ranges::any_of(region.nodes, [&](const ir::Node& node) {
      return (node.op == ir::Op::embedding || node.op == ir::Op::position_embedding) &&
             std::ranges::any_of(node.inputs, [&](ir::Use use) { return use.value == parameter.id; });
    });
  });
}

ir::DType moments_of(const ir::Graph& graph, const ir::Value& parameter, const PackTypes& types) {
  if (types.moments != ir::DType::u8) return types.moments;
  const bool is_exact = element_count(parameter.shape) < kFewestQuantized ||
                        (types.exact_embeddings && is_embedding(graph, parameter));
  return is_exact ? ir::DType::f32 : ir::DType::u8;
}

// In the order of the pack. Muon's are the matrices of the blocks; the rest is AdamW's.
std::vector<ParameterGroup> groups_of(const ir::Graph& graph, spec::Optimizer optimizer,
                                      const PackTypes& types, const std::set<ValueId>& narrow) {
  const bool has_muon = optimizer == spec::Optimizer::muon;
  const auto kind_of = [&](const ir::Value& value) {
    if (has_muon && !value.parameter->matrices.empty()) return 0;
    return narrow.contains(gradient_of(graph, value)) ? 1 : 2;
  };
  using Key = std::tuple<bool, bool, int>;  // is not Muon's, is exact, kind
  std::map<Key, ParameterGroup> groups;
  for (const ir::Value& value : graph.values) {
    if (!value.trains()) continue;
    const int kind = kind_of(value);
    const ir::DType moments = moments_of(graph, value, types);
    ParameterGroup& group = groups[{kind > 0, moments != ir::DType::u8, kind}];
    group.optimizer = !has_muon ? optimizer : kind == 0 ? spec::Optimizer::muon : spec::Optimizer::adamw;
    group.moments = moments;
    group.members.push_back(value.id);
  }
  // A name says what the groups differ in.
  std::set<int> kinds;
  std::set<bool> exact;
  for (const auto& [key, group] : groups) {
    exact.insert(std::get<1>(key));
    kinds.insert(std::get<2>(key));
  }
  std::vector<ParameterGroup> list;
  for (auto& [key, group] : groups) {
    static constexpr const char* names[] = {"hidden", "matmuls", "sums"};
    if (kinds.size() > 1) group.name = names[std::get<2>(key)];
    if (exact.size() > 1) {
      group.name += group.name.empty() ? "" : "_";
      group.name += std::get<1>(key) ? "fp32_state" : "int8_state";
    }
    list.push_back(std::move(group));
  }
  return list;
}

// Gives the gradients of the group's members their places: those of the parameters.
void place_gradients(ir::Graph& graph, ParameterGroup& group, int64_t row, ir::DType dtype) {
  group.gradients =
      graph.add(pack_value(group.name.empty() ? "gradients" : "gradients." + group.name, ir::Role::gradient,
                           dtype, pack_shape(group.rows.size * row, group.name, row)));
  for (const ValueId member : group.members) {
    const ir::Value& parameter = graph.value(member);
    ir::Value& gradient = graph.value(gradient_of(graph, parameter));
    gradient.dtype = dtype;
    gradient.view = parameter.view;
    gradient.view->base = group.gradients;
    gradient.view->offset -= group.first_row * row;
  }
}

// What a rank has of the group's rows. An activation lives in the update alone.
ir::Value own_part(const ParameterGroup& group, const std::string& name, ir::Dim row, ir::DType dtype,
                   ir::Role role) {
  int64_t rows = 0;
  for (const Stretch& stretch : group.stretches) rows += stretch.slots * stretch.own;
  ir::Value part = pack_value(name + (group.name.empty() ? "" : "." + group.name), role, dtype,
                              {{rows, rows_symbol(group.name, "Own")}, std::move(row)});
  part.exact = true;
  return part;
}

// Whether only loops over layers read the frozen matrix, each iteration its own slot, whose rows ranks
// divide.
bool divides_by_layers(const ir::Graph& graph, const Pack& pack, const ir::Value& matrix) {
  if (matrix.shape.size() != 2 || element_count(matrix.shape) % (pack.row * pack.sharing_ranks) != 0)
    return false;
  return std::ranges::all_of(graph.functions, [&](const ir::Function& function) {
    return std::ranges::all_of(function.regions, [&](const ir::Region& region) {
      return std::ranges::all_of(region.nodes, [&](const ir::Node& node) {
        return std::ranges::all_of(node.inputs,
                                   [&](ir::Use use) { return use.value != matrix.id || use.slot.per_layer; });
      });
    });
  });
}

// A rank's parts lie as those of a group of trained parameters do.
void divide_frozen(ir::Graph& graph, Pack& pack, const PackTypes& types, std::vector<ValueId> members) {
  const ValueId all = graph.add(
      pack_value("frozen.divided", ir::Role::divided, types.matmuls, pack_shape(0, "frozen", pack.row)));
  Packer packer(graph, all, types.matmuls, pack.row, pack.sharing_ranks);
  ParameterGroup group = packer.add({.name = "frozen", .members = std::move(members)});
  graph.value(all).shape = pack_shape(packer.elements(), "frozen", pack.row);
  group.parameters = all;
  if (types.gathers_ahead) group.rows_ahead = rows_ahead_of(group);
  group.own_parameters = add_behind_rows_ahead(
      graph, group,
      own_part(group, "own_parameters", graph.value(all).shape[1], types.matmuls, ir::Role::frozen));
  for (Stretch& stretch : group.stretches) stretch.parameters = stretch.member;
  pack.frozen = std::move(group);
}

void pack_frozen(ir::Graph& graph, Pack& pack, const PackTypes& types) {
  using Kind = std::pair<ir::DType, bool>;  // and whether it lies in the host's memory
  std::map<Kind, std::vector<ValueId>> by_kind;
  std::vector<ValueId> divided;
  for (ir::Value& value : graph.values) {
    if (!value.parameter || value.trains()) continue;
    if (value.parameter->nf4) {
      value.dtype = types.matmuls;
      value.parameter->flop = passes_a_gradient(graph, value.id) ? 4 : 2;
      continue;
    }
    const Kind kind{is_operand(graph, value) ? types.matmuls : types.parameters, value.parameter->on_host};
    const bool is_divided = pack.shards_weights && divides_by_layers(graph, pack, value);
    (is_divided ? divided : by_kind[kind]).push_back(value.id);
    value.parameter->flop = passes_a_gradient(graph, value.id) ? 4 : 2;
  }
  if (!divided.empty()) divide_frozen(graph, pack, types, std::move(divided));
  for (const auto& [kind, members] : by_kind) {
    const auto [dtype, on_host] = kind;
    std::string name = by_kind.size() == 1 ? "frozen" : "frozen." + std::string(to_string(dtype));
    if (on_host) name = "frozen.host";
    const ValueId pack = graph.add(pack_value(name, ir::Role::frozen, dtype, pack_shape(0, name)));
    graph.value(pack).on_host = on_host;
    Packer packer(graph, pack, dtype);
    packer.place(members);
    graph.value(pack).shape = pack_shape(packer.elements(), name);
  }
}

}  // namespace

Pack pack_parameters(ir::Graph& graph, spec::Optimizer optimizer, const PackTypes& types) {
  std::set<ValueId> narrow;
  if (types.gradients != ir::DType::f32) narrow = written_by_one_matmul(graph, types.head_in_parts);
  Pack pack{
      .row = types.moments == ir::DType::u8 ? kStateBlock : kPackRow,
      .sharing_ranks = types.sharing_ranks,
      .matmuls = types.matmuls,
      .is_divided = types.shards_weights || (types.sharing_ranks > 1 && types.parameters != types.matmuls),
      .shards_gradients = types.shards_gradients,
      .shards_weights = types.shards_weights,
      .tensor_ranks = types.tensor_ranks};
  pack.parameters =
      graph.add(pack_value("parameters", pack.is_divided ? ir::Role::divided : ir::Role::parameter,
                           types.parameters, pack_shape(0, "")));
  Packer packer(graph, pack.parameters, types.parameters, pack.row, pack.sharing_ranks, pack.tensor_ranks);
  for (ParameterGroup& group : groups_of(graph, optimizer, types, narrow))
    pack.groups.push_back(packer.add(std::move(group)));
  graph.value(pack.parameters).shape = pack_shape(packer.elements(), "", pack.row);
  pack.whole_rows = packer.whole_rows();
  for (ParameterGroup& group : pack.groups) {
    const bool is_narrow = std::ranges::all_of(group.members, [&](ValueId member) {
      return narrow.contains(gradient_of(graph, graph.value(member)));
    });
    const ir::DType gradients = is_narrow ? types.gradients : ir::DType::f32;
    if (!pack.shards_gradients) place_gradients(graph, group, pack.row, gradients);
    group.own_parameters = group.parameters = rows_of(graph, group, pack.parameters);
    group.own_gradients = group.gradients;
    if (pack.sharing_ranks == 1) continue;
    const ir::Dim row = graph.value(pack.parameters).shape[1];
    if (types.shards_weights && types.gathers_ahead) group.rows_ahead = rows_ahead_of(group);
    ir::Value own = own_part(group, "own_parameters", row, types.parameters,
                             pack.is_divided ? ir::Role::master : ir::Role::activation);
    const bool is_read = types.parameters == types.matmuls;  // by layers, else copies of it are
    group.own_parameters =
        is_read ? add_behind_rows_ahead(graph, group, std::move(own)) : graph.add(std::move(own));
    group.own_gradients =
        graph.add(own_part(group, "own_gradients", row, gradients,
                           pack.shards_gradients ? ir::Role::gradient : ir::Role::activation));
    if (pack.shards_gradients) shard_gradients(graph, pack, group, gradients);
    divide_rows(graph, pack, group);
  }
  pack_frozen(graph, pack, types);
  return pack;
}

namespace {

ValueId rows_from(ir::Graph& graph, const ParameterGroup& group, ValueId packed, int64_t first,
                  const ir::Dim& rows) {
  ir::Value view = graph.value(packed);
  if (view.shape[0].size == rows.size) return packed;
  const int64_t row = element_count(view.shape) / view.shape[0].size;
  view.name += "." + group.name;
  view.shape[0] = rows;
  view.shared.clear();
  view.view = ir::View{packed, first * row, 0, contiguous_strides(view.shape)};
  return graph.add(std::move(view));
}

}  // namespace

std::vector<const ParameterGroup*> divided_groups(const Pack& pack) {
  std::vector<const ParameterGroup*> groups;
  if (!pack.is_divided) return groups;
  for (const ParameterGroup& group : pack.groups) groups.push_back(&group);
  if (pack.frozen) groups.push_back(&*pack.frozen);
  return groups;
}

ValueId rows_of(ir::Graph& graph, const ParameterGroup& group, ValueId packed, int64_t first_row) {
  return rows_from(graph, group, packed, group.first_row - first_row, group.rows);
}

ValueId own_rows_of(ir::Graph& graph, const Pack& pack, const ParameterGroup& group, ValueId packed,
                    int64_t first_row) {
  return rows_from(graph, group, packed, (group.first_row - first_row) / pack.sharing_ranks,
                   graph.value(group.own_parameters).shape[0]);
}

}  // namespace hydrac::models
