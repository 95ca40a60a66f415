#include "passes/vector_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ir/body_builder.h"

namespace hydrac::passes {

using ir::Node;
using ir::Role;
using ir::Term;
using ir::Value;
using ir::ValueId;

// Vectors lie behind one another at a group's end, and their copies likewise.
ValueId VectorCopies::copy_of(ValueId parameter) {
  if (auto found = copies_.find(parameter); found != copies_.end()) return found->second;
  if (vectors_ == ir::kNoValue) declare();
  const auto group = std::ranges::find_if(pack_.groups, [&](const models::ParameterGroup& g) {
    return std::ranges::count(g.members, parameter) > 0;
  });
  Value copy = graph_.value(parameter);
  if (copy.parameter->decay)
    throw std::logic_error(fmt::format("{} is divided and read in {}", copy.name, to_string(copy.dtype)));
  const int64_t before =
      group->first_row + group->stretches.back().first_row - first_rows_[group - pack_.groups.begin()];
  copy.name += ".whole";
  copy.role = Role::master;
  copy.parameter.reset();
  copy.view->base = vectors_;
  copy.view->offset -= before * pack_.row;
  return copies_[parameter] = graph_.add(std::move(copy));
}

void VectorCopies::declare() {
  Value vectors = graph_.value(pack_.parameters);
  vectors.name = "vectors";
  vectors.role = Role::master;
  int64_t rows = 0;
  for (const models::ParameterGroup& group : pack_.groups) {
    first_rows_.push_back(rows);
    rows += group.used_rows - group.decayed_rows;
  }
  vectors.shape[0] = {rows, "Vectors"};
  vectors_ = graph_.add(std::move(vectors));
}

void VectorCopies::make(ops::RegionBuilder& b) {
  if (vectors_ == ir::kNoValue) return;
  for (size_t i = 0; i < pack_.groups.size(); ++i) spread(b, i);
  b.emit_node(ir::Op::all_reduce, {{vectors_, {}}}, {{vectors_, {}}}, {{"ranks", pack_.sharing_ranks}});
}

// A group's rows of the vectors: those that this rank has, and zeros.
void VectorCopies::spread(ops::RegionBuilder& b, size_t number) {
  // Vectors are a group's last stretch.
  const models::ParameterGroup& group = pack_.groups[number];
  const ir::Dim rows{group.used_rows - group.decayed_rows, ""};
  if (rows.size == 0) return;
  Value part = graph_.value(vectors_);
  part.name += group.name.empty() ? "" : "." + group.name;
  part.shape[0] = rows;
  part.view = ir::View{vectors_, first_rows_[number] * pack_.row, 0, contiguous_strides(part.shape)};
  const models::Stretch& stretch = group.stretches.back();
  const ir::Dim width = part.shape[1];
  const Node node{.inputs = {{group.own_parameters, {}}, {graph_.state.rank, {}}},
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

}  // namespace hydrac::passes
