#include "ir/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ir/evaluate_scalar.h"

namespace hydrac::ir {

namespace {

class Evaluation {
 public:
  Evaluation(const Body& body, const std::vector<std::vector<double>*>& operands, int layer)
      : body_(body),
        operands_(operands),
        layer_(layer),
        deps_(dependences(body)),
        variables_(body.variables.size(), 0),
        values_(body.exprs.size(), 0),
        points_(body.exprs.size(), -1) {
    for (const Store& store : body.stores) {
      std::vector<double>& output = results_[store.operand];
      if (output.empty()) output = *operands[store.operand];
    }
  }

  void run() {
    for (const Store& store : body_.stores) {
      if (store.kind == StoreKind::column_sum) clear(store);
    }
    for_each_point(row_variables(), [&] {
      row_ = point_ = ++clock_;
      for (const Store& store : body_.stores) put(store);
    });
    for (auto& [operand, data] : results_) *operands_[operand] = std::move(data);
  }

 private:
  std::vector<int> row_variables() const {
    std::vector<int> rows;
    for (int v = 0; v < body_.row_variables; ++v) rows.push_back(v);
    return rows;
  }

  std::vector<int> space_variables(int space) const {
    return space == kRowSpace ? std::vector<int>{} : body_.spaces[space];
  }

  // Calls fn with the variables at every combination of their values, the last one fastest.
  template <typename Fn>
  void for_each_point(const std::vector<int>& variables, const Fn& fn, size_t depth = 0) {
    if (depth == variables.size()) return fn();
    const int64_t before = variables_[variables[depth]];
    for (int64_t i = 0; i < body_.variables[variables[depth]].size; ++i) {
      variables_[variables[depth]] = i;
      for_each_point(variables, fn, depth + 1);
    }
    variables_[variables[depth]] = before;
  }

  // The same for the columns of a row; column values computed for other columns are forgotten.
  template <typename Fn>
  void for_each_column(int space, const Fn& fn) {
    const int64_t before = point_;
    for_each_point(space_variables(space), [&] {
      point_ = ++clock_;
      fn();
    });
    point_ = before;
  }

  void clear(const Store& store) {
    for_each_column(store.space, [&] { results_[store.operand][element(store.operand, store.index)] = 0; });
  }

  void put(const Store& store) {
    for_each_column(store.space, [&] {
      double& target = results_[store.operand][element(store.operand, store.index)];
      const double x = value(store.value);
      target = store.kind == StoreKind::store   ? x
               : store.kind == StoreKind::raise ? std::max(target, x)
                                                : target + x;
    });
  }

  int64_t at(const Affine& affine) const {
    int64_t result = affine.constant;
    for (const auto& [variable, coefficient] : affine.terms) result += coefficient * variables_[variable];
    return result;
  }

  size_t element(int operand, const Index& index) {
    const Shape& shape = body_.operands[operand].shape;
    if (index.size() != shape.size())
      throw std::logic_error(fmt::format("operand {}: an index of {} dimensions", operand, index.size()));
    int64_t flat = 0, before = 1;  // of dimensions that a gather counts through
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t i = at(index[d].affine);
      const int64_t size = index[d].gather >= 0 ? before * shape[d].size : shape[d].size;
      if (index[d].gather >= 0) i += static_cast<int64_t>(value(index[d].gather));
      if (i < 0 || i >= size)
        throw std::logic_error(fmt::format("operand {} dimension {}: index {} of {}", operand, d, i, size));
      flat = flat * shape[d].size + i;
      before = index[d] == IndexDim{} ? before * shape[d].size : 1;
    }
    return static_cast<size_t>(flat);
  }

  // Row values are remembered for the row, column values for the column.
  double value(ExprId id) {
    const int64_t now = deps_[id].space == kRowSpace ? row_ : point_;
    if (points_[id] != now) {
      const double computed = compute(body_.exprs[id]);
      values_[id] = computed;
      points_[id] = now;
    }
    return values_[id];
  }

  double reduce(const Expr& expr) {
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    for_each_column(expr.space, [&] {
      const double x = value(expr.args[0]);
      sum += x;
      largest = std::max(largest, x);
    });
    if (expr.op == ExprOp::sum) return sum;
    if (expr.op == ExprOp::maximum) return largest;
    double scaled = 0;
    for_each_column(expr.space, [&] { scaled += std::exp(value(expr.args[0]) - largest); });
    return largest + std::log(scaled);
  }

  double compute(const Expr& expr) {
    const auto arg = [&](size_t i) { return value(expr.args[i]); };
    switch (expr.op) {
      case ExprOp::load:
        return (*operands_[expr.operand])[element(expr.operand, expr.index)];
      case ExprOp::position:
        return static_cast<double>(at(expr.index[0].affine));
      case ExprOp::layer:
        return layer_;
      // An element that is not asked for may be outside of its tensor.
      case ExprOp::logical_and:
        return arg(0) != 0 && arg(1) != 0;
      case ExprOp::logical_or:
        return arg(0) != 0 || arg(1) != 0;
      case ExprOp::select:
        return arg(0) != 0 ? arg(1) : arg(2);
      case ExprOp::sum:
      case ExprOp::maximum:
      case ExprOp::logsumexp:
        return reduce(expr);
      default: {
        std::array<double, 3> args{};
        for (size_t i = 0; i < expr.args.size(); ++i) args[i] = arg(i);
        return evaluate(expr, args);
      }
    }
  }

  const Body& body_;
  const std::vector<std::vector<double>*>& operands_;
  const int layer_;
  const std::vector<Dependence> deps_;
  std::vector<int64_t> variables_;  // their values now
  std::vector<double> values_;      // of expressions, valid at the row or column `points_` says
  std::vector<int64_t> points_;
  int64_t clock_ = 0, row_ = 0, point_ = 0;
  std::map<int, std::vector<double>> results_;  // by operand
};

}  // namespace

void evaluate(const Body& body, const std::vector<std::vector<double>*>& operands, int layer) {
  Evaluation(body, operands, layer).run();
}

}  // namespace hydrac::ir
