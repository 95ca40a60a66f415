#include "op_cases.h"

#include "case_inputs.h"
#include "functions/expressions.h"

namespace hydrac::test {

namespace {

void add_norms(std::vector<OpCase>& cases) {
  for (const auto& [label, sizes] :
       {std::pair{"Row", std::vector<int64_t>{1, 7}}, std::pair{"Tokens", std::vector<int64_t>{2, 3, 5}},
        std::pair{"Heads", std::vector<int64_t>{2, 3, 2, 4}},
        std::pair{"OneColumn", std::vector<int64_t>{3, 1}}}) {
    const int64_t c = sizes.back();
    cases.push_back(
        {std::string("layernormBias") + label,
         {x(sizes), parameter({c}), parameter({c})},
         [](RegionBuilder& b, const Uses& in) { ops::layernorm(b, in[0], in[1], in[2], 1e-2, "y"); }});
    cases.push_back(
        {std::string("layernormNoBias") + label,
         {x(sizes), parameter({c}), absent()},
         [](RegionBuilder& b, const Uses& in) { ops::layernorm(b, in[0], in[1], in[2], 1e-5, "y"); }});
    cases.push_back(
        {std::string("layernormOffset") + label,
         {x(sizes), parameter({c}), parameter({c})},
         [](RegionBuilder& b, const Uses& in) { ops::layernorm(b, in[0], in[1], in[2], 1e-5, "y", 1); }});
    cases.push_back({std::string("rmsnorm") + label,
                     {x(sizes), parameter({c})},
                     [](RegionBuilder& b, const Uses& in) { ops::rmsnorm(b, in[0], in[1], 1e-5, "y"); }});
    cases.push_back({std::string("rmsnormOffset") + label,
                     {x(sizes), parameter({c})},
                     [](RegionBuilder& b, const Uses& in) { ops::rmsnorm(b, in[0], in[1], 1e-5, "y", 1); }});
  }
  const CaseInput mean = given({2, 3}, {0.5, -1, 2, 0, 1.5, -0.25}),
                  rstd = given({2, 3}, {1, 0.5, 3, 2, 0.1, 7}), weight = given({2}, {3, -0.5}),
                  bias = given({2}, {1, 10});
  const auto again = [](ir::Op op) {
    return [op](RegionBuilder& b, const Uses& in) { b.emit(op, in, "y", b.shape(in[0])); };
  };
  cases.push_back({"layernorm_againBias",
                   {x({2, 3, 2}), weight, bias, mean, rstd},
                   again(ir::Op::layernorm_again),
                   false});
  cases.push_back({"layernorm_againNoBias",
                   {x({2, 3, 2}), weight, absent(), mean, rstd},
                   again(ir::Op::layernorm_again),
                   false});
  cases.push_back({"layernorm_againOffset",
                   {x({2, 3, 2}), weight, bias, mean, rstd},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::layernorm_again, in, "y", b.shape(in[0]), {{"offset", 1.0}});
                   },
                   false});
  cases.push_back({"rmsnorm_again", {x({2, 3, 2}), weight, rstd}, again(ir::Op::rmsnorm_again), false});
  cases.push_back({"rmsnorm_againOffset",
                   {x({2, 3, 2}), weight, rstd},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::rmsnorm_again, in, "y", b.shape(in[0]), {{"offset", 1.0}});
                   },
                   false});
}

void add_pointwise(std::vector<OpCase>& cases) {
  for (const char* kind : {"gelu", "gelu_tanh", "silu", "relu2"}) {
    cases.push_back({std::string("activation_") + kind,
                     {x({2, 3, 17})},
                     [kind](RegionBuilder& b, const Uses& in) { ops::activation(b, kind, in[0], "y"); }});
  }
  for (const char* kind : {"swiglu", "geglu", "geglu_tanh"}) {
    cases.push_back({std::string("gated_") + kind, {x({2, 3, 14})}, [kind](RegionBuilder& b, const Uses& in) {
                       ops::gated(b, kind, in[0], "y");
                     }});
  }
  cases.push_back({"activation_function", {x({2, 3, 17})}, [](RegionBuilder& b, const Uses& in) {
                     ops::activation(b, own_function(1), in[0], "y");
                   }});
  cases.push_back({"gated_function", {x({2, 3, 14})}, [](RegionBuilder& b, const Uses& in) {
                     ops::gated(b, own_function(2), in[0], "y");
                   }});
  cases.push_back({"add", {x({3, 5}), x({3, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::add(b, in[0], in[1], "y");
                   }});
  cases.push_back(
      {"addToItself", {x({3, 5})}, [](RegionBuilder& b, const Uses& in) { ops::add(b, in[0], in[0], "y"); }});
  cases.push_back({"cast",
                   {given({2, 2}, {1, -2, 0.5, 3})},
                   [](RegionBuilder& b, const Uses& in) { b.emit(ir::Op::cast, in, "y", b.shape(in[0])); },
                   false});
  for (const bool in_halves : {false, true}) {
    cases.push_back({in_halves ? "quantizeInHalves" : "quantize",
                     {x({2, 3, 6}), given({}, {2.5})},
                     [in_halves](RegionBuilder& b, const Uses& in) {
                       const ir::Use y = b.fresh("y", b.shape(in[0])),
                                     largest = b.fresh("largest", {}, ir::DType::f32, ir::Role::state);
                       b.emit_node(ir::Op::quantize, in, {y, largest}, {{"in_halves", in_halves}});
                     },
                     false});
  }
  cases.push_back({"largest",
                   {x({4, 5})},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit_node(ir::Op::largest, in,
                                 {b.fresh("largest", {}, ir::DType::f32, ir::Role::state)});
                   },
                   false});
  cases.push_back({"scaled",
                   {x({2, 3, 5}), given({}, {0.5})},
                   [](RegionBuilder& b, const Uses& in) { b.emit(ir::Op::scaled, in, "y", b.shape(in[0])); },
                   false});
  cases.push_back({"transpose",
                   {x({2, 3, 5})},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::transpose, in, "y", {{5, ""}, {6, ""}});
                   },
                   false});
  cases.push_back({"bias_add",
                   {x({2, 3, 5}), given({5}, {1, 2, 3, 4, 5})},
                   [](RegionBuilder& b, const Uses& in) { ops::bias_add(b, in[0], in[1], "y"); }});
  cases.push_back(
      {"scale", {x({2, 3, 5})}, [](RegionBuilder& b, const Uses& in) { ops::scale(b, in[0], 7.5, "y"); }});
  cases.push_back({"scale_rows",
                   {x({2, 3, 5}), given({2, 3}, {1, 0, 1, 0.5, 1, 0})},
                   [](RegionBuilder& b, const Uses& in) { ops::scale_rows(b, in[0], in[1], "y"); }});
  for (double p : {0.1, 0.5, 0.9}) {
    cases.push_back({"dropout" + std::to_string(static_cast<int>(p * 10)),
                     {x({3, 5, 7}), word(3), word(4000000000.0)},
                     [p](RegionBuilder& b, const Uses& in) {
                       ops::dropout(b, in[0], p, {in[1], in[2]}, 2, "y");
                     }});
  }
}

void add_tables(std::vector<OpCase>& cases) {
  cases.push_back({"embedding",
                   {ids({2, 3}, {4, 0, 4, 1, 0, 4}), parameter({5, 3})},
                   [](RegionBuilder& b, const Uses& in) { ops::embedding(b, in[0], in[1], "y"); }});
  cases.push_back({"position_embedding",
                   {x({3, 4, 5}), parameter({4, 5})},
                   [](RegionBuilder& b, const Uses& in) { ops::position_embedding(b, in[0], in[1], "y"); }});
  cases.push_back({"position_embeddingLongTable",
                   {x({1, 4, 5}), parameter({6, 5})},
                   [](RegionBuilder& b, const Uses& in) { ops::position_embedding(b, in[0], in[1], "y"); }});
  cases.push_back(
      {"position_embeddingOfDocuments",
       {x({2, 4, 5}), parameter({6, 5}), ids({2, 4}, {0, 1, 2, 0, 0, 0, 1, 3})},
       [](RegionBuilder& b, const Uses& in) { ops::position_embedding(b, in[0], in[1], "y", in[2]); }});
  cases.push_back({"select_token",
                   {x({1, 4, 5}), ids({}, {2})},
                   [](RegionBuilder& b, const Uses& in) { ops::select_token(b, in[0], in[1], "y"); },
                   false});
  cases.push_back({"select_tokenOfEachSequence",
                   {x({3, 4, 5}), ids({3}, {2, 0, 3})},
                   [](RegionBuilder& b, const Uses& in) { ops::select_token(b, in[0], in[1], "y"); },
                   false});
  cases.push_back({"linearBias",
                   {x({2, 3, 5}), parameter({4, 5}), parameter({4})},
                   [](RegionBuilder& b, const Uses& in) { ops::linear(b, in[0], in[1], in[2], "y"); }});
  cases.push_back({"linearOfAComputedWeight",
                   {x({2, 3, 5}), x({4, 5}), absent()},
                   [](RegionBuilder& b, const Uses& in) { ops::linear(b, in[0], in[1], in[2], "y"); }});
  cases.push_back({"linearNoBias",
                   {x({1, 1, 5}), parameter({1, 5}), absent()},
                   [](RegionBuilder& b, const Uses& in) { ops::linear(b, in[0], in[1], in[2], "y"); }});
}

// Bytes, each value several times.
CaseInput codes(std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  std::vector<double> bytes;
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<double>(i * 37 % 256));
  return given(std::move(sizes), std::move(bytes), ir::DType::u8);
}

void add_adapters(std::vector<OpCase>& cases) {
  const auto emit_adapters = [](std::vector<ir::RowRange> targets) {
    return [targets = std::move(targets)](RegionBuilder& b, const Uses& in) {
      const int64_t columns = static_cast<int64_t>(targets.size()) * b.shape(in[0])[1].size;
      ops::adapter_matrix(b, in[0], targets, {columns, ""}, 1.5, "y");
    };
  };
  cases.push_back({"adapter_matrix", {parameter({6, 2})}, emit_adapters({{0, 6}})});
  cases.push_back({"adapter_matrixOfThree", {parameter({7, 3})}, emit_adapters({{0, 3}, {3, 2}, {5, 2}})});
  cases.push_back({"adapter_matrixOfTheOuterTwo", {parameter({7, 2})}, emit_adapters({{0, 3}, {5, 2}})});
  cases.push_back({"adapter_matrixOfTheMiddleOne", {parameter({7, 1})}, emit_adapters({{3, 2}})});
  // Two parts whose groups of 256 blocks begin anew: of 300 and 20 blocks.
  cases.push_back({"dequantize_nf4OfTwoParts",
                   {codes({16, 640}), codes({16, 20}), x({3, 2})},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::dequantize_nf4, in, "y", {{16, ""}, {1280, ""}},
                            {{"rows_0", int64_t{15}}, {"rows_1", int64_t{1}}});
                   },
                   false});
  cases.push_back({"dequantize_nf4",
                   {codes({3, 64}), codes({3, 2}), x({1, 2})},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::dequantize_nf4, in, "y", {{3, ""}, {128, ""}}, {{"rows_0", int64_t{3}}});
                   },
                   false});
}

}  // namespace

functions::Function own_function(int parameters) {
  using functions::Op;
  functions::Expressions e(functions::Number::f32);
  const int at = e.argument(0);
  int value = e.apply(Op::add, e.apply(Op::mul, e.power(at, 2), e.apply(Op::sin, at)), e.apply(Op::tanh, at));
  if (parameters == 2) value = e.apply(Op::mul, value, e.argument(1));
  std::vector<std::string> names = {"x", "y"};
  names.resize(static_cast<size_t>(parameters));
  return e.take(value, "own", names);
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    add_norms(all);
    add_pointwise(all);
    add_tables(all);
    add_adapters(all);
    add_attention_cases(all);
    add_loss_cases(all);
    add_routing_cases(all);
    add_expert_cases(all);
    return all;
  }();
  return cases;
}

}  // namespace hydrac::test
