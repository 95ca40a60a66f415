#include "passes/fp8_scales.h"

#include <fmt/format.h>

#include "ir/body_builder.h"

namespace hydrac::passes {

using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;
using ir::Value;
using ir::ValueId;

namespace {

constexpr int64_t kHistory = 16;       // steps whose largest values a scale is made of
constexpr int64_t kInverseStride = 4;  // floats: matmuls want a scale's address to be a multiple of 16 bytes
constexpr double kLargestScale = 0x1p100;

double largest_of(DType dtype) {
  return dtype == DType::f8e4m3 ? 448 : 57344;
}

}  // namespace

Scale ScalePack::add(const std::string& tensor, int slots) {
  if (rows_ == 0) {
    largest_ = pack("largest", Role::state);
    scale_ = pack("scale", Role::state);
    spaced_ = pack("inverses", Role::state);
    graph_.value(spaced_).shape.push_back({kInverseStride, ""});
    inverse_ = pack("inverse", Role::state);
    graph_.value(inverse_).view = ir::View{spaced_, 0, 0, {kInverseStride}};
  }
  const Scale scale{view(largest_, tensor, slots, 1), view(scale_, tensor, slots, 1),
                    view(spaced_, tensor, slots, kInverseStride)};
  rows_ += slots;
  for (const ValueId id : {largest_, scale_, inverse_, spaced_}) graph_.value(id).shape[0].size = rows_;
  return scale;
}

void ScalePack::from_history(ops::RegionBuilder& b, Use step, int64_t ranks) {
  if (rows_ == 0) return;
  if (history_ == ir::kNoValue) {
    history_ = pack("history", Role::optimizer_state);
    graph_.value(history_).shape = {{rows_, ""}, {kHistory, ""}};
  }
  const Use history{history_, {}}, largest{largest_, {}};
  const bool notes = step.value != ir::kNoValue;
  if (notes && ranks > 1)
    b.emit_node(ir::Op::all_reduce, {largest}, {largest}, {{"ranks", ranks}, {"largest", true}});
  Node node{.inputs = {history}, .outputs = {{scale_, {}}, {inverse_, {}}}};
  if (notes) {
    node.inputs.insert(node.inputs.end(), {largest, step});
    node.outputs.insert(node.outputs.end(), {history, largest});
  }
  ir::BodyBuilder k(graph_, node, {{rows_, ""}});
  k.columns({{kHistory, ""}});
  Term noted = k.full(0);
  if (notes) {
    const Term turn = k.named("turn", k.scalar(2) % k.constant(kHistory, ExprType::i32, "kHistory"));
    const Term now = k.per_row(1);
    noted = select(k.position(k.column(0)) == convert(turn, ExprType::i64),
                   select(is_finite(now), now, k.constant(0)), noted);
    k.store(2, k.named("noted", noted));
  }
  store_scale(k, k.named("most", k.maximum(noted)));
  if (notes) k.store_row(3, k.constant(0));
  b.emit_body(
      node, notes ? "next_scales" : "scales", k.take(),
      notes ? "scale = what keeps the largest value of 16 steps within 8 bits; the step's own joins them"
            : "scale = what keeps the largest value of 16 steps within 8 bits");
}

void ScalePack::from_largest(ops::RegionBuilder& b) {
  if (rows_ == 0) return;
  const Use largest{largest_, {}};
  const Node node{.inputs = {largest}, .outputs = {{scale_, {}}, {inverse_, {}}, largest}};
  ir::BodyBuilder k(graph_, node, {{rows_, ""}});
  store_scale(k, k.per_row(0));
  k.store_row(2, k.constant(0));
  b.emit_body(node, "weight_scales", k.take(), "scale = what keeps the largest value within 8 bits");
}

ValueId ScalePack::pack(const std::string& what, Role role) {
  Value value;
  value.name = fmt::format("fp8.{}.{}", name_, what);
  value.role = role;
  value.shape = {{0, ""}};
  return graph_.add(std::move(value));
}

ValueId ScalePack::view(ValueId pack, const std::string& tensor, int slots, int64_t stride) {
  Value value;
  value.name = graph_.value(pack).name + "." + tensor;
  value.role = graph_.value(pack).role;
  value.slots = slots;
  value.view = ir::View{pack, rows_ * stride, stride, {}};
  return graph_.add(std::move(value));
}

void ScalePack::store_scale(ir::BodyBuilder& k, Term most) const {
  const Term bounded = min(largest_of(dtype_) / most, k.constant(kLargestScale));
  const Term scale = k.named("scale", select(k.constant(0) < most, bounded, k.constant(start_)));
  k.store_row(0, scale);
  k.store_row(1, 1 / scale);
}

}  // namespace hydrac::passes
