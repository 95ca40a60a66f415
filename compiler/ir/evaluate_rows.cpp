#include "ir/evaluate_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ir/evaluate_scalar.h"

namespace hydrac::ir {

namespace {

class RowEvaluation {
 public:
  RowEvaluation(const Body& body, const std::vector<std::vector<int64_t>>& strides, int layer,
                RowMemory& memory)
      : body_(body),
        strides_(strides),
        layer_(layer),
        memory_(memory),
        deps_(dependences(body)),
        live_(live_expressions(body)),
        variables_(body.variables.size(), 0),
        values_(body.exprs.size()) {}

  void run(int64_t rows) {
    for (const Store& store : body_.stores) {
      if (store.kind == StoreKind::column_sum)
        for_each_column(store.space, [&](int64_t) { target(store) = 0; });
    }
    for (int64_t row = 0; row < rows; ++row) {
      int64_t rest = row;
      for (int v = body_.row_variables - 1; v >= 0; --v) {
        variables_[v] = rest % body_.variables[v].size;
        rest /= body_.variables[v].size;
      }
      for (size_t id = 0; id < body_.exprs.size(); ++id) {
        if (live_[id]) compute(static_cast<ExprId>(id));
      }
      for (const Store& store : body_.stores) put(store);
    }
  }

 private:
  int64_t columns_of(int space) const {
    return space == kRowSpace ? 1 : element_count(body_.space_shape(space));
  }

  // Calls visit(i) at column i of the space, with the variables at its place; the last one goes fastest.
  template <typename Visit>
  void for_each_column(int space, const Visit& visit) {
    if (space == kRowSpace) return visit(0);
    const std::vector<int>& variables = body_.spaces[space];
    for (int v : variables) variables_[v] = 0;
    const int64_t columns = columns_of(space);
    for (int64_t i = 0; i < columns; ++i) {
      visit(i);
      for (size_t v = variables.size(); v-- > 0;) {
        if (++variables_[variables[v]] < body_.variables[variables[v]].size) break;
        variables_[variables[v]] = 0;
      }
    }
  }

  int64_t at(const Affine& affine) const {
    int64_t result = affine.constant;
    for (const auto& [variable, coefficient] : affine.terms) result += coefficient * variables_[variable];
    return result;
  }

  // The expression's value at column i; a row's expression has the same value at all columns.
  double value(ExprId id, int64_t i) const {
    return deps_[id].space == kRowSpace ? values_[id][0] : values_[id][i];
  }

  // A double: a gathered index may be any number.
  struct Place {
    double offset = 0;
    bool is_inside = true;
  };

  Place place_of(int operand, const Index& index, int64_t i) const {
    const Shape& shape = body_.operands[operand].shape;
    Place place;
    for (size_t d = 0; d < shape.size(); ++d) {
      double position = static_cast<double>(at(index[d].affine));
      if (index[d].gather >= 0) position += std::trunc(value(index[d].gather, i));
      place.is_inside &= position >= 0 && position < static_cast<double>(shape[d].size);
      place.offset += position * static_cast<double>(strides_[operand][d]);
    }
    return place;
  }

  void compute(ExprId id) {
    const Expr& expr = body_.exprs[id];
    std::vector<double>& to = values_[id];
    const int space = deps_[id].space;
    to.resize(columns_of(space));
    if (is_reduction(expr.op)) {
      to[0] = reduce(expr);
    } else if (expr.op == ExprOp::load) {
      for_each_column(space, [&](int64_t i) {
        const Place place = place_of(expr.operand, expr.index, i);
        to[i] = place.is_inside ? memory_.load(expr.operand, static_cast<int64_t>(place.offset))
                                : memory_.load_outside(expr.operand, place.offset);
      });
    } else if (expr.op == ExprOp::position) {
      for_each_column(space, [&](int64_t i) { to[i] = static_cast<double>(at(expr.index[0].affine)); });
    } else if (expr.op == ExprOp::layer) {
      to[0] = layer_;
    } else {
      std::array<double, 3> args{};
      for (size_t i = 0; i < to.size(); ++i) {
        for (size_t a = 0; a < expr.args.size(); ++a) args[a] = value(expr.args[a], static_cast<int64_t>(i));
        to[i] = evaluate(expr, args);
      }
    }
  }

  double reduce(const Expr& expr) const {
    const int64_t columns = columns_of(expr.space);
    double sum = 0, largest = -std::numeric_limits<double>::infinity(), scaled = 0;
    for (int64_t i = 0; i < columns; ++i) {
      sum += value(expr.args[0], i);
      largest = std::max(largest, value(expr.args[0], i));
    }
    if (expr.op == ExprOp::sum) return sum;
    if (expr.op == ExprOp::maximum) return largest;
    for (int64_t i = 0; i < columns; ++i) scaled += std::exp(value(expr.args[0], i) - largest);
    return largest + std::log(scaled);
  }

  double& target(const Store& store, int64_t i = 0) {
    const Place place = place_of(store.operand, store.index, i);
    if (!place.is_inside) throw std::logic_error("a store outside of its tensor");
    return memory_.result(store.operand, static_cast<int64_t>(place.offset));
  }

  void put(const Store& store) {
    for_each_column(store.space, [&](int64_t i) {
      double& to = target(store, i);
      const double x = value(store.value, i);
      to = store.kind == StoreKind::store ? x : store.kind == StoreKind::raise ? std::max(to, x) : to + x;
    });
  }

  const Body& body_;
  const std::vector<std::vector<int64_t>>& strides_;
  const int layer_;
  RowMemory& memory_;
  const std::vector<Dependence> deps_;
  const std::vector<bool> live_;
  std::vector<int64_t> variables_;           // their values now
  std::vector<std::vector<double>> values_;  // of expressions, at each column
};

}  // namespace

void evaluate_rows(const Body& body, const std::vector<std::vector<int64_t>>& strides, int64_t rows,
                   int layer, RowMemory& memory) {
  RowEvaluation(body, strides, layer, memory).run(rows);
}

int64_t row_cost(const Body& body) {
  const std::vector<Dependence> deps = dependences(body);
  const std::vector<bool> live = live_expressions(body);
  const auto columns = [&](int space) {
    return space == kRowSpace ? 1 : element_count(body.space_shape(space));
  };
  int64_t cost = 0;
  for (size_t id = 0; id < body.exprs.size(); ++id) {
    if (live[id]) cost += columns(is_reduction(body.exprs[id].op) ? body.exprs[id].space : deps[id].space);
  }
  for (const Store& store : body.stores) cost += columns(store.space);
  return cost;
}

}  // namespace hydrac::ir
