// Numbers for the tokens' places among others (mixture of depths), and for their experts: what kernels read
// of them are indices.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hydrac::test {

// Values of a mixture of experts: ranks are a permutation, the first k experts are the chosen ones, and rows
// are in the order of the choices. No value for anything else.
inline std::optional<std::vector<double>> expert_values(const ir::Value& value) {
  const bool ranks = value.name.starts_with("expert_ranks"), rows = value.name.starts_with("expert_rows"),
             experts = value.name == "router.experts" || value.name.starts_with("chosen_experts");
  if (!ranks && !rows && !experts) return std::nullopt;
  const int64_t columns = value.shape.back().size;
  std::vector<double> numbers;
  for (int64_t i = 0; i < element_count(value.shape); ++i)
    numbers.push_back(static_cast<double>(rows ? i : ranks ? columns - 1 - i % columns : i % columns));
  return numbers;
}

// Of i32 [B,T] or [B,K] that no input gives: ranks are a permutation, the first K tokens of a sequence are
// the chosen ones. No value for anything else.
inline std::optional<std::vector<double>> routing_values(const ir::Graph& graph, const ir::Value& value) {
  if (const auto numbers = expert_values(value)) return numbers;
  if (value.dtype != ir::DType::i32 || value.shape.size() != 2 || value.role == ir::Role::input ||
      value.role == ir::Role::constant)
    return std::nullopt;
  const int64_t columns = value.shape[1].size;
  int64_t chosen = columns;  // generation has room for all
  for (const ir::Value& other : graph.values)
    if (other.name.starts_with("chosen_tokens")) chosen = std::min(chosen, other.shape[1].size);
  const bool ranks = value.name.starts_with("ranks"), tokens = value.name.starts_with("chosen_tokens");
  std::vector<double> numbers;
  for (int64_t i = 0; i < element_count(value.shape); ++i) {
    const int64_t column = i % columns;
    const int64_t number = ranks ? columns - 1 - column : tokens || column < chosen ? column : -1;
    numbers.push_back(static_cast<double>(number));
  }
  return numbers;
}

}  // namespace hydrac::test
