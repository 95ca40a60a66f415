#include "specialize/lift/lift_math.h"

#include <algorithm>
#include <numbers>

#include "specialize/parse.h"

namespace hydrac::specialize {

namespace {

using functions::Expressions;
using functions::Op;

using Args = const std::vector<int>&;

template <Op op>
std::optional<int> unary(Expressions& e, Args a) {
  return e.apply(op, a[0]);
}
template <Op op>
std::optional<int> binary(Expressions& e, Args a) {
  return e.apply(op, a[0], a[1]);
}
std::optional<int> exp2(Expressions& e, Args a) {
  return e.apply(Op::exp, e.apply(Op::mul, e.constant(std::numbers::ln2), a[0]));
}
std::optional<int> log2(Expressions& e, Args a) {
  return e.apply(Op::mul, e.constant(std::numbers::log2e), e.apply(Op::log, a[0]));
}
std::optional<int> log10(Expressions& e, Args a) {
  return e.apply(Op::mul, e.constant(std::numbers::log10e), e.apply(Op::log, a[0]));
}
std::optional<int> tan(Expressions& e, Args a) {
  return e.apply(Op::div, e.apply(Op::sin, a[0]), e.apply(Op::cos, a[0]));
}
std::optional<int> ceil(Expressions& e, Args a) {
  return e.apply(Op::neg, e.apply(Op::floor, e.apply(Op::neg, a[0])));
}
// b^x is exp(x log b) for a constant b > 0.
std::optional<int> pow(Expressions& e, Args a) {
  if (e.is_constant(a[1])) return e.power(a[0], e.node(a[1]).number);
  if (!e.is_constant(a[0]) || e.node(a[0]).number <= 0) return std::nullopt;
  return e.apply(Op::exp, e.apply(Op::mul, e.apply(Op::log, a[0]), a[1]));
}

std::optional<int> clamp(Expressions& e, Args a) {
  return e.select(e.apply(Op::less, a[0], a[1]), a[1], e.select(e.apply(Op::less, a[2], a[0]), a[2], a[0]));
}

struct Row {
  MathFunction what;
  std::optional<int> (*lift)(Expressions&, Args);
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{"abs", 1}, unary<Op::abs>},
      {{"ceil", 1, true}, ceil},
      {{"clamp", 3}, clamp},
      {{"cos", 1}, unary<Op::cos>},
      {{"erf", 1}, unary<Op::erf>},
      {{"exp", 1}, unary<Op::exp>},
      {{"exp2", 1}, exp2},
      {{"expm1", 1}, unary<Op::expm1>},
      {{"fabs", 1}, unary<Op::abs>},
      {{"floor", 1, true}, unary<Op::floor>},
      {{"fmax", 2}, binary<Op::max>},
      {{"fmin", 2}, binary<Op::min>},
      {{"log", 1}, unary<Op::log>},
      {{"log10", 1}, log10},
      {{"log1p", 1}, unary<Op::log1p>},
      {{"log2", 1}, log2},
      {{"max", 2}, binary<Op::max>},
      {{"min", 2}, binary<Op::min>},
      {{"pow", 2}, pow},
      {{"sin", 1}, unary<Op::sin>},
      {{"sqrt", 1}, unary<Op::sqrt>},
      {{"tan", 1}, tan},
      {{"tanh", 1}, unary<Op::tanh>},
  };
  return rows;
}

const Row* find(const std::string& name) {
  for (const Row& row : table()) {
    if (name == row.what.name || name == row.what.name + "f") return &row;
  }
  return nullptr;
}

}  // namespace

std::optional<MathFunction> find_math(const std::string& name) {
  const Row* row = find(name);
  return row ? std::optional(row->what) : std::nullopt;
}

std::optional<int> lift_math(Expressions& e, const std::string& name, const std::vector<int>& args) {
  return find(name)->lift(e, args);
}

std::string math_names() {
  std::string names;
  for (const Row& row : table()) names += (names.empty() ? "" : ", ") + row.what.name;
  return names;
}

bool is_in_cmath(const std::string& name) {
  const auto& files = stand_in_headers();
  const auto cmath = std::ranges::find(files, "std/cmath", &SourceFile::path);
  return cmath != files.end() && cmath->text.find(" " + name + "(") != std::string::npos;
}

}  // namespace hydrac::specialize
