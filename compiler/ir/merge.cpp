#include "ir/merge.h"

#include <algorithm>
#include <sstream>

#include "ir/words.h"

namespace hydrac::ir {

// Builds the merged body: `first` copied as it is, then `second` translated expression by expression.
class BodyMerge {
 public:
  BodyMerge(const Node& first, const Node& second) : second_(second), node_(first), body_(*first.body) {}

  std::optional<Node> run() {
    if (body_.row_shape() != from().row_shape()) return std::nullopt;
    first_stores_ = body_.stores;
    map_variables();
    if (!map_expressions()) return std::nullopt;
    for (const Store& store : from().stores) {
      Store copy = store;
      copy.operand = operand_for(store.operand);
      copy.index = map_index(store.index);
      copy.value = expressions_[store.value];
      copy.space = store.space == kRowSpace ? kRowSpace : spaces_[store.space];
      body_.stores.push_back(copy);
    }
    join_formulas();
    node_.body = std::make_shared<const Body>(std::move(body_));
    return node_;
  }

 private:
  const Body& from() const { return *second_.body; }

  void map_variables() {
    variables_.resize(from().variables.size());
    for (int r = 0; r < from().row_variables; ++r) variables_[r] = r;
    for (size_t s = 0; s < from().spaces.size(); ++s) {
      const int space = body_.space_of(from().space_shape(static_cast<int>(s)));
      spaces_.push_back(space);
      for (size_t v = 0; v < from().spaces[s].size(); ++v)
        variables_[from().spaces[s][v]] = body_.spaces[space][v];
    }
  }

  Affine map_affine(const Affine& affine) const {
    Affine result{affine.constant, {}};
    for (const auto& [variable, coefficient] : affine.terms) {
      result = result + Affine::of(variables_[variable], coefficient);
    }
    return result;
  }

  Index map_index(const Index& index) const {
    Index result;
    for (const IndexDim& dim : index) {
      result.push_back({map_affine(dim.affine), dim.gather < 0 ? -1 : expressions_[dim.gather]});
    }
    return result;
  }

  Use use_of(const Node& node, const Operand& operand) const {
    return operand.input >= 0 ? node.inputs[operand.input] : node.outputs[operand.output];
  }

  // The operand of the merged body, or -1.
  int find_operand(Use use) const {
    for (size_t i = 0; i < body_.operands.size(); ++i) {
      const Operand& known = body_.operands[i];
      if ((known.input >= 0 || known.output >= 0) && use_of(node_, known) == use) return static_cast<int>(i);
    }
    return -1;
  }

  // The merged node's operand for operand `id` of the second body; a tensor both use is one operand.
  int operand_for(int id) {
    const Operand& operand = from().operands[id];
    const bool is_input = operand.input >= 0, is_output = operand.output >= 0;
    const Use use = use_of(second_, operand);
    if (const int known = find_operand(use); known >= 0) {
      if (is_input && body_.operands[known].input < 0) add_input(body_.operands[known], use);
      if (is_output && body_.operands[known].output < 0) add_output(body_.operands[known], use);
      return known;
    }
    Operand added{-1, -1, operand.dtype, operand.shape, unique_name(operand.name)};
    if (is_input) add_input(added, use);
    if (is_output) add_output(added, use);
    body_.operands.push_back(added);
    return static_cast<int>(body_.operands.size()) - 1;
  }

  std::string unique_name(const std::string& wanted) const {
    std::string name = wanted;
    auto is_taken = [&](const Operand& operand) {
      return operand.name == name && (operand.input >= 0 || operand.output >= 0);
    };
    for (int i = 2; !wanted.empty() && std::ranges::any_of(body_.operands, is_taken); ++i)
      name = wanted + "_" + std::to_string(i);
    return name;
  }

  // A line for each op; the second node's operands have the names that they have in the merged body.
  void join_formulas() {
    const auto more = second_.attributes.find("formula");
    if (more == second_.attributes.end()) return;
    std::map<std::string, std::string, std::less<>> renamed;
    for (const Operand& operand : from().operands) {
      if (operand.name.empty() || (operand.input < 0 && operand.output < 0)) continue;
      const int known = find_operand(use_of(second_, operand));
      if (known >= 0 && !body_.operands[known].name.empty())
        renamed[operand.name] = body_.operands[known].name;
    }
    auto& formula = node_.attributes["formula"];
    if (!std::holds_alternative<std::string>(formula)) formula = std::string();
    std::string& lines = std::get<std::string>(formula);
    std::istringstream added(with_words(std::get<std::string>(more->second), renamed));
    for (std::string line; std::getline(added, line);) {
      // Equal expressions over the same tensors are computed once.
      if (("\n" + lines + "\n").find("\n" + line + "\n") != std::string::npos) continue;
      lines += (lines.empty() ? "" : "\n") + line;
    }
  }

  void add_input(Operand& operand, Use use) {
    operand.input = static_cast<int>(node_.inputs.size());
    node_.inputs.push_back(use);
  }
  void add_output(Operand& operand, Use use) {
    operand.output = static_cast<int>(node_.outputs.size());
    node_.outputs.push_back(use);
  }

  bool map_expressions() {
    for (const Expr& expr : from().exprs) {
      const std::optional<ExprId> id =
          expr.op == ExprOp::load ? map_load(expr) : std::optional(map_other(expr));
      if (!id) return false;
      body_.name(*id, from().name_of(static_cast<ExprId>(expressions_.size())));
      expressions_.push_back(*id);
    }
    return true;
  }

  ExprId map_other(const Expr& expr) {
    Expr copy = expr;
    for (ExprId& arg : copy.args) arg = expressions_[arg];
    copy.index = map_index(expr.index);
    if (copy.space != kRowSpace) copy.space = spaces_[copy.space];
    return body_.intern(std::move(copy));
  }

  std::optional<ExprId> map_load(const Expr& expr) {
    const Operand& operand = from().operands[expr.operand];
    const Use use = second_.inputs[operand.input];
    const Index index = map_index(expr.index);
    bool stored_here = false;
    for (const Store& store : first_stores_) {
      const Operand& target = body_.operands[store.operand];
      if (target.output < 0 || node_.outputs[target.output] != use) continue;
      stored_here = true;
      if (store.kind != StoreKind::store)
        return std::nullopt;  // a sum or a maximum is known only after the last row
      if (const std::optional<ExprId> value = value_at(store, index)) return rounded(*value, target.dtype);
    }
    if (stored_here) return std::nullopt;
    Expr copy = expr;
    copy.operand = operand_for(expr.operand);
    copy.index = index;
    return body_.intern(std::move(copy));
  }

  ExprId rounded(ExprId value, DType dtype) {
    if (dtype == DType::f32 || body_.exprs[value].type != ExprType::f32) return value;
    Expr expr{ExprOp::round_to, ExprType::f32, {value}};
    expr.dtype = dtype;
    return body_.intern(std::move(expr));
  }

  // The value that `store` writes at `index`: its own with the store's column variables replaced, if the
  // store's index is the rows and then the bare columns, or if the two indices are the same.
  std::optional<ExprId> value_at(const Store& store, const Index& index) {
    if (store.index == index) return store.value;
    if (store.space == kRowSpace || store.index.size() != index.size()) return std::nullopt;
    std::map<int, Affine> replacement;
    for (size_t d = 0; d < index.size(); ++d) {
      if (store.index[d].gather >= 0 || index[d].gather >= 0) return std::nullopt;
      const Affine& at = store.index[d].affine;
      const bool column = at.constant == 0 && at.terms.size() == 1 && at.terms[0].second == 1 &&
                          at.terms[0].first >= body_.row_variables;
      if (column) {
        const auto [low, high] = range_of(body_, index[d].affine);
        if (low < 0 || high >= body_.variables[at.terms[0].first].size)
          return std::nullopt;  // not all of it is stored here
        replacement[at.terms[0].first] = index[d].affine;
      } else if (at != index[d].affine) {
        return std::nullopt;
      }
    }
    if (replacement.size() != body_.spaces[store.space].size()) return std::nullopt;
    return substitute(store.value, replacement);
  }

  ExprId substitute(ExprId id, const std::map<int, Affine>& replacement) {
    const Expr expr = body_.exprs[id];
    if (is_reduction(expr.op)) return id;  // a row value; the variables inside are the reduction's own
    Expr copy = expr;
    for (ExprId& arg : copy.args) arg = substitute(arg, replacement);
    for (IndexDim& dim : copy.index) {
      Affine affine{dim.affine.constant, {}};
      for (const auto& [variable, coefficient] : dim.affine.terms) {
        auto found = replacement.find(variable);
        affine = affine + (found == replacement.end() ? Affine::of(variable) : found->second) * coefficient;
      }
      dim.affine = affine;
      if (dim.gather >= 0) dim.gather = substitute(dim.gather, replacement);
    }
    if (copy == expr) return id;
    const ExprId replaced = body_.intern(std::move(copy));
    body_.name(replaced, body_.name_of(id));
    return replaced;
  }

  const Node& second_;
  Node node_;
  Body body_;
  std::vector<Store> first_stores_;
  std::vector<int> variables_;
  std::vector<int> spaces_;
  std::vector<ExprId> expressions_;
};

std::optional<Node> merged(const Node& first, const Node& second) {
  return BodyMerge(first, second).run();
}

}  // namespace hydrac::ir
