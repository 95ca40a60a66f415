#include "op_cases.h"

#include <cmath>
#include <limits>

#include "functions/expressions.h"

namespace hydrac::test {

namespace {

using ops::RegionBuilder;
using Uses = std::vector<ir::Use>;
using Kind = CaseInput::Kind;

CaseInput x(std::vector<int64_t> sizes, Kind kind = Kind::differentiated) {
  CaseInput input{{}, kind, ir::DType::f32, {}};
  for (int64_t size : sizes) input.shape.push_back({size, ""});
  return input;
}
CaseInput parameter(std::vector<int64_t> sizes) {
  return x(std::move(sizes), Kind::parameter);
}
CaseInput absent() {
  return x({}, Kind::absent);
}
CaseInput given(std::vector<int64_t> sizes, std::vector<double> values, ir::DType dtype = ir::DType::f32) {
  CaseInput input = x(std::move(sizes), Kind::constant);
  input.values = std::move(values);
  input.dtype = dtype;
  return input;
}
CaseInput ids(std::vector<int64_t> sizes, std::vector<double> values) {
  return given(std::move(sizes), std::move(values), ir::DType::i32);
}
// Bytes, each value several times.
CaseInput codes(std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  std::vector<double> bytes;
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<double>(i * 37 % 256));
  return given(std::move(sizes), std::move(bytes), ir::DType::u8);
}
CaseInput word(double value) {
  return given({}, {value}, ir::DType::u32);
}

// x^2 sin(x) + tanh(x), times y where there is one.
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
    cases.push_back({std::string("rmsnorm") + label,
                     {x(sizes), parameter({c})},
                     [](RegionBuilder& b, const Uses& in) { ops::rmsnorm(b, in[0], in[1], 1e-5, "y"); }});
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
  cases.push_back({"rmsnorm_again", {x({2, 3, 2}), weight, rstd}, again(ir::Op::rmsnorm_again), false});
}

// Logits whose depths are all that there are, and none of which is on the edge of two.
void add_recursion(std::vector<OpCase>& cases) {
  for (const int64_t recursions : {2, 3, 4}) {
    CaseInput logit = x({2, 3});
    logit.values = {-3, -0.8, -0.1, 0.2, 0.9, 2.5};
    cases.push_back(
        {"recursion_depthOf" + std::to_string(recursions),
         {logit},
         [recursions](RegionBuilder& b, const Uses& in) { ops::recursion_depth(b, in[0], recursions, "y"); },
         true,
         {1}});
  }
  for (const double spread : {0.5, 1.5}) {  // var(logit) below 0.5, and above
    CaseInput logit = x({2, 3});
    for (const double number : {-1.0, 0.1, 0.4, 0.9, -0.3, 1.2}) logit.values.push_back(spread * number);
    cases.push_back({spread < 1 ? "recursion_loss" : "recursion_lossOfSpreadLogits",
                     {logit},
                     [](RegionBuilder& b, const Uses& in) {
                       ops::recursion_loss(b, in[0], {.depth = 0.3, .variance = 0.7, .logit = 0.2}, "y");
                     }});
  }
  cases.push_back(
      {"masked_add",
       {x({2, 3, 5}), x({2, 3, 5}), given({2, 3}, {0, 1, 2, 3, 1, 2})},
       [](RegionBuilder& b, const Uses& in) { ops::masked_add(b, in[0], in[1], in[2], 2, "y"); }});
  // The weight's gradient is that of no finite difference: StraightThroughGivesTheWeightAGradient.
  cases.push_back({"straight_through",
                   {x({2, 3, 5}), given({2, 3}, {0, 1, 2, 3, 1, 2})},
                   [](RegionBuilder& b, const Uses& in) { ops::straight_through(b, in[0], in[1], "y"); }});
  cases.push_back({"statistic",
                   {x({2, 3})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::statistic(b, in[0], 0.25, b.fresh("statistic", {}), false);
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

void add_attention(std::vector<OpCase>& cases) {
  const CaseInput cos = given({3, 2}, {0.1, 0.2, 0.3, -0.4, 0.5, 0.6}),
                  sin = given({3, 2}, {0.9, -0.8, 0.7, 0.6, -0.5, 0.4});
  const auto emit_rope = [](RegionBuilder& b, const Uses& in) {
    ops::rope(b, in[0], in[1], in[2], 10000, std::nullopt, ops::RopePairs::halves, "y");
  };
  cases.push_back({"rope", {x({2, 3, 2, 4}), cos, sin}, emit_rope});
  cases.push_back({"ropeOneHead", {x({2, 3, 1, 4}), cos, sin}, emit_rope});
  cases.push_back({"ropePositions",
                   {x({2, 3, 2, 4}), cos, sin, ids({2, 3}, {0, 1, 0, 0, 0, 2})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::rope(b, in[0], in[1], in[2], 10000, std::nullopt, ops::RopePairs::halves, "y",
                               in[3]);
                   }});
  cases.push_back({"ropeInverse",
                   {x({2, 3, 2, 4}), cos, sin},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::rope, in, "y", b.shape(in[0]), {{"inverse", true}, {"theta", 10000.0}});
                   },
                   false});
  cases.push_back({"ropeInterleaved", {x({2, 3, 2, 4}), cos, sin}, [](RegionBuilder& b, const Uses& in) {
                     ops::rope(b, in[0], in[1], in[2], 10000, std::nullopt, ops::RopePairs::neighbours, "y");
                   }});
  cases.push_back({"split_qkv",
                   {x({2, 3, 24})},
                   [](RegionBuilder& b, const Uses& in) { ops::split_qkv(b, in[0], 2, 2, 4, "attn"); },
                   true,
                   {0, 1, 2}});
  cases.push_back({"split_qkvGrouped",
                   {x({2, 3, 32})},
                   [](RegionBuilder& b, const Uses& in) { ops::split_qkv(b, in[0], 4, 2, 4, "attn"); },
                   true,
                   {0, 1, 2}});
  for (int64_t kv_heads : {1, 2, 4}) {
    for (double dropout : {0.0, 0.3}) {
      cases.push_back({"attention" + std::to_string(kv_heads) + "KvHeads" + (dropout > 0 ? "Dropout" : ""),
                       {x({2, 5, 4, 3}), x({2, 5, kv_heads, 3}), x({2, 5, kv_heads, 3}), word(9), word(1234)},
                       [dropout](RegionBuilder& b, const Uses& in) {
                         ops::attention(b, in[0], in[1], in[2], 0.7, {}, dropout, {in[3], in[4]}, 1, "y");
                       }});
    }
  }
}

// Two rows of 5 tokens: documents of 2, 3 and 1, 3, 1 tokens.
CaseInput two_rows_of_documents() {
  return ids({2, 5, 2}, {0, 2, 0, 2, 2, 5, 2, 5, 2, 5, 0, 1, 1, 4, 1, 4, 1, 4, 4, 5});
}

void add_compressed_attention(std::vector<OpCase>& cases) {
  // The second input, where there is one: documents.
  const auto emit_sums = [](int64_t taps, const std::vector<std::vector<int64_t>>& parts,
                            int64_t before = 0) {
    return [taps, parts, before](RegionBuilder& b, const Uses& in) {
      std::vector<ops::TapSums> sums;
      for (const std::vector<int64_t>& sizes : parts) {
        sums.push_back({"y" + std::to_string(sums.size()), {}});
        for (const int64_t size : sizes) sums.back().shape.push_back({size, ""});
      }
      ops::sum_taps(b, in[0], taps, sums, before, in.size() > 1 ? in[1] : ir::Use{});
    };
  };
  cases.push_back({"sum_taps", {x({2, 5, 12})}, emit_sums(3, {{4}})});
  cases.push_back({"sum_tapsOfHeads", {x({2, 5, 12})}, emit_sums(2, {{3, 2}})});
  cases.push_back({"sum_tapsParts", {x({2, 4, 15})}, emit_sums(3, {{2}, {3}}), true, {0, 1}});
  cases.push_back({"sum_tapsPartsOfHeads", {x({2, 4, 20})}, emit_sums(2, {{3, 2}, {2, 2}}), true, {0, 1}});
  cases.push_back({"sum_tapsOneTap", {x({2, 3, 4})}, emit_sums(1, {{4}})});
  cases.push_back({"sum_tapsShortSequence", {x({2, 2, 8})}, emit_sums(4, {{2}})});
  cases.push_back({"sum_tapsOfTheLastToken", {x({3, 3, 15})}, emit_sums(3, {{2}, {3}}, 2), false});
  cases.push_back({"sum_tapsBehindOneToken", {x({2, 4, 12})}, emit_sums(3, {{2, 2}}, 1), false});
  const CaseInput documents = two_rows_of_documents();
  cases.push_back({"sum_tapsDocuments", {x({2, 5, 12}), documents}, emit_sums(3, {{4}})});
  cases.push_back({"sum_tapsDocumentsOfHeads", {x({2, 5, 24}), documents}, emit_sums(4, {{3, 2}})});
  cases.push_back(
      {"sum_tapsDocumentsParts", {x({2, 5, 15}), documents}, emit_sums(3, {{2}, {3}}), true, {0, 1}});
  cases.push_back({"value_shiftDocuments",
                   {x({2, 5, 3, 4}), documents},
                   [](RegionBuilder& b, const Uses& in) { ops::value_shift(b, in[0], "y", 0, in[1]); }});
  for (const int64_t before : {1, 2}) {
    cases.push_back({"value_shiftBehind" + std::to_string(before) + "Tokens",
                     {x({2, before + 1, 3, 4})},
                     [before](RegionBuilder& b, const Uses& in) { ops::value_shift(b, in[0], "y", before); },
                     false});
  }
  for (const int64_t heads : {1, 2, 3}) {
    cases.push_back({"value_shift" + std::to_string(heads) + "Heads",
                     {x({2, 3, heads, 4})},
                     [](RegionBuilder& b, const Uses& in) { ops::value_shift(b, in[0], "y"); }});
  }
  cases.push_back({"value_shiftOneToken", {x({2, 1, 2, 4})}, [](RegionBuilder& b, const Uses& in) {
                     ops::value_shift(b, in[0], "y");
                   }});
  const auto emit_blocks = [](int64_t groups, int64_t columns, int64_t first) {
    return [groups, columns, first](RegionBuilder& b, const Uses& in) {
      ops::block_diagonal(b, in[0], groups, {columns, ""}, first, "y");
    };
  };
  cases.push_back({"block_diagonal", {parameter({12, 2})}, emit_blocks(3, 6, 0)});
  cases.push_back({"block_diagonalAmongOthers", {parameter({12, 2})}, emit_blocks(3, 11, 2)});
  cases.push_back({"block_diagonalOneBlock", {parameter({6, 3})}, emit_blocks(1, 5, 2)});
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
  cases.push_back({"head_sum", {x({2, 3, 4, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::head_sum(b, in[0], 0.25, "y");
                   }});
  cases.push_back({"scale_heads", {x({2, 3, 2, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::scale_heads(b, in[0], {2, ""}, 0.5, "y");
                   }});
  cases.push_back({"scale_headsOneForAll", {x({2, 3, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::scale_heads(b, in[0], {4, ""}, 0.5, "y");
                   }});
  cases.push_back({"l2norm", {x({2, 3, 2, 4}), absent()}, [](RegionBuilder& b, const Uses& in) {
                     ops::l2norm(b, in[0], in[1], "y");
                   }});
  cases.push_back({"l2normTemperature",
                   {x({2, 3, 2, 4}), parameter({1})},
                   [](RegionBuilder& b, const Uses& in) { ops::l2norm(b, in[0], in[1], "y"); }});
}

void add_attention_rules(std::vector<OpCase>& cases) {
  using Mask = ops::AttentionRules::Mask;
  const std::pair<const char*, ops::AttentionRules> all[] = {
      {"Full", {.mask = Mask::full}},
      {"Window", {.mask = Mask::window, .window = 2}},
      {"WideWindow", {.mask = Mask::window, .window = 9}},
      {"LayersWithoutWindow", {.mask = Mask::window, .window = 2, .window_period = 1}},
      {"Softcap", {.softcap = 0.8}},
      {"WindowSoftcap", {.mask = Mask::window, .window = 3, .softcap = 2}},
  };
  for (const auto& [name, rules] : all) {
    for (double dropout : {0.0, 0.3}) {
      cases.push_back({std::string("attention") + name + (dropout > 0 ? "Dropout" : ""),
                       {x({2, 5, 4, 3}), x({2, 5, 2, 3}), x({2, 5, 2, 3}), word(9), word(1234)},
                       [dropout, rules](RegionBuilder& b, const Uses& in) {
                         ops::attention(b, in[0], in[1], in[2], 0.7, rules, dropout, {in[3], in[4]}, 1, "y");
                       }});
    }
  }
}

void add_cache(std::vector<OpCase>& cases) {
  using Mask = ops::AttentionRules::Mask;
  const CaseInput cache = x({3, 2, 6, 4});
  cases.push_back({"cache_append",
                   {x({2, 4, 2, 4}), x({2, 4, 2, 4}), ids({2}, {2, -1}), cache, cache},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::cache_append(b, in[0], in[1], {in[3], in[4]}, in[2]);
                   },
                   false});
  // Three sequences of up to six tokens in pages of three.
  const CaseInput pool = x({5, 2, 3, 4}), pages = ids({3, 2}, {4, 0, 1, -1, 3, 2});
  cases.push_back({"cache_appendPaged",
                   {x({3, 4, 2, 4}), x({3, 4, 2, 4}), ids({3}, {2, -1, 1}), pool, pool, pages},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::cache_append(b, in[0], in[1], {in[3], in[4], in[5]}, in[2]);
                   },
                   false});
  const CaseInput history = x({3, 3, 2, 4});
  cases.push_back(
      {"history_append",
       {x({3, 5, 2, 4}), ids({3}, {2, -1, 0}), ids({3}, {4, 4, 1}), history},
       [](RegionBuilder& b, const Uses& in) { ops::history_append(b, in[0], in[3], in[1], in[2]); },
       false});
  cases.push_back(
      {"history_window",
       {x({3, 1, 2, 4}), ids({3, 1}, {0, 7, 2}), history},
       [](RegionBuilder& b, const Uses& in) { ops::history_window(b, in[0], in[2], in[1], "window"); },
       false});
  for (const int64_t top : {3, 7}) {
    cases.push_back(
        {"top_logits" + std::to_string(top),
         {x({3, 1, 8}), given({}, {0.5}), ids({}, {7}), given({3, 2}, {-1, 0, 0.5, 0.1, 0.875, 0})},
         [top](RegionBuilder& b, const Uses& in) {
           ops::top_logits(
               b, in[0], in[1], in[2], in[3],
               {b.fresh("values", {{3, ""}, {top, ""}}), b.fresh("ids", {{3, ""}, {top, ""}}, ir::DType::i32),
                b.fresh("sums", {{3, ""}}), b.fresh("drawn", {{3, ""}}, ir::DType::i32)});
         },
         false});
  }
  const std::pair<const char*, ops::AttentionRules> all[] = {
      {"", {}}, {"Window", {.mask = Mask::window, .window = 2}}, {"Softcap", {.softcap = 0.8}}};
  for (const auto& [name, rules] : all) {
    cases.push_back(
        {std::string("attention_decode") + name,
         {x({3, 1, 4, 4}), x({3, 1, 2, 4}), x({3, 1, 2, 4}), ids({3, 1}, {0, 5, 3}), cache, cache},
         [rules](RegionBuilder& b, const Uses& in) {
           ops::attention_decode(b, in[0], in[1], in[2], {in[4], in[5]}, in[3], 0.7, rules, "y");
         },
         false});
    cases.push_back(
        {std::string("attention_decodePaged") + name,
         {x({3, 1, 4, 4}), x({3, 1, 2, 4}), x({3, 1, 2, 4}), ids({3, 1}, {5, 0, 3}), pool, pool,
          ids({3, 2}, {4, 0, -1, -1, 3, 2})},
         [rules](RegionBuilder& b, const Uses& in) {
           ops::attention_decode(b, in[0], in[1], in[2], {in[4], in[5], in[6]}, in[3], 0.7, rules, "y");
         },
         false});
  }
  for (const bool interleaved : {false, true}) {
    cases.push_back({std::string("attention_decodeRotated") + (interleaved ? "Interleaved" : ""),
                     {x({3, 1, 4, 4}), x({3, 1, 2, 4}), x({3, 1, 2, 4}), ids({3, 1}, {0, 5, 3}), cache, cache,
                      x({6, 2}), x({6, 2})},
                     [interleaved](RegionBuilder& b, const Uses& in) {
                       ops::attention_decode(b, in[0], in[1], in[2], {in[4], in[5]}, in[3], 0.7, {}, "y");
                       ir::Node& node = b.region().nodes.back();
                       node.inputs.insert(node.inputs.end(), {in[6], in[7]});
                       node.attributes["interleaved"] = interleaved;
                     },
                     false});
  }
}

void add_documents(std::vector<OpCase>& cases) {
  using Mask = ops::AttentionRules::Mask;
  const std::pair<const char*, ops::AttentionRules> all[] = {
      {"", {.documents = true}},
      {"Full", {.mask = Mask::full, .documents = true}},
      {"Window", {.mask = Mask::window, .window = 2, .documents = true}},
      {"Softcap", {.softcap = 0.8, .documents = true}},
  };
  const CaseInput documents = two_rows_of_documents();
  for (const auto& [name, rules] : all) {
    for (double dropout : {0.0, 0.3}) {
      cases.push_back(
          {std::string("attentionDocuments") + name + (dropout > 0 ? "Dropout" : ""),
           {x({2, 5, 4, 3}), x({2, 5, 2, 3}), x({2, 5, 2, 3}), word(9), word(1234), documents},
           [dropout, rules](RegionBuilder& b, const Uses& in) {
             ops::attention(b, in[0], in[1], in[2], 0.7, rules, dropout, {in[3], in[4]}, 1, "y", in[5]);
           }});
    }
  }
}

void add_losses(std::vector<OpCase>& cases) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double smoothing : {0.0, 0.2}) {
    for (int64_t padding : {0, 2}) {
      for (double softcap : {0.0, 1.5}) {
        const std::string label =
            std::string(smoothing > 0 ? "Smoothed" : "") + (softcap > 0 ? "Capped" : "");
        cases.push_back({"cross_entropy" + label + (padding > 0 ? "Padded" : ""),
                         {x({2, 3, 7 + padding}), ids({2, 3}, {0, 6, -100, 3, -100, 3})},
                         [smoothing, softcap](RegionBuilder& b, const Uses& in) {
                           ops::cross_entropy(b, in[0], in[1], 7, softcap, smoothing, "y");
                         }});
      }
    }
  }
  cases.push_back({"softcap", {x({2, 3, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::softcap(b, in[0], 1.5, "y");
                   }});
  // Classes 0 to 4 of a rank, of which 3 exist in the padded case; another rank's targets, and one ignored.
  for (const bool padded : {false, true}) {
    for (double smoothing : {0.0, 0.1}) {
      for (double softcap : {0.0, 1.5}) {
        OpCase part{std::string("cross_entropy_part") + (smoothing > 0 ? "Smoothed" : "") +
                        (softcap > 0 ? "Capped" : "") + (padded ? "Padded" : ""),
                    {x({2, 3, 5}), ids({2, 3}, {0, 2, -100, -1, 1, -1})},
                    [smoothing, softcap](RegionBuilder& b, const Uses& in) {
                      ir::Attributes attributes = {{"label_smoothing", smoothing}, {"classes", int64_t{8}}};
                      if (softcap > 0) attributes["softcap"] = softcap;
                      b.emit_node(ir::Op::cross_entropy_part, in,
                                  {b.fresh("lse", b.shape(in[1])), b.fresh("target", b.shape(in[1]))},
                                  std::move(attributes));
                    }};
        part.outputs_with_gradient = {0, 1};
        if (padded) part.inputs.push_back(ids({}, {3}));
        cases.push_back(std::move(part));
      }
    }
  }
  cases.push_back({"cross_entropy_of_parts",
                   {x({2, 2, 3}), x({2, 2, 3}), ids({2, 3}, {0, 2, -100, -1, 1, -1})},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit_node(ir::Op::cross_entropy_of_parts, in,
                                 {b.fresh("losses", b.shape(in[2])), b.fresh("lse", b.shape(in[2]))});
                   }});
  cases.push_back({"cross_entropyOneClass",
                   {x({2, 2, 1}), ids({2, 2}, {0, 0, -100, 0})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::cross_entropy(b, in[0], in[1], b.shape(in[0]).back().size, 0, 0, "y");
                   }});
  for (int64_t padding : {0, 2}) {
    OpCase hits{
        std::string("hits") + (padding > 0 ? "Padded" : ""),
        {x({2, 3, 4 + padding}), ids({2, 3}, {0, 3, -100, 1, 2, 1})},
        [](RegionBuilder& b, const Uses& in) { ops::hits(b, in[0], in[1], 4, b.fresh("count", {})); }};
    // Equal largest logits in the first row, whose target is the first of them, and in the last, where it is
    // not.
    const std::vector<std::vector<double>> logits = {{2, 1, 2, 0}, {-1, 3, 1, 4}, {9, 0, 0, 0},
                                                     {1, 2, 1, 1}, {0, 3, 2, 1},  {5, 5, 1, 0}};
    for (const std::vector<double>& row : logits) {
      hits.inputs[0].values.insert(hits.inputs[0].values.end(), row.begin(), row.end());
      hits.inputs[0].values.insert(hits.inputs[0].values.end(), static_cast<size_t>(padding), 100);
    }
    hits.has_gradient = false;
    cases.push_back(std::move(hits));
  }
  add_recursion(cases);
  const auto score = [](RegionBuilder& b, const Uses& in) { ops::token_score(b, in[0], in[1], in[2], "y"); };
  cases.push_back({"token_score", {x({2, 3, 5}), parameter({5}), parameter({1})}, score});
  cases.push_back({"token_scoreWithoutBias", {x({2, 3, 5}), parameter({5}), absent()}, score});
  cases.push_back({"mse",
                   {x({2, 2, 3}), given({2, 2, 3}, {1, nan, 2, nan, nan, nan, 0, -1, 0.5, nan, 1, 1})},
                   [](RegionBuilder& b, const Uses& in) { ops::mse(b, in[0], in[1], "y"); }});
  cases.push_back({"mseOneOutput",
                   {x({2, 3, 1}), given({2, 3, 1}, {1, nan, 2, 3, 4, nan})},
                   [](RegionBuilder& b, const Uses& in) { ops::mse(b, in[0], in[1], "y"); }});
  cases.push_back(
      {"pointwise_loss",
       {x({2, 2, 3}), given({2, 2, 3}, {1, nan, 2, nan, nan, nan, 0, -1, 0.5, nan, 1, 1})},
       [](RegionBuilder& b, const Uses& in) { ops::pointwise_loss(b, own_function(2), in[0], in[1], "y"); }});
  OpCase mean{"mean_loss", {x({2, 3}), given({}, {0.25})}, [](RegionBuilder& b, const Uses& in) {
                ops::mean_loss(b, in[0], in[1], b.fresh("loss", {}), false);
              }};
  mean.unit_gradient = true;
  cases.push_back(mean);
  OpCase weighted{"mean_lossOfWeights",
                  {x({2, 3}), given({}, {0.25}), given({2, 3}, {1, 0, -2, 0.5, 3, -0.25})},
                  [](RegionBuilder& b, const Uses& in) {
                    ops::mean_loss(b, in[0], in[1], b.fresh("loss", {}), false, {}, in[2]);
                  }};
  weighted.unit_gradient = true;
  cases.push_back(weighted);
  for (const bool grows : {false, true}) {
    OpCase auxiliary{grows ? "auxiliary_lossOfWarmup" : "auxiliary_loss",
                     {x({2, 3}), grows ? ids({}, {2}) : absent()},
                     [grows](RegionBuilder& b, const Uses& in) {
                       const ops::AuxiliaryWeight weight{
                           .weight = 0.5, .warmup_steps = grows ? 4 : 0, .step = in[1], .accumulate = false};
                       ops::auxiliary_loss(b, in[0], weight, b.fresh("loss", {}));
                     }};
    auxiliary.unit_gradient = true;
    cases.push_back(auxiliary);
  }
  for (const int64_t vectors : {2, 3, 5}) {
    cases.push_back({"pairwise_cosine_distanceOf" + std::to_string(vectors),
                     {x({4, vectors, 7})},
                     [vectors](RegionBuilder& b, const Uses& in) {
                       ops::pairwise_cosine_distance(
                           b, in[0],
                           {b.fresh("distance", {{4, ""}}), b.fresh("of_each", {{4, ""}, {vectors, ""}})});
                     }});
  }
  cases.push_back({"one_hot",
                   {ids({2, 3}, {3, -1, 0, 3, 4, 5})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::one_hot(b, in[0], {5, ""}, "y");
                   },
                   false});
}

// Five tokens a sequence, of which three are chosen.
void add_routing(std::vector<OpCase>& cases) {
  const CaseInput tokens = ids({2, 3}, {0, 2, 3, 1, 2, 4}),
                  places = ids({2, 5}, {0, -1, 1, 2, -1, -1, 0, 1, -1, 2});
  const auto choice = [](const Uses& in) { return ops::TokenChoice{in[1], in[2]}; };
  for (const auto& [label, width] : {std::pair{"", 4}, std::pair{"OfNumbers", 0}}) {
    const auto shape = [width](int64_t rows) {
      return width > 0 ? std::vector<int64_t>{2, rows, width} : std::vector<int64_t>{2, rows};
    };
    cases.push_back({std::string("take_tokens") + label,
                     {x(shape(5)), tokens, places},
                     [=](RegionBuilder& b, const Uses& in) { ops::take_tokens(b, in[0], choice(in), "y"); }});
    cases.push_back(
        {std::string("spread_tokens") + label,
         {x(shape(3)), tokens, places},
         [=](RegionBuilder& b, const Uses& in) { ops::spread_tokens(b, in[0], choice(in), "y"); }});
  }
  const auto counts = [](ir::Op op, ir::Attributes attributes, ir::Shape shape) {
    return [=](RegionBuilder& b, const Uses& in) {
      b.emit_node(op, in, {b.fresh("y", shape, ir::DType::i32)}, attributes);
    };
  };
  const ir::Shape all = {{2, ""}, {5, ""}};
  // Equal scores: the earlier token's counts as higher.
  cases.push_back({"score_ranks",
                   {given({2, 5}, {0.5, -1, 0.5, 2, 0.5, -3, -3, -3, 1e-30, -1e-30})},
                   counts(ir::Op::score_ranks, {}, all),
                   false});
  cases.push_back({"chosen_places",
                   {ids({2, 5}, {1, 4, 2, 0, 3, 2, 0, 3, 1, 4})},
                   counts(ir::Op::chosen_places, {{"chosen", int64_t{3}}}, all),
                   false});
  cases.push_back({"chosen_tokens", {places}, counts(ir::Op::chosen_tokens, {}, {{2, ""}, {3, ""}}), false});
  CaseInput seen = x({2, 3, 5}, Kind::constant);
  seen.values.assign(30, 0);
  for (size_t i = 0; i < seen.values.size(); ++i) seen.values[i] = std::sin(static_cast<double>(i));
  cases.push_back(
      {"token_scoreDetached", {seen, parameter({5}), parameter({1})}, [](RegionBuilder& b, const Uses& in) {
         ops::token_score(b, in[0], in[1], in[2], "y", true);
       }});
  cases.push_back({"predicted_places",
                   {given({2, 5}, {3, -1, 0.5, 0, 1e-3, -2, -1, 4, -40, 40})},
                   counts(ir::Op::predicted_places, {}, all),
                   false});
  cases.push_back({"chosen_tokensFewerThanPlaces", {places}, counts(ir::Op::chosen_tokens, {}, all), false});
  cases.push_back({"chosen_flags",
                   {places},
                   [](RegionBuilder& b, const Uses& in) { ops::chosen_flags(b, in[0], "y"); },
                   false});
  cases.push_back({"places_before",
                   {given({2, 4, 1}, {1, 0, 1, 1, 0, 0, 0, 1})},
                   [](RegionBuilder& b, const Uses& in) { ops::places_before(b, in[0], "y"); },
                   false});
  const CaseInput logits = given({2, 5}, {3, -1, 0.5, -40, 40, 0, -2, 40, 1e-3, -3});
  cases.push_back({"choice_loss", {x({2, 5}), places}, [](RegionBuilder& b, const Uses& in) {
                     ops::choice_loss(b, in[0], in[1], "y");
                   }});
  cases.push_back({"choice_lossOfLargeLogits", {logits, places}, [](RegionBuilder& b, const Uses& in) {
                     ops::choice_loss(b, in[0], in[1], "y");
                   }});
  cases.push_back({"choice_hits",
                   {logits, places},
                   [](RegionBuilder& b, const Uses& in) { ops::choice_hits(b, in[0], in[1], "y"); },
                   false});
  cases.push_back({"gate_rows", {x({2, 3, 5}), x({2, 3})}, [](RegionBuilder& b, const Uses& in) {
                     ops::gate_rows(b, in[0], in[1], "y");
                   }});
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    add_norms(all);
    add_pointwise(all);
    add_tables(all);
    add_attention(all);
    add_compressed_attention(all);
    add_attention_rules(all);
    add_cache(all);
    add_documents(all);
    add_losses(all);
    add_routing(all);
    return all;
  }();
  return cases;
}

}  // namespace hydrac::test
