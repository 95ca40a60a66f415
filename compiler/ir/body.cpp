#include "ir/body.h"

#include <fmt/format.h>

#include <algorithm>

namespace hydrac::ir {

Affine operator+(const Affine& a, const Affine& b) {
  std::map<int, int64_t> terms(a.terms.begin(), a.terms.end());
  for (const auto& [variable, coefficient] : b.terms) terms[variable] += coefficient;
  Affine sum{a.constant + b.constant, {}};
  for (const auto& [variable, coefficient] : terms) {
    if (coefficient != 0) sum.terms.emplace_back(variable, coefficient);
  }
  return sum;
}

Affine operator*(const Affine& a, int64_t factor) {
  if (factor == 0) return {};
  Affine product = a;
  product.constant *= factor;
  for (auto& [variable, coefficient] : product.terms) coefficient *= factor;
  return product;
}

bool is_reduction(ExprOp op) {
  return op == ExprOp::sum || op == ExprOp::maximum || op == ExprOp::logsumexp;
}

ExprId Body::intern(Expr expr) {
  if (auto found = interned_.find(expr); found != interned_.end()) return found->second;
  exprs.push_back(expr);
  const ExprId id = static_cast<ExprId>(exprs.size()) - 1;
  interned_.emplace(std::move(expr), id);
  return id;
}

void Body::name(ExprId id, const std::string& name) {
  const bool is_constant = exprs[id].op == ExprOp::constant;
  if (name.empty() && !is_constant) return;
  const auto [found, is_new] = names.try_emplace(id, name);
  if (!is_new && is_constant && found->second != name) found->second.clear();
}

std::string Body::name_of(ExprId id) const {
  const auto found = names.find(id);
  return found == names.end() ? "" : found->second;
}

int Body::space_of(const Shape& extents) {
  for (size_t s = 0; s < spaces.size(); ++s) {
    if (space_shape(static_cast<int>(s)) == extents) return static_cast<int>(s);
  }
  std::vector<int> space;
  for (const Dim& dim : extents) {
    space.push_back(static_cast<int>(variables.size()));
    variables.push_back(dim);
  }
  spaces.push_back(std::move(space));
  return static_cast<int>(spaces.size()) - 1;
}

std::pair<int64_t, int64_t> range_of(const Body& body, const Affine& affine) {
  int64_t low = affine.constant, high = affine.constant;
  for (const auto& [variable, coefficient] : affine.terms) {
    (coefficient > 0 ? high : low) += coefficient * (body.variables[variable].size - 1);
  }
  return {low, high};
}

Shape Body::space_shape(int space) const {
  Shape shape;
  if (space == kRowSpace) return shape;
  for (int variable : spaces[space]) shape.push_back(variables[variable]);
  return shape;
}

namespace {

// Folds what an index depends on into `dep`.
void depend_on_index(const Body& body, const Index& index, const std::vector<Dependence>& known,
                     Dependence& dep) {
  for (const IndexDim& dim : index) {
    for (const auto& [variable, coefficient] : dim.affine.terms) {
      dep.uniform = false;
      if (variable < body.row_variables) continue;
      for (size_t s = 0; s < body.spaces.size(); ++s) {
        if (std::ranges::count(body.spaces[s], variable)) dep.space = static_cast<int>(s);
      }
    }
    if (dim.gather < 0) continue;
    const Dependence& gather = known[dim.gather];
    if (gather.space != kRowSpace) dep.space = gather.space;
    dep.level = std::max(dep.level, gather.level);
    dep.uniform = dep.uniform && gather.uniform;
  }
}

}  // namespace

std::vector<Dependence> dependences(const Body& body) {
  std::vector<Dependence> result;
  for (const Expr& expr : body.exprs) {
    Dependence dep{kRowSpace, 0, true};
    depend_on_index(body, expr.index, result, dep);
    for (ExprId arg : expr.args) {
      const Dependence& from = result[arg];
      if (from.space != kRowSpace) dep.space = from.space;
      dep.level = std::max(dep.level, from.level);
      dep.uniform = dep.uniform && from.uniform;
    }
    if (is_reduction(expr.op)) {
      dep.space = kRowSpace;
      dep.level += 1;
      dep.uniform = false;
    }
    result.push_back(dep);
  }
  return result;
}

std::vector<bool> live_expressions(const Body& body) {
  std::vector<bool> live(body.exprs.size(), false);
  auto mark_index = [&](const Index& index) {
    for (const IndexDim& dim : index) {
      if (dim.gather >= 0) live[dim.gather] = true;
    }
  };
  for (const Store& store : body.stores) {
    live[store.value] = true;
    mark_index(store.index);
  }
  for (size_t i = body.exprs.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (ExprId arg : body.exprs[i].args) live[arg] = true;
    mark_index(body.exprs[i].index);
  }
  return live;
}

std::string_view to_string(ExprOp op) {
  static constexpr std::string_view names[] = {"constant",
                                               "load",
                                               "position",
                                               "layer",
                                               "neg",
                                               "abs",
                                               "exp",
                                               "expm1",
                                               "log",
                                               "log1p",
                                               "tanh",
                                               "erf",
                                               "sqrt",
                                               "rsqrt",
                                               "sigmoid",
                                               "sin",
                                               "cos",
                                               "floor",
                                               "is_nan",
                                               "is_finite",
                                               "add",
                                               "sub",
                                               "mul",
                                               "div",
                                               "remainder",
                                               "max",
                                               "min",
                                               "less",
                                               "less_equal",
                                               "equal",
                                               "logical_not",
                                               "logical_and",
                                               "logical_or",
                                               "fma",
                                               "select",
                                               "round_to",
                                               "convert",
                                               "sum",
                                               "maximum",
                                               "logsumexp",
                                               "random_key",
                                               "random_16_bits",
                                               "round_stochastically",
                                               "dynamic_code",
                                               "dynamic_value",
                                               "signed_dynamic_code",
                                               "signed_dynamic_value",
                                               "nf4_upper",
                                               "nf4_lower"};
  return names[static_cast<int>(op)];
}

std::string_view to_string(ExprType type) {
  static constexpr std::string_view names[] = {"f32", "f64", "i32", "u32", "i64", "bool"};
  return names[static_cast<int>(type)];
}

std::string to_text(const Body& body, const Affine& affine) {
  std::string text;
  for (const auto& [variable, coefficient] : affine.terms) {
    if (!text.empty()) text += " + ";
    if (coefficient != 1) text += fmt::format("{}*", coefficient);
    text += fmt::format("{}{}", variable < body.row_variables ? 'r' : 'c', variable);
  }
  if (affine.constant != 0 || text.empty())
    text += fmt::format("{}{}", text.empty() ? "" : " + ", affine.constant);
  return text;
}

namespace {

std::string index_text(const Body& body, const Index& index) {
  std::string text;
  for (const IndexDim& dim : index) {
    if (!text.empty()) text += ", ";
    if (dim.gather >= 0) text += fmt::format("%{}", dim.gather);
    if (dim.gather < 0 || dim.affine != Affine{}) {
      text += fmt::format("{}{}", dim.gather >= 0 ? " + " : "", to_text(body, dim.affine));
    }
  }
  return text;
}

std::string expr_text(const Body& body, const Expr& expr) {
  switch (expr.op) {
    case ExprOp::constant:
      return fmt::format("{}", expr.number);
    case ExprOp::load:
      return fmt::format("${}[{}]", expr.operand, index_text(body, expr.index));
    case ExprOp::position:
      return fmt::format("position({})", index_text(body, expr.index));
    default:
      break;
  }
  std::string text(to_string(expr.op));
  for (ExprId arg : expr.args) text += fmt::format(" %{}", arg);
  if (expr.op == ExprOp::round_to || expr.op == ExprOp::round_stochastically)
    text += fmt::format(" {}", to_string(expr.dtype));
  if (is_reduction(expr.op)) text += fmt::format(" over {}", sizes_of(body.space_shape(expr.space)));
  return text;
}

}  // namespace

std::string to_text(const Body& body) {
  std::string text = fmt::format("    rows {}", symbols_of(body.row_shape()));
  for (size_t s = 0; s < body.spaces.size(); ++s) {
    text += fmt::format(" columns {}", symbols_of(body.space_shape(static_cast<int>(s))));
  }
  text += "\n";
  const std::vector<bool> live = live_expressions(body);
  for (size_t i = 0; i < body.exprs.size(); ++i) {
    if (!live[i]) continue;
    text +=
        fmt::format("    %{} = {} : {}\n", i, expr_text(body, body.exprs[i]), to_string(body.exprs[i].type));
  }
  for (const Store& store : body.stores) {
    const char* kind = store.kind == StoreKind::store        ? "="
                       : store.kind == StoreKind::column_sum ? "= column_sum"
                       : store.kind == StoreKind::raise      ? "= max"
                                                             : "+= column_sum";
    text +=
        fmt::format("    ${}[{}] {} %{}\n", store.operand, index_text(body, store.index), kind, store.value);
  }
  return text;
}

}  // namespace hydrac::ir
