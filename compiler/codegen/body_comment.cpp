// The comment above a kernel.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/body_names.h"

namespace hydrac::codegen {

using ir::Expr;
using ir::ExprOp;
using ir::Store;
using ir::StoreKind;

std::string BodyNames::comment() const {
  std::string text;
  if (const auto formula = node_.attributes.find("formula"); formula != node_.attributes.end())
    text = std::get<std::string>(formula->second) + "\n";
  std::vector<std::string> spaces;
  for (const Loop* loop : loops()) {
    const std::string symbols = symbols_of(body_.space_shape(loop->space));
    if (std::ranges::find(spaces, symbols) == spaces.end()) spaces.push_back(symbols);
  }
  if (body_.row_variables > 0) {
    text +=
        fmt::format("Rows {}{}; {}.", symbols_of(body_.row_shape()),
                    spaces.empty() ? "" : fmt::format(", columns {}", fmt::join(spaces, " and ")), traffic());
  } else {
    text += "Scalars.";
  }
  return text;
}

std::vector<std::string> BodyNames::sharing() const {
  std::vector<std::string> lines;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    for (size_t i = 0; i < body_.operands.size(); ++i) {
      const bool is_pair =
          body_.operands[o].output >= 0 && body_.operands[i].output < 0 && body_.operands[i].input >= 0;
      if (!is_pair || !is_used(static_cast<int>(o)) || !is_used(static_cast<int>(i)) ||
          is_matmul(static_cast<int>(i)))
        continue;
      if (storage_of(graph_, use_of(static_cast<int>(o)).value) ==
          storage_of(graph_, use_of(static_cast<int>(i)).value))
        lines.push_back(fmt::format("{} may lie where {} lies.", operand_names_[o], operand_names_[i]));
    }
  }
  return lines;
}

// How many of the largest tensors are read and written.
std::string BodyNames::traffic() const {
  int64_t most = 0;
  const ir::Operand* largest = nullptr;
  std::set<int> reads, writes;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const int operand = static_cast<int>(o);
    if (is_loaded(operand) && !is_matmul(operand)) reads.insert(operand);
  }
  for (const Store& store : body_.stores) {
    writes.insert(store.operand);
    if (store.kind == StoreKind::add_column_sum) reads.insert(store.operand);
  }
  const auto only_gathers = [&](int operand) {
    return std::ranges::all_of(body_.exprs, [&](const Expr& e) {
      return e.op != ExprOp::load || e.operand != operand ||
             std::ranges::any_of(e.index, [](const auto& dim) { return dim.gather >= 0; });
    });
  };
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const int operand = static_cast<int>(o);
    if ((!reads.contains(operand) && !writes.contains(operand)) ||
        (only_gathers(operand) && !writes.contains(operand)))
      continue;
    const int64_t size = element_count(body_.operands[o].shape);
    if (size <= most) continue;
    most = size;
    largest = &body_.operands[o];
  }
  if (!largest) return "scalars only";
  const auto count = [&](const std::set<int>& operands) {
    return std::ranges::count_if(operands,
                                 [&](int o) { return element_count(body_.operands[o].shape) == most; });
  };
  return fmt::format("reads {} and writes {} of {}", count(reads), count(writes), symbols_of(largest->shape));
}

}  // namespace hydrac::codegen
