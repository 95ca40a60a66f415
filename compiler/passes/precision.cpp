#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/body_builder.h"
#include "models/sharing.h"
#include "ops/builder.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;
using ir::Value;
using ir::ValueId;

bool is_matmul(const Node& node) {
  return node.op == ir::Op::linear || node.op == ir::Op::gemm;
}

// Matrices, embedding tables, and the biases of matmuls; norms' weights and biases are read as they are, in
// f32.
bool reads_working_copy(const Node& node, const Value& value) {
  return value.parameter && (value.shape.size() == 2 || is_matmul(node));
}

class Lowering {
 public:
  Lowering(ir::Graph& graph, const models::Pack& pack, ir::DType storage)
      : graph_(graph), pack_(pack), storage_(storage) {}

  void run() {
    for (Value& value : graph_.values) {
      if (value.role == Role::activation && !value.exact) value.dtype = storage_;
    }
    for (ir::Function& function : graph_.functions) {
      if (function.name == "update") continue;
      for (ir::Region& region : function.regions) lower(region);
    }
    if (!has_working_copies()) return;
    for (const models::ParameterGroup& group : pack_.groups)
      group_copies_.push_back(rows_of(graph_, group, working_pack_));
    rewrite_working_copy(graph_.function("update"));
    graph_.functions.push_back({"load", {{"load", 0, false, false, {}}}});
    rewrite_working_copy(graph_.functions.back());
  }

  bool has_working_copies() const { return working_pack_ != ir::kNoValue; }

 private:
  void lower(ir::Region& region) {
    casts_.clear();
    std::vector<Node> nodes;
    for (Node& node : region.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        Use& input = node.inputs[i];
        if (input.value == ir::kNoValue) continue;
        const Value& value = graph_.value(input);
        if (reads_working_copy(node, value) && value.dtype != storage_) {
          input.value = working_copy(input.value);
        } else if (pack_.is_divided && value.trains()) {
          input.value = vector_copy(input.value);
        } else if (is_matmul(node) && value.dtype != storage_) {
          input = cast(input, node, nodes);
        }
      }
      nodes.push_back(std::move(node));
    }
    region.nodes = std::move(nodes);
  }

  // The working copy of a parameter: at its place in the pack of copies.
  ValueId working_copy(ValueId parameter) {
    if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
    if (working_pack_ == ir::kNoValue) {
      Value pack = graph_.value(pack_.parameters);
      pack.name += suffix();
      pack.role = Role::working_copy;
      pack.dtype = storage_;
      working_pack_ = graph_.add(std::move(pack));
    }
    Value copy = graph_.value(parameter);
    copy.name += suffix();
    copy.role = Role::working_copy;
    copy.dtype = storage_;
    copy.parameter.reset();
    copy.view->base = working_pack_;
    return copies_[parameter] = graph_.add(std::move(copy));
  }

  // The copy in f32 of a divided parameter that is read so, and does not decay: these lie behind one another
  // at a group's end, and their copies likewise.
  ValueId vector_copy(ValueId parameter) {
    if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
    if (vectors_ == ir::kNoValue) declare_vectors();
    const auto group = std::ranges::find_if(pack_.groups, [&](const models::ParameterGroup& g) {
      return std::ranges::count(g.members, parameter) > 0;
    });
    Value copy = graph_.value(parameter);
    if (copy.parameter->decay) throw std::logic_error(copy.name + " is divided and read in f32");
    const int64_t before =
        group->first_row + group->stretches.back().first_row - first_vectors_[group - pack_.groups.begin()];
    copy.name += ".whole";
    copy.role = Role::master;
    copy.parameter.reset();
    copy.view->base = vectors_;
    copy.view->offset -= before * pack_.row;
    return copies_[parameter] = graph_.add(std::move(copy));
  }

  void declare_vectors() {
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

  // An input of a matmul that is f32 (features of a series, the residual stream's gradient): cast once a
  // region.
  Use cast(Use input, const Node& reader, std::vector<Node>& nodes) {
    if (auto found = casts_.find(input); found != casts_.end()) return found->second;
    Value value = graph_.value(input);
    value.name += suffix();
    value.role = Role::activation;
    value.exact = false;
    value.dtype = storage_;
    Node node;
    node.op = ir::Op::cast;
    node.inputs = {input};
    node.outputs = {{graph_.add(std::move(value)), input.slot}};
    node.scope = reader.scope;
    node.origin = "optimizations.precision";
    nodes.push_back(node);
    return casts_[input] = node.outputs[0];
  }

  void rewrite_working_copy(ir::Function& function) {
    ops::RegionBuilder b(graph_, function.regions.back());
    b.enter("optimizer", "optimizations.precision");
    if (pack_.is_divided) return gather_copies(function, b);
    for (size_t i = 0; i < pack_.groups.size(); ++i)
      b.emit_node(ir::Op::cast, {{pack_.groups[i].parameters, {}}}, {{group_copies_[i], {}}});
  }

  // Each rank makes the copies of its part; a vector's is the sum of what one rank has and zeros.
  void gather_copies(ir::Function& function, ops::RegionBuilder& b) {
    std::vector<ValueId> own;
    for (const models::ParameterGroup& group : pack_.groups) {
      const Value& parameters = graph_.value(group.own_parameters);
      const Use copies = b.exact(b.fresh(parameters.name + suffix(), parameters.shape, storage_));
      own.push_back(copies.value);
      b.emit_node(ir::Op::cast, {{group.own_parameters, {}}}, {copies});
    }
    if (vectors_ != ir::kNoValue) {
      for (size_t i = 0; i < pack_.groups.size(); ++i) spread_vectors(b, i);
      b.emit_node(ir::Op::all_reduce, {{vectors_, {}}}, {{vectors_, {}}}, {{"ranks", pack_.sharing_ranks}});
    }
    const auto gathered = [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
      return models::Moved{
          own_rows_of(graph_, stretch, own[static_cast<size_t>(&group - pack_.groups.data())]),
          copies_of(group, stretch)};
    };
    for (ir::Region& region :
         regions_of_stretches(pack_, "gather", ir::Op::all_gather, "optimizations.precision", gathered))
      function.regions.push_back(std::move(region));
  }

  // Of all rows of a stretch.
  ValueId copies_of(const models::ParameterGroup& group, const models::Stretch& stretch) {
    if (stretch.member != ir::kNoValue) return working_copy(stretch.member);
    auto [found, is_new] = stretch_copies_.try_emplace(stretch.parameters);
    if (is_new) found->second = whole_rows_of(graph_, pack_, group, stretch, working_pack_);
    return found->second;
  }

  // A group's rows of the vectors: those that this rank has, and zeros.
  void spread_vectors(ops::RegionBuilder& b, size_t number) {
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

  std::string suffix() const { return fmt::format(".{}", to_string(storage_)); }

  ir::Graph& graph_;
  const models::Pack& pack_;
  ir::DType storage_;
  ValueId working_pack_ = ir::kNoValue;
  std::vector<ValueId> group_copies_;   // the working pack by groups
  ValueId vectors_ = ir::kNoValue;      // [rows, row]: copies of divided vectors, by groups
  std::vector<int64_t> first_vectors_;  // of each group, its first row there
  std::map<ValueId, ValueId> copies_;
  std::map<ValueId, ValueId> stretch_copies_;  // of stretches without a member, by Stretch::parameters
  std::map<Use, Use> casts_;
};

// Parameters whose gradients are wider than those that matmuls write.
std::vector<std::string> with_wide_gradients(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (value.trains() && graph.value(models::gradient_of(graph, value)).dtype == ir::DType::f32)
      names.push_back(value.name);
  }
  return names;
}

}  // namespace

void precision(ir::Graph& graph, const models::Pack& pack, const Precision& precision, Log& log) {
  if (precision.activations == ir::DType::f32) return;
  Lowering lowering(graph, pack, precision.activations);
  lowering.run();
  const std::string type(to_string(precision.activations));
  log.push_back(
      {"precision", fmt::format("activations and matmuls in {}, {}", type,
                                lowering.has_working_copies() ? type + " working copies of f32 parameters"
                                                              : "which parameters are stored in too")});
  const std::vector<std::string> wide = with_wide_gradients(graph);
  if (std::ranges::all_of(pack.groups, [&](const models::ParameterGroup& group) {
        return graph.value(group.own_gradients).dtype == ir::DType::f32;
      }))
    return;
  log.push_back({"precision", fmt::format("gradients in {} where one matmul writes them, in f32 those of {}",
                                          type, fmt::join(wide, ", "))});
}

}  // namespace hydrac::passes
