#include "codegen/body_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "codegen/operand_names.h"

namespace hydrac::codegen {

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
    case ExprOp::random_16_bits:
    case ExprOp::dynamic_value:
    case ExprOp::signed_dynamic_value:
    case ExprOp::nf4_upper:
    case ExprOp::nf4_lower:
      return true;
    default:
      return false;
  }
}

std::vector<ExprId> numbers_of(const std::vector<bool>& live) {
  std::vector<ExprId> numbers;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i]) numbers.push_back(static_cast<ExprId>(i));
  }
  return numbers;
}

}  // namespace

BodyNames::BodyNames(const ir::Graph& graph, const ir::Node& node, const std::set<std::string>& reserved)
    : graph_(graph),
      node_(node),
      dimensions_(graph),
      numbers_(graph),
      body_(*node.body),
      deps_(dependences(body_)),
      live_(numbers_of(live_expressions(body_))),
      stages_(stages_of(body_, deps_, live_expressions(body_))),
      operand_names_(operand_names(graph, node)),
      names_(body_.exprs.size()) {
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    if (!operand_names_[o].empty() && is_used(static_cast<int>(o))) taken_.insert(operand_names_[o]);
  }
  taken_.insert(reserved.begin(), reserved.end());
  name_variables();
  name_constants();
  count_uses();
  for (size_t s = 0; s < body_.stores.size(); ++s) {
    if (!is_sum(body_.stores[s].kind)) continue;
    sums_.push_back(static_cast<int>(s));
    sum_width_ += sum_elements(body_.stores[s]);
  }
}

bool BodyNames::is_loaded(int operand) const {
  return std::ranges::any_of(live_, [&](ExprId id) {
    return body_.exprs[id].op == ExprOp::load && body_.exprs[id].operand == operand;
  });
}

bool BodyNames::is_used(int operand) const {
  return is_loaded(operand) ||
         std::ranges::any_of(body_.stores, [&](const Store& s) { return s.operand == operand; });
}

bool BodyNames::is_only_summed(int operand) const {
  return is_used(operand) && !is_loaded(operand) &&
         std::ranges::all_of(body_.stores, [&](const Store& store) {
           return store.operand != operand || is_sum(store.kind);
         });
}

ir::Use BodyNames::use_of(int operand) const {
  const ir::Operand& o = body_.operands[operand];
  return o.output >= 0 ? node_.outputs[o.output] : node_.inputs[o.input];
}

bool BodyNames::is_matmul(int operand) const {
  const int input = body_.operands[operand].input;
  return node_.matmul.value != ir::kNoValue && input >= 0 && node_.inputs[input] == node_.matmul;
}

bool BodyNames::takes_layer() const {
  return std::ranges::any_of(live_, [&](ExprId id) { return body_.exprs[id].op == ExprOp::layer; });
}

std::vector<const Loop*> BodyNames::loops() const {
  std::vector<const Loop*> all;
  for (const Stage& stage : stages_) {
    for (const Loop& loop : stage.loops) all.push_back(&loop);
  }
  return all;
}

std::vector<ExprId> BodyNames::uniform_values() const {
  std::vector<ExprId> values;
  std::ranges::copy_if(live_, std::back_inserter(values), [&](ExprId id) {
    return deps_[id].uniform && deps_[id].space == kRowSpace && deserves_name(id);
  });
  return values;
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
    if (row && body_.variables[v].size == 1) wanted = "b";  // one sequence's rows read like a batch's
    if (wanted == "k") wanted = "kv";                       // key and value heads; k counts chunks
    variables_.push_back(named(unique(wanted)));
  }
}

void BodyNames::name_constants() {
  for (ExprId id : live_) {
    if (body_.exprs[id].op == ExprOp::constant && !body_.name_of(id).empty())
      constant_names_[id] = unique(body_.name_of(id));
  }
}

void BodyNames::count_uses() {
  uses_.assign(body_.exprs.size(), 0);
  auto count_index = [&](const ir::Index& index) {
    for (const ir::IndexDim& dim : index) {
      if (dim.gather >= 0) uses_[dim.gather] += 1;
    }
  };
  for (ExprId id : live_) {
    // The terms of a sum are computed in its loop, like values that are used once.
    const bool sums = body_.exprs[id].op == ExprOp::sum;
    for (ExprId arg : body_.exprs[id].args)
      uses_[arg] += !sums && deps_[arg].space != deps_[id].space ? 2 : 1;
    count_index(body_.exprs[id].index);
  }
  for (const Store& store : body_.stores) {
    uses_[store.value] += deps_[store.value].space != store.space ? 2 : 1;
    count_index(store.index);
  }
}

BodyNames::Wanted BodyNames::wanted(ExprId id) const {
  const Expr& expr = body_.exprs[id];
  if (std::string name = body_.name_of(id); !name.empty()) return {name};
  switch (expr.op) {
    case ExprOp::load:
      return {operand_names_[expr.operand], true};
    case ExprOp::sum:
      return {"sum"};
    case ExprOp::maximum:
      return {"largest"};
    case ExprOp::logsumexp:
      return {"lse"};
    case ExprOp::random_key:
      return {"key"};
    case ExprOp::random_16_bits:
      return {"bits"};
    case ExprOp::round_stochastically:
      return {wanted_name(expr.args[0]) + "_rounded"};
    case ExprOp::round_to:
      return {wanted(expr.args[0]).name + "_rounded"};
    default:
      break;
  }
  for (const Store& store : body_.stores) {
    if (store.value == id && store.kind == StoreKind::store) return {operand_names_[store.operand], true};
  }
  return {std::string(to_string(expr.op)), true};
}

std::string BodyNames::wanted_name(ExprId id) const {
  const Wanted name = wanted(id);
  return name.is_value ? name.name + "_value" : name.name;
}

namespace {

// Reads as well where it is used as under a name.
bool is_written_out(const Expr& expr) {
  return expr.op == ExprOp::position || (expr.op == ExprOp::convert && expr.type == ir::ExprType::i64);
}

}  // namespace

bool BodyNames::deserves_name(ExprId id) const {
  const Expr& expr = body_.exprs[id];
  if (expr.op == ExprOp::constant || expr.op == ExprOp::layer || is_written_out(expr)) return false;
  if (uses_[id] > 1 || (expr.op != ExprOp::load && !body_.name_of(id).empty())) return true;
  return expr.op == ExprOp::load && (deps_[id].space == kRowSpace || reads_after_store(id));
}

// True if a load that is used once, written where it is used, would come after a store to its memory. Values
// with a variable, and inputs of reductions, are computed before a pass stores anything.
bool BodyNames::reads_after_store(ExprId load) const {
  ExprId at = load;
  for (bool climbs = true; climbs;) {
    climbs = false;
    for (ExprId user : live_) {
      const Expr& expr = body_.exprs[user];
      const bool gathers = std::ranges::any_of(expr.index, [&](const auto& dim) { return dim.gather == at; });
      if (!gathers && std::ranges::count(expr.args, at) == 0) continue;
      if (is_reduction(expr.op) || deserves_name(user)) return false;
      at = user;
      climbs = true;
      break;
    }
  }
  const ir::ValueId memory = storage_of(graph_, use_of(body_.exprs[load].operand).value);
  for (const Store& store : body_.stores) {
    if (store.value == at) return false;
    if (storage_of(graph_, use_of(store.operand).value) == memory) return true;
  }
  return true;
}

void BodyNames::forget(const std::vector<ExprId>& defined) {
  for (ExprId id : defined) {
    taken_.erase(names_[id].text);
    names_[id] = {};
  }
}

Code BodyNames::constant_code(ExprId constant, ExprId beside) const {
  const Expr& expr = body_.exprs[constant];
  if (const auto name = constant_names_.find(constant); name != constant_names_.end()) return name->second;
  if (beside < 0 || body_.exprs[beside].op != ExprOp::sum || expr.type != ir::ExprType::f32) return {};
  const Size width = width_of(body_.exprs[beside].space);
  const auto columns = static_cast<float>(width.value);
  const bool is_inverse = static_cast<float>(expr.number) == 1.0f / columns && width.value < (1 << 24);
  if (!is_inverse || width.is_literal()) return {};
  return code(Precedence::product, "1.0f / {}", parenthesized(width.code));
}

Block BodyNames::named_constants(const char* storage) const {
  Block constants;
  for (const auto& [id, name] : constant_names_) {
    const Expr& expr = body_.exprs[id];
    numbers_.define(constants, fmt::format("{}constexpr {} {}", storage, c_type(expr.type), name),
                    expr.formula, constant_text(expr));
  }
  return constants;
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

}  // namespace hydrac::codegen
