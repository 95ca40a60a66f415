#include "ir/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "hydrac/dynamic_code.h"
#include "hydrac/nf4.h"
#include "hydrac/random.h"

namespace hydrac::ir {

namespace {

// The nearest number with `digits` binary digits, ties to even, between 2^least (the last digit of the
// smallest ones) and `largest`.
double round_binary(double x, int digits, int least, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

double round_to(double x, DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return round_binary(x, 8, -133, std::ldexp(255.0, 120));
    case DType::f16:
      return round_binary(x, 11, -24, 65504);
    case DType::f8e4m3:
      return std::clamp(round_binary(x, 4, -9, 1e300), -448.0, 448.0);
    case DType::f8e5m2:
      return std::clamp(round_binary(x, 3, -16, 1e300), -57344.0, 57344.0);
    default:
      return x;
  }
}

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
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t i = at(index[d].affine);
      if (index[d].gather >= 0) i += static_cast<int64_t>(value(index[d].gather));
      if (i < 0 || i >= shape[d].size) {
        throw std::logic_error(
            fmt::format("operand {} dimension {}: index {} of {}", operand, d, i, shape[d].size));
      }
      flat = flat * shape[d].size + i;
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

  double converted(const Expr& expr, double x) const {
    const bool whole = expr.type == ExprType::i32 || expr.type == ExprType::u32 || expr.type == ExprType::i64;
    return whole ? std::trunc(x) : x;
  }

  double compute(const Expr& expr) {
    const auto arg = [&](int i) { return value(expr.args[i]); };
    const auto word = [&](int i) { return static_cast<uint32_t>(static_cast<int64_t>(arg(i))); };
    switch (expr.op) {
      case ExprOp::constant:
        return expr.number;
      case ExprOp::load:
        return (*operands_[expr.operand])[element(expr.operand, expr.index)];
      case ExprOp::position:
        return static_cast<double>(at(expr.index[0].affine));
      case ExprOp::layer:
        return layer_;
      case ExprOp::neg:
        return -arg(0);
      case ExprOp::abs:
        return std::abs(arg(0));
      case ExprOp::exp:
        return std::exp(arg(0));
      case ExprOp::expm1:
        return std::expm1(arg(0));
      case ExprOp::log:
        return std::log(arg(0));
      case ExprOp::log1p:
        return std::log1p(arg(0));
      case ExprOp::tanh:
        return std::tanh(arg(0));
      case ExprOp::erf:
        return std::erf(arg(0));
      case ExprOp::sqrt:
        return std::sqrt(arg(0));
      case ExprOp::rsqrt:
        return 1 / std::sqrt(arg(0));
      case ExprOp::sigmoid:
        return 1 / (1 + std::exp(-arg(0)));
      case ExprOp::sin:
        return std::sin(arg(0));
      case ExprOp::cos:
        return std::cos(arg(0));
      case ExprOp::floor:
        return std::floor(arg(0));
      case ExprOp::is_nan:
        return std::isnan(arg(0));
      case ExprOp::add:
        return arg(0) + arg(1);
      case ExprOp::sub:
        return arg(0) - arg(1);
      case ExprOp::mul:
        return arg(0) * arg(1);
      case ExprOp::div:
        return arg(0) / arg(1);
      case ExprOp::max:
        return std::max(arg(0), arg(1));
      case ExprOp::min:
        return std::min(arg(0), arg(1));
      case ExprOp::less:
        return arg(0) < arg(1);
      case ExprOp::less_equal:
        return arg(0) <= arg(1);
      case ExprOp::equal:
        return arg(0) == arg(1);
      case ExprOp::logical_not:
        return arg(0) == 0;
      case ExprOp::logical_and:
        return arg(0) != 0 && arg(1) != 0;
      case ExprOp::logical_or:
        return arg(0) != 0 || arg(1) != 0;
      case ExprOp::fma:
        return std::fma(arg(0), arg(1), arg(2));
      case ExprOp::select:
        return arg(0) != 0 ? arg(1) : arg(2);
      case ExprOp::round_to:
        return round_to(arg(0), expr.dtype);
      case ExprOp::convert:
        return converted(expr, arg(0));
      case ExprOp::sum:
      case ExprOp::maximum:
      case ExprOp::logsumexp:
        return reduce(expr);
      case ExprOp::random_key:
        return hydrac::random_key(word(0), word(1), word(2));
      case ExprOp::random_16_bits:
        return hydrac::random_16_bits(word(0), static_cast<uint64_t>(arg(1)));
      case ExprOp::round_stochastically:
        return hydrac::round_stochastically(static_cast<float>(arg(0)), word(1));
      case ExprOp::dynamic_code:
        return hydrac::dynamic_code(static_cast<float>(arg(0)));
      case ExprOp::dynamic_value:
        return hydrac::dynamic_value(word(0));
      case ExprOp::signed_dynamic_code:
        return hydrac::signed_dynamic_code(static_cast<float>(arg(0)));
      case ExprOp::signed_dynamic_value:
        return hydrac::signed_dynamic_value(word(0));
      case ExprOp::nf4_upper:
        return hydrac::nf4_upper(word(0));
      case ExprOp::nf4_lower:
        return hydrac::nf4_lower(word(0));
    }
    throw std::logic_error("an expression of no kind");
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
