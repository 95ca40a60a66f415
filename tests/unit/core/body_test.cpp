// Bodies by hand: what ir::evaluate makes of them, and which ones merge.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/body_builder.h"
#include "ir/evaluate.h"
#include "ir/merge.h"

namespace hydrac::test {
namespace {

using ir::BodyBuilder;
using ir::Term;
using Data = std::vector<double>;

struct Bodies {
  ir::Graph graph;
  ir::Use add(const std::string& name, std::vector<int64_t> sizes, ir::DType dtype = ir::DType::f32) {
    ir::Value value;
    value.name = name;
    value.dtype = dtype;
    for (int64_t size : sizes) value.shape.push_back({size, ""});
    return {graph.add(std::move(value)), {}};
  }
  static ir::Node fused(ir::Node node, ir::Body body) {
    node.op = ir::Op::fused;
    node.attributes = {{"name", std::string("test")}};
    node.body = std::make_shared<const ir::Body>(std::move(body));
    return node;
  }
};

TEST(Evaluate, RowsReductionsAndColumnSums) {
  Bodies t;
  const ir::Node node{.inputs = {t.add("x", {2, 3})},
                      .outputs = {t.add("sum", {2}), t.add("max", {2}), t.add("lse", {2}),
                                  t.add("columns", {3}), t.add("total", {})}};
  BodyBuilder k(t.graph, node, {{2, ""}});
  k.columns({{3, ""}});
  const Term x = k.full(0);
  k.store_row(0, k.sum(x));
  k.store_row(1, k.maximum(x));
  k.store_row(2, k.logsumexp(x));
  k.column_sum(3, x * k.sum(x), false);
  k.row_sum(4, k.sum(x), true);
  Data in = {1, 2, 3, -1, 0, 1000}, sum(2), max(2), lse(2), columns = {7, 7, 7}, total = {100};
  ir::evaluate(k.take(), {&in, &sum, &max, &lse, &columns, &total}, 0);
  EXPECT_EQ(sum, (Data{6, 999}));
  EXPECT_EQ(max, (Data{3, 1000}));
  EXPECT_NEAR(lse[0], std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)), 1e-14);
  EXPECT_EQ(lse[1], 1000);
  EXPECT_EQ(columns, (Data{6 - 999, 12, 18 + 999000}));
  EXPECT_EQ(total, (Data{100 + 6 + 999}));
}

TEST(Evaluate, GathersPositionsAndLayers) {
  Bodies t;
  const ir::Node node{.inputs = {t.add("id", {3}, ir::DType::i32), t.add("table", {4, 2})},
                      .outputs = {t.add("y", {3, 2})}};
  BodyBuilder k(t.graph, node, {{3, ""}});
  k.columns({{2, ""}});
  const Term place = convert(k.position(k.row(0) * 10 + k.column(0)), ir::ExprType::f32);
  k.store(0, k.gather(1, k.per_row(0), {}, {k.column(0)}) + place + convert(k.layer(), ir::ExprType::f32));
  const ir::Body body = k.take();
  Data id = {3, 0, 3}, table = {0.1, 0.2, 1, 2, 3, 4, 0.5, 0.6}, y(6);
  ir::evaluate(body, {&id, &table, &y}, 1000);
  EXPECT_EQ(y, (Data{1000.5, 1001.6, 1010.1, 1011.2, 1020.5, 1021.6}));
  id[1] = 4;
  EXPECT_THROW(ir::evaluate(body, {&id, &table, &y}, 0), std::logic_error);
}

TEST(Evaluate, DividesIntegersTowardsZero) {
  Bodies t;
  const ir::Node node{.outputs = {t.add("quotient", {4}), t.add("remainder", {4})}};
  BodyBuilder k(t.graph, node, {{2, ""}});
  const auto numbers = [&](int row, int64_t first) {
    const Term number = k.position(k.row(0) + ir::Affine{first, {}});
    k.store_row_at(0, {k.row(0) + ir::Affine{row, {}}}, convert(number / 256, ir::ExprType::f32));
    k.store_row_at(1, {k.row(0) + ir::Affine{row, {}}}, convert(number % 256, ir::ExprType::f32));
  };
  numbers(0, (int64_t{1} << 40) - 1);
  numbers(2, -257);
  Data quotient(4), remainder(4);
  ir::evaluate(k.take(), {&quotient, &remainder}, 0);
  EXPECT_EQ(quotient, (Data{4294967295, 4294967296, -1, -1}));
  EXPECT_EQ(remainder, (Data{255, 0, -1, 0}));
}

TEST(Evaluate, LoadsSeeWhatWasThereBefore) {
  Bodies t;
  const ir::Use x = t.add("x", {3});
  const ir::Node node{.inputs = {x}, .outputs = {x}};
  BodyBuilder k(t.graph, node, {{3, ""}});
  k.store_at(0, {k.row(0)}, k.load(0, {k.row(0) * -1 + ir::Affine{2, {}}}));
  ir::Body body = k.take();
  body.operands[0].output = 0;
  body.stores[0].operand = 0;
  Data data = {1, 2, 3};
  ir::evaluate(body, {&data, nullptr}, 0);
  EXPECT_EQ(data, (Data{3, 2, 1}));
}

TEST(Evaluate, RoundsToStorageTypes) {
  Bodies t;
  const ir::Node node{.inputs = {t.add("x", {5})}, .outputs = {t.add("bf16", {5}), t.add("f16", {5})}};
  BodyBuilder k(t.graph, node, {{5, ""}});
  ir::Body body = k.take();
  const ir::Index row = {{ir::Affine::of(0), -1}};
  ir::Expr load{ir::ExprOp::load};
  load.operand = 0;
  load.index = row;
  const ir::ExprId x = body.intern(load);
  for (int o : {0, 1}) {
    ir::Expr round{ir::ExprOp::round_to, ir::ExprType::f32, {x}};
    round.dtype = o == 0 ? ir::DType::bf16 : ir::DType::f16;
    const ir::ExprId rounded = body.intern(round);
    body.stores.push_back({1 + o, row, rounded, ir::kRowSpace, ir::StoreKind::store});
  }
  Data in = {1 + std::ldexp(1, -8), 1 + std::ldexp(3, -8), 70000, std::ldexp(1, -25), -1.0 / 3}, bf16(5),
       f16(5);
  ir::evaluate(body, {&in, &bf16, &f16}, 0);
  EXPECT_EQ(bf16, (Data{1, 1 + std::ldexp(1, -6), 70144, std::ldexp(1, -25), -0.333984375}));
  EXPECT_EQ(f16, (Data{1 + std::ldexp(1, -8), 1 + std::ldexp(3, -8), INFINITY, 0, -0.333251953125}));
}

// first: y[r, c + shift] = 2 x[r, c + shift] for c < columns and each shift; second: z[r, c] = y[r, c] + 1
// for all c.
std::optional<ir::Node> merged_after(Bodies& t, int64_t columns, std::vector<int64_t> shifts) {
  const ir::Use x = t.add("x", {2, 4}), y = t.add("y", {2, 4}), z = t.add("z", {2, 4});
  const ir::Node one{.inputs = {x}, .outputs = {y}}, two{.inputs = {y}, .outputs = {z}};
  BodyBuilder a(t.graph, one, {{2, ""}}), b(t.graph, two, {{2, ""}});
  a.columns({{columns, ""}});
  for (int64_t shift : shifts) {
    const std::vector<ir::Affine> at = {a.row(0), a.column(0) + ir::Affine{shift, {}}};
    a.store_at(0, at, a.load(0, at) * 2);
  }
  b.columns({{4, ""}});
  b.store(0, b.full(0) + 1);
  return ir::merged(Bodies::fused(one, a.take()), Bodies::fused(two, b.take()));
}

TEST(Merge, ForwardsAStoreToTheLoadBehindIt) {
  Bodies t;
  const std::optional<ir::Node> both = merged_after(t, 4, {0});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->inputs.size(), 1u);  // y is not read any more
  Data x = {1, 2, 3, 4, 5, 6, 7, 8}, y(8), z(8);
  std::vector<Data*> operands(both->body->operands.size(), nullptr);
  for (size_t o = 0; o < operands.size(); ++o) {
    const ir::Operand& operand = both->body->operands[o];
    operands[o] = operand.input == 0 ? &x : operand.output == 0 ? &y : operand.output == 1 ? &z : nullptr;
  }
  ir::evaluate(*both->body, operands, 0);
  EXPECT_EQ(z, (Data{3, 5, 7, 9, 11, 13, 15, 17}));
}

// Rope stores halves; a norm behind it reads whole rows, which no single store covers.
TEST(Merge, RefusesALoadWiderThanTheStore) {
  Bodies t;
  EXPECT_FALSE(merged_after(t, 2, {0, 2}));
  EXPECT_FALSE(merged_after(t, 3, {1}));
}

}  // namespace
}  // namespace hydrac::test
