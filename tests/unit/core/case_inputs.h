// Inputs of an op's case, and the parts of the table of cases.
#pragma once
#include <utility>
#include <vector>

#include "functions/function.h"
#include "op_cases.h"

namespace hydrac::test {

using ops::RegionBuilder;
using Uses = std::vector<ir::Use>;
using Kind = CaseInput::Kind;

inline CaseInput x(std::vector<int64_t> sizes, Kind kind = Kind::differentiated) {
  CaseInput input{{}, kind, ir::DType::f32, {}};
  for (int64_t size : sizes) input.shape.push_back({size, ""});
  return input;
}
inline CaseInput parameter(std::vector<int64_t> sizes) {
  return x(std::move(sizes), Kind::parameter);
}
inline CaseInput absent() {
  return x({}, Kind::absent);
}
inline CaseInput given(std::vector<int64_t> sizes, std::vector<double> values,
                       ir::DType dtype = ir::DType::f32) {
  CaseInput input = x(std::move(sizes), Kind::constant);
  input.values = std::move(values);
  input.dtype = dtype;
  return input;
}
inline CaseInput ids(std::vector<int64_t> sizes, std::vector<double> values) {
  return given(std::move(sizes), std::move(values), ir::DType::i32);
}
inline CaseInput word(double value) {
  return given({}, {value}, ir::DType::u32);
}

// x^2 sin(x) + tanh(x) of one parameter, times y of two.
functions::Function own_function(int parameters);

void add_attention_cases(std::vector<OpCase>& cases);
void add_expert_cases(std::vector<OpCase>& cases);
void add_loss_cases(std::vector<OpCase>& cases);
void add_routing_cases(std::vector<OpCase>& cases);

}  // namespace hydrac::test
