#include "passes/product_epilogue.h"

#include <algorithm>
#include <set>

#include "ops/shapes.h"

namespace hydrac::passes {

using ir::Affine;
using ir::Body;
using ir::Node;
using ir::Use;

namespace {

// Of what an epilogue loads for a column of a row: it waits in registers beside the product's.
constexpr int64_t kMostLoadedBytes = 8;

// The product's element at the row and at column `column` of the space, `half` halves of a row further.
ir::Index element_of(const Body& body, const ir::Shape& product, int column, int half) {
  ir::Index index;
  for (int r = 0; r < body.row_variables; ++r) index.push_back({Affine::of(r)});
  index.push_back({Affine::of(column) + Affine{half * (product.back().size / 2), {}}});
  return index;
}

// The column space of everything that the body stores; nothing where there are several.
std::optional<int> only_space(const Body& body) {
  std::set<int> spaces;
  for (const ir::Store& store : body.stores) spaces.insert(store.space);
  if (spaces.size() != 1 || *spaces.begin() == ir::kRowSpace) return std::nullopt;
  return *spaces.begin();
}

bool sums_columns(const ir::Store& store, int column) {
  return store.index.size() == 1 && store.index[0].gather < 0 && store.index[0].affine == Affine::of(column);
}

}  // namespace

std::optional<EpilogueShape> epilogue_shape(const ir::Graph& graph, const Node& reader, Use product) {
  if (reader.op != "fused") return std::nullopt;
  const Body& body = *reader.body;
  const ir::Shape& shape = graph.value(product).shape;
  const std::optional<int> space = only_space(body);
  if (!space || body.spaces[*space].size() != 1 ||
      body.row_shape() != ir::Shape(shape.begin(), shape.end() - 1))
    return std::nullopt;
  const int column = body.spaces[*space][0];
  const int64_t columns = body.variables[column].size, n = shape.back().size;
  EpilogueShape result{.paired = 2 * columns == n};
  if (!result.paired && columns != n) return std::nullopt;
  bool is_loaded = false;
  int64_t loaded_bytes = 0;  // for a column
  const std::vector<bool> live = live_expressions(body);
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    const ir::Expr& expr = body.exprs[i];
    if (!live[i]) continue;
    if (is_reduction(expr.op)) return std::nullopt;
    if (expr.op != ir::ExprOp::load) continue;
    if (std::ranges::any_of(expr.index, [](const ir::IndexDim& dim) { return dim.gather >= 0; }))
      return std::nullopt;
    const Use use = reader.inputs[body.operands[expr.operand].input];
    if (storage_of(graph, use.value) != storage_of(graph, product.value)) {
      loaded_bytes += size_of(body.operands[expr.operand].dtype);
      continue;
    }
    const bool is_element = expr.index == element_of(body, shape, column, 0) ||
                            (result.paired && expr.index == element_of(body, shape, column, 1));
    if (use != product || !is_element) return std::nullopt;
    is_loaded = true;
  }
  if (!is_loaded || loaded_bytes > kMostLoadedBytes) return std::nullopt;
  for (const ir::Store& store : body.stores) {
    if (store.kind == ir::StoreKind::store) continue;
    if (!sums_columns(store, column)) return std::nullopt;
    if (++result.sums > 1) return std::nullopt;
  }
  return result;
}

Node fused_product(const Node& product, const Node& reader, const EpilogueShape& epilogue, bool is_kept) {
  Node node = reader;
  node.op = "fused_product";
  node.product = product.outputs[0];
  node.inputs = {product.inputs[0], product.inputs[1]};
  std::vector<int> renumbered;
  for (Use use : reader.inputs) {
    const auto known = std::find(node.inputs.begin() + 2, node.inputs.end(), use);
    renumbered.push_back(use == node.product ? -1 : static_cast<int>(known - node.inputs.begin()));
    if (use != node.product && known == node.inputs.end()) node.inputs.push_back(use);
  }
  Body body = *reader.body;
  int operand = -1;  // the product
  for (size_t o = 0; o < body.operands.size(); ++o) {
    int& input = body.operands[o].input;
    if (input < 0) continue;
    input = renumbered[input];
    if (input >= 0) continue;
    operand = static_cast<int>(o);
    input = static_cast<int>(node.inputs.size());
  }
  if (is_kept) {
    const int space = body.stores[0].space, column = body.spaces[space][0];
    const ir::Shape& shape = body.operands[operand].shape;
    body.operands[operand].output = static_cast<int>(node.outputs.size());
    node.outputs.push_back(node.product);
    for (int half = 0; half < (epilogue.paired ? 2 : 1); ++half) {
      ir::Expr load{ir::ExprOp::load, ir::ExprType::f32};
      load.operand = operand;
      load.index = element_of(body, shape, column, half);
      const ir::Index index = load.index;
      body.stores.push_back({operand, index, body.intern(std::move(load)), space, ir::StoreKind::store});
    }
  }
  node.attributes["transpose_b"] = product.flag("transpose_b");
  node.attributes["paired"] = epilogue.paired;
  node.attributes["sums"] = int64_t{epilogue.sums};
  node.attributes["small"] = false;
  node.attributes["name"] = "product+" + std::get<std::string>(reader.attributes.at("name"));
  const std::string name = body.operands[operand].name.empty() ? "product" : body.operands[operand].name;
  body.operands[operand].name = name;
  const auto formula = reader.attributes.find("formula");
  node.attributes["formula"] =
      name + (product.flag("transpose_b") ? " = left right^T" : " = left right") +
      (formula == reader.attributes.end() ? "" : "\n" + std::get<std::string>(formula->second));
  node.body = std::make_shared<const Body>(std::move(body));
  return node;
}

Node plain_product(const ir::Graph& graph, const Node& product) {
  Node reader = product;
  reader.inputs = {product.outputs[0]};
  ir::BodyBuilder k = ops::rowwise(graph, reader);
  k.store(0, k.full(0));
  Body body = k.take();
  body.operands.resize(1);
  body.operands[0].output = 0;
  body.stores[0].operand = 0;
  reader.op = "fused";
  reader.body = std::make_shared<const Body>(std::move(body));
  reader.attributes = {{"name", "plain"}};
  Node node = fused_product(product, reader, {}, false);
  node.attributes["name"] = "plain_product";
  return node;
}

}  // namespace hydrac::passes
