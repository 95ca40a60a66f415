#include "codegen/body_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "codegen/operand_names.h"

namespace hydrac::codegen {

using ir::Affine;
using ir::Expr;
using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

namespace {

// Worth remembering from one pass over the columns to the next.
bool is_expensive(ExprOp op) {
  switch (op) {
    case ExprOp::exp:
    case ExprOp::expm1:
    case ExprOp::log:
    case ExprOp::log1p:
    case ExprOp::tanh:
    case ExprOp::erf:
    case ExprOp::sigmoid:
    case ExprOp::sin:
    case ExprOp::cos:
    case ExprOp::random_bits:
      return true;
    default:
      return false;
  }
}

}  // namespace

BodyNames::BodyNames(const ir::Graph& graph, const ir::Node& node, const std::set<std::string>& reserved)
    : graph_(graph),
      node_(node),
      body_(*node.body),
      deps_(dependences(body_)),
      live_(live_expressions(body_)),
      stages_(stages_of(body_, deps_, live_)),
      operand_names_(operand_names(graph, node)),
      names_(body_.exprs.size()) {
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    if (!operand_names_[o].empty() && is_used(static_cast<int>(o))) taken_.insert(operand_names_[o]);
  }
  taken_.insert(reserved.begin(), reserved.end());
  name_variables();
  count_uses();
  for (size_t s = 0; s < body_.stores.size(); ++s) {
    if (body_.stores[s].kind == StoreKind::store) continue;
    sums_.push_back(static_cast<int>(s));
    sum_width_ += sum_elements(body_.stores[s]);
  }
}

bool BodyNames::is_used(int operand) const {
  if (std::ranges::any_of(body_.stores, [&](const Store& s) { return s.operand == operand; })) return true;
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (live_[i] && body_.exprs[i].op == ExprOp::load && body_.exprs[i].operand == operand) return true;
  }
  return false;
}

ir::Use BodyNames::use_of(int operand) const {
  const ir::Operand& o = body_.operands[operand];
  return o.output >= 0 ? node_.outputs[o.output] : node_.inputs[o.input];
}

bool BodyNames::is_overwritten(int operand) const {
  const ir::ValueId memory = storage_of(graph_, use_of(operand).value);
  return std::ranges::any_of(body_.stores, [&](const Store& store) {
    return storage_of(graph_, use_of(store.operand).value) == memory;
  });
}

// ---- names

std::string BodyNames::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

void BodyNames::name_variables() {
  for (size_t v = 0; v < body_.variables.size(); ++v) {
    const std::string& symbol = body_.variables[v].symbol;
    const bool row = static_cast<int>(v) < body_.row_variables;
    const bool letter = symbol.size() == 1 && std::isalpha(static_cast<unsigned char>(symbol[0]));
    std::string wanted = row ? "row" : "c";
    if (letter)
      wanted = std::string(1, static_cast<char>(std::tolower(static_cast<unsigned char>(symbol[0]))));
    variables_.push_back(unique(wanted));
  }
}

void BodyNames::count_uses() {
  uses_.assign(body_.exprs.size(), 0);
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (!live_[i] || body_.exprs[i].op != ExprOp::position) continue;
    for (const auto& [variable, coefficient] : body_.exprs[i].index[0].affine.terms) {
      needs_row_variables_ |= variable < body_.row_variables;
    }
  }
  auto count_index = [&](const ir::Index& index) {
    for (const ir::IndexDim& dim : index) {
      if (dim.gather >= 0) uses_[dim.gather] += 1;
    }
  };
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (!live_[i]) continue;
    for (ExprId arg : body_.exprs[i].args) uses_[arg] += deps_[arg].space != deps_[i].space ? 2 : 1;
    count_index(body_.exprs[i].index);
  }
  for (const Store& store : body_.stores) {
    uses_[store.value] += deps_[store.value].space != store.space ? 2 : 1;
    count_index(store.index);
  }
}

std::string BodyNames::wanted_name(ExprId id) const {
  const Expr& expr = body_.exprs[id];
  switch (expr.op) {
    case ExprOp::load:
      return operand_names_[expr.operand] + "_value";
    case ExprOp::sum:
      return "sum";
    case ExprOp::maximum:
      return "largest";
    case ExprOp::logsumexp:
      return "lse";
    case ExprOp::random_key:
      return "key";
    case ExprOp::random_bits:
      return "bits";
    default:
      break;
  }
  if (expr.op == ExprOp::round_to) {
    const std::string exact = wanted_name(expr.args[0]);
    return exact.substr(0, exact.rfind("_value")) + "_rounded";
  }
  for (const Store& store : body_.stores) {
    if (store.value == id && store.kind == StoreKind::store) return operand_names_[store.operand] + "_value";
  }
  return std::string(to_string(expr.op)) + "_value";
}

bool BodyNames::deserves_name(ExprId id) const {
  const Expr& expr = body_.exprs[id];
  if (expr.op == ExprOp::constant || expr.op == ExprOp::layer) return false;
  if (uses_[id] > 1) return true;
  return expr.op == ExprOp::load &&
         (deps_[id].space == kRowSpace || (body_.stores.size() > 1 && is_overwritten(expr.operand)));
}

void BodyNames::forget(const std::vector<ExprId>& defined) {
  for (ExprId id : defined) {
    taken_.erase(names_[id]);
    names_[id].clear();
  }
}

// ---- addresses

Address BodyNames::address(int operand, const ir::Index& index, const ExpressionText& text) const {
  const ir::View view = resolved_view(graph_, use_of(operand).value);
  Affine flat;
  Address result;
  for (size_t d = 0; d < index.size(); ++d) {
    flat = flat + index[d].affine * view.strides[d];
    if (index[d].gather < 0) continue;
    const std::string at = fmt::format("static_cast<std::int64_t>({})", text.of(index[d].gather));
    result.gathered += (result.gathered.empty() ? "" : " + ") +
                       (view.strides[d] == 1 ? at : fmt::format("{} * {}", at, view.strides[d]));
  }
  result.columns.constant = flat.constant;
  for (const auto& term : flat.terms)
    (term.first < body_.row_variables ? result.rows : result.columns).terms.push_back(term);
  return result;
}

std::string BodyNames::rows_text(const Affine& rows) {
  int64_t step = 0, below = 1;
  bool flat = true;
  std::map<int, int64_t> coefficients(rows.terms.begin(), rows.terms.end());
  for (int v = body_.row_variables; v-- > 0;) {
    if (body_.variables[v].size == 1) continue;
    const int64_t coefficient = coefficients.contains(v) ? coefficients[v] : 0;
    if (below == 1) step = coefficient;
    flat = flat && coefficient == step * below;
    below *= body_.variables[v].size;
  }
  if (flat) return step == 0 ? "" : step == 1 ? "r" : fmt::format("r * {}", step);
  needs_row_variables_ = true;
  return affine_text(rows, variables_);
}

// ---- the body as a whole

std::string BodyNames::extents_comment() const {
  std::vector<std::string> spaces;
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) {
      const std::string symbols = symbols_of(body_.space_shape(loop.space));
      if (std::ranges::find(spaces, symbols) == spaces.end()) spaces.push_back(symbols);
    }
  }
  return fmt::format("rows {}{}", symbols_of(body_.row_shape()),
                     spaces.empty() ? "" : fmt::format(", columns {}", fmt::join(spaces, " and ")));
}

bool BodyNames::has_expensive_part(ExprId id) const {
  if (deps_[id].space == kRowSpace) return false;
  return is_expensive(body_.exprs[id].op) ||
         std::ranges::any_of(body_.exprs[id].args, [&](ExprId arg) { return has_expensive_part(arg); });
}

std::set<ExprId> BodyNames::needed(const Loop& loop, const std::function<bool(ExprId)>& stop) const {
  std::set<ExprId> result;
  std::function<void(ExprId)> visit = [&](ExprId id) {
    if (deps_[id].space == kRowSpace || stop(id) || !result.insert(id).second) return;
    for (ExprId arg : body_.exprs[id].args) visit(arg);
    for (const ir::IndexDim& dim : body_.exprs[id].index) {
      if (dim.gather >= 0) visit(dim.gather);
    }
  };
  for (ExprId reduction : loop.reductions) visit(body_.exprs[reduction].args[0]);
  for (int s : loop.stores) visit(body_.stores[s].value);
  return result;
}

// ---- column sums

int64_t BodyNames::sum_elements(const Store& store) const {
  return element_count(body_.space_shape(store.space));
}

int64_t BodyNames::sum_offset(const Store& wanted) const {
  int64_t offset = 0;
  for (int s : sums_) {
    if (&body_.stores[s] == &wanted) break;
    offset += sum_elements(body_.stores[s]);
  }
  return offset;
}

Affine BodyNames::sum_position(const Store& store) const {
  Affine flat{sum_offset(store), {}};
  int64_t stride = 1;
  if (store.space == kRowSpace) return flat;
  const std::vector<int>& space = body_.spaces[store.space];
  for (size_t v = space.size(); v-- > 0;) {
    flat = flat + Affine::of(space[v], stride);
    stride *= body_.variables[space[v]].size;
  }
  return flat;
}

std::string parenthesized(const std::string& text) {
  return text.find_first_of(" ") == std::string::npos ? text : "(" + text + ")";
}

}  // namespace hydrac::codegen
