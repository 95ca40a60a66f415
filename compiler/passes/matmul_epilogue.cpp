#include "passes/matmul_epilogue.h"

#include <algorithm>
#include <array>
#include <set>

#include "ops/shapes.h"

namespace hydrac::passes {

using ir::Affine;
using ir::Body;
using ir::Node;
using ir::Use;

namespace {

// Limit on an epilogue's loads for a column of a row: they wait in registers beside the matmul's.
constexpr int64_t kMostLoadedBytes = 8;
// The same limit for an epilogue with sums over the row, for loads that depend on the row or the column
// alone: a linear's bias, a norm's weight and bias, its statistics, the state of dropout.
constexpr int64_t kMostSharedBytes = 20;

// The matmul's element at the row and at column `column` of the space, `half` halves of a row further.
ir::Index element_of(const Body& body, const ir::Shape& matmul, int column, int half) {
  ir::Index index;
  for (int r = 0; r < body.row_variables; ++r) index.push_back({Affine::of(r)});
  index.push_back({Affine::of(column) + Affine{half * (matmul.back().size / 2), {}}});
  return index;
}

// The one column space of everything that the body stores or sums over a row; nullopt if there are several.
std::optional<int> only_space(const Body& body, const std::vector<bool>& live) {
  std::set<int> spaces;
  for (const ir::Store& store : body.stores) spaces.insert(store.space);
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (live[i] && is_reduction(body.exprs[i].op)) spaces.insert(body.exprs[i].space);
  }
  spaces.erase(ir::kRowSpace);
  if (spaces.size() != 1) return std::nullopt;
  return *spaces.begin();
}

bool sums_columns(const ir::Store& store, int column) {
  return store.index.size() == 1 && store.index[0].gather < 0 && store.index[0].affine == Affine::of(column);
}

// One behind the reductions of another, each of two sums at most; nothing where there are others.
std::optional<int> passes_of(const Body& body, const std::vector<bool>& live) {
  constexpr int most_sums = 2;
  const std::vector<ir::Dependence> deps = dependences(body);
  std::vector<int> sums(body.exprs.size() + 1);  // by level
  int passes = 1;
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (!live[i] || !is_reduction(body.exprs[i].op)) continue;
    if (body.exprs[i].op != ir::ExprOp::sum || body.exprs[i].type != ir::ExprType::f32 ||
        ++sums[deps[i].level] > most_sums)
      return std::nullopt;
    passes = std::max(passes, deps[i].level + 1);
  }
  return passes;
}

// Bytes that the body loads for each column of each row, and those that a row or a column has in common.
struct LoadedBytes {
  int64_t own = 0, shared = 0;

  bool fit(int passes) const {
    if (passes == 1) return own + shared <= kMostLoadedBytes;
    return own <= kMostLoadedBytes && shared <= kMostSharedBytes;
  }
};

// The values of the attribute, as cuda::MatmulSchedule counts.
constexpr std::array<std::string_view, 4> kSchedules{"persistent", "one_tile", "whole_rows", "few_rows"};

// True if both the row and the column say which element it is.
bool is_own(const Body& body, const ir::Index& index) {
  bool by_row = false, by_column = false;
  for (const ir::IndexDim& dim : index) {
    for (const auto& [variable, factor] : dim.affine.terms)
      (variable < body.row_variables ? by_row : by_column) = true;
  }
  return by_row && by_column;
}

}  // namespace

cuda::MatmulSchedule schedule_of(const Node& fused_matmul) {
  const auto& name = std::get<std::string>(fused_matmul.attributes.at("schedule"));
  return static_cast<cuda::MatmulSchedule>(std::ranges::find(kSchedules, name) - kSchedules.begin());
}

bool has_tail(const Node& matmul) {
  return matmul.optional_flag("tail");
}

bool has_experts(const Node& matmul) {
  return matmul.op == ir::Op::grouped_matmul || matmul.optional_flag("experts");
}

int matrix_count(const Node& fused_matmul) {
  return has_tail(fused_matmul) ? 4 : has_experts(fused_matmul) ? 3 : 2;
}

namespace {

// A and B, and those of the tail or the offsets of experts.
std::vector<Use> matrices_of(const Node& gemm) {
  if (has_experts(gemm)) return gemm.inputs;
  std::vector<Use> matrices(gemm.inputs.begin(), gemm.inputs.begin() + 2);
  if (has_tail(gemm)) matrices.insert(matrices.end(), gemm.inputs.begin() + 3, gemm.inputs.end());
  return matrices;
}

}  // namespace

cuda::MatmulProblem matmul_problem(const ir::Graph& graph, const ir::Node& matmul,
                                   const EpilogueShape& epilogue, cuda::Chip chip) {
  const bool is_fused = matmul.matmul.value != ir::kNoValue;
  const ir::Value &a = graph.value(matmul.inputs[0]),
                  &c = graph.value(is_fused ? matmul.matmul : matmul.outputs[0]);
  const int64_t n = c.shape.back().size;
  const auto tail = [&] { return graph.value(matmul.inputs[is_fused ? 2 : 3]).shape.back().size; };
  return {.chip = chip,
          .is_bf16 = c.dtype == ir::DType::bf16,
          .b_transposed = matmul.flag("transpose_b"),
          .m = element_count(c.shape) / n,
          .n = n,
          .k = a.shape.back().size,
          .paired = epilogue.paired,
          .sums = epilogue.sums,
          .tail_k = has_tail(matmul) ? tail() : 0,
          .experts = has_experts(matmul) ? graph.value(matmul.inputs[2]).shape[0].size - 1 : 0};
}

std::optional<EpilogueShape> epilogue_shape(const ir::Graph& graph, const Node& reader, Use matmul) {
  if (reader.op != ir::Op::fused) return std::nullopt;
  const Body& body = *reader.body;
  const ir::Shape& shape = graph.value(matmul).shape;
  const std::vector<bool> live = live_expressions(body);
  const std::optional<int> space = only_space(body, live), passes = passes_of(body, live);
  if (!space || !passes || body.spaces[*space].size() != 1 ||
      body.row_shape() != ir::Shape(shape.begin(), shape.end() - 1))
    return std::nullopt;
  const bool sums_rows = *passes > 1;
  const int column = body.spaces[*space][0];
  const int64_t columns = body.variables[column].size, n = shape.back().size;
  EpilogueShape result{.paired = 2 * columns == n && !sums_rows, .passes = *passes};
  if (!result.paired && columns != n) return std::nullopt;
  bool is_loaded = false;
  LoadedBytes loaded;
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    const ir::Expr& expr = body.exprs[i];
    if (!live[i] || expr.op != ir::ExprOp::load) continue;
    if (std::ranges::any_of(expr.index, [](const ir::IndexDim& dim) { return dim.gather >= 0; }))
      return std::nullopt;
    const Use use = reader.inputs[body.operands[expr.operand].input];
    if (storage_of(graph, use.value) != storage_of(graph, matmul.value)) {
      const int64_t bytes = size_of(body.operands[expr.operand].dtype);
      (is_own(body, expr.index) ? loaded.own : loaded.shared) += bytes;
      continue;
    }
    const bool is_element = expr.index == element_of(body, shape, column, 0) ||
                            (result.paired && expr.index == element_of(body, shape, column, 1));
    if (use != matmul || !is_element) return std::nullopt;
    is_loaded = true;
  }
  if (!is_loaded || !loaded.fit(*passes)) return std::nullopt;
  for (const ir::Store& store : body.stores) {
    if (store.space == ir::kRowSpace && (!sums_rows || store.kind != ir::StoreKind::store))
      return std::nullopt;
    if (store.kind == ir::StoreKind::store) continue;
    if (!sums_columns(store, column)) return std::nullopt;
    if (++result.sums > (sums_rows ? 3 : 1)) return std::nullopt;
  }
  return result;
}

Node fused_matmul(const Node& matmul, const Node& reader, const EpilogueShape& epilogue,
                  cuda::MatmulSchedule schedule, bool is_kept) {
  Node node = reader;
  node.op = ir::Op::fused_matmul;
  node.matmul = matmul.outputs[0];
  node.inputs = matrices_of(matmul);
  const auto matrices = static_cast<std::ptrdiff_t>(node.inputs.size());
  std::vector<int> renumbered;
  for (Use use : reader.inputs) {
    const auto known = std::find(node.inputs.begin() + matrices, node.inputs.end(), use);
    renumbered.push_back(use == node.matmul ? -1 : static_cast<int>(known - node.inputs.begin()));
    if (use != node.matmul && known == node.inputs.end()) node.inputs.push_back(use);
  }
  Body body = *reader.body;
  int operand = -1;  // the matmul
  for (size_t o = 0; o < body.operands.size(); ++o) {
    int& input = body.operands[o].input;
    if (input < 0) continue;
    input = renumbered[input];
    if (input >= 0) continue;
    operand = static_cast<int>(o);
    input = static_cast<int>(node.inputs.size());
  }
  if (is_kept) {
    const int space = *only_space(body, live_expressions(body)), column = body.spaces[space][0];
    const ir::Shape& shape = body.operands[operand].shape;
    body.operands[operand].output = static_cast<int>(node.outputs.size());
    node.outputs.push_back(node.matmul);
    for (int half = 0; half < (epilogue.paired ? 2 : 1); ++half) {
      ir::Expr load{ir::ExprOp::load, ir::ExprType::f32};
      load.operand = operand;
      load.index = element_of(body, shape, column, half);
      const ir::Index index = load.index;
      body.stores.push_back({operand, index, body.intern(std::move(load)), space, ir::StoreKind::store});
    }
  }
  const bool transposes = matmul.flag("transpose_b");
  node.attributes["transpose_b"] = transposes;
  if (has_tail(matmul)) node.attributes["tail"] = true;
  if (has_experts(matmul)) node.attributes["experts"] = true;
  node.attributes["paired"] = epilogue.paired;
  node.attributes["sums"] = int64_t{epilogue.sums};
  node.attributes["schedule"] = std::string(kSchedules[static_cast<size_t>(schedule)]);
  node.attributes["name"] = "matmul+" + std::get<std::string>(reader.attributes.at("name"));
  const std::string name = body.operands[operand].name.empty() ? "matmul" : body.operands[operand].name;
  body.operands[operand].name = name;
  const auto formula = reader.attributes.find("formula");
  node.attributes["formula"] =
      name + (transposes ? " = left right^T" : " = left right") +
      (has_experts(matmul) ? ", right the matrix of the row's expert" : "") +
      (!has_tail(matmul) ? ""
       : transposes      ? " + tail_left tail_right^T"
                         : " + tail_left tail_right") +
      (formula == reader.attributes.end() ? "" : "\n" + std::get<std::string>(formula->second));
  node.body = std::make_shared<const Body>(std::move(body));
  return node;
}

Node plain_matmul(const ir::Graph& graph, const Node& matmul, cuda::MatmulSchedule schedule) {
  Node reader = matmul;
  reader.inputs = {matmul.outputs[0]};
  ir::BodyBuilder k = ops::rowwise(graph, reader);
  k.store(0, k.full(0));
  Body body = k.take();
  body.operands.resize(1);
  body.operands[0].output = 0;
  body.stores[0].operand = 0;
  reader.op = ir::Op::fused;
  reader.body = std::make_shared<const Body>(std::move(body));
  reader.attributes = {{"name", "plain"}};
  Node node = fused_matmul(matmul, reader, {}, schedule, false);
  node.attributes["name"] = "plain_matmul";
  return node;
}

}  // namespace hydrac::passes
