#include "ir/body_builder.h"

namespace hydrac::ir {

BodyBuilder::BodyBuilder(const Graph& graph, const Node& node, Shape rows) {
  body_.variables = std::move(rows);
  body_.row_variables = static_cast<int>(body_.variables.size());
  inputs_ = static_cast<int>(node.inputs.size());
  for (int i = 0; i < inputs_; ++i) {
    Operand operand{i, -1, DType::f32, {}};
    if (node.inputs[i].value != kNoValue) {
      operand.dtype = graph.value(node.inputs[i]).dtype;
      operand.shape = graph.value(node.inputs[i]).shape;
    }
    body_.operands.push_back(operand);
  }
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const Value& value = graph.value(node.outputs[o]);
    body_.operands.push_back({-1, static_cast<int>(o), value.dtype, value.shape});
  }
}

int BodyBuilder::columns(const Shape& extents) {
  space_ = body_.space_of(extents);
  return space_;
}

std::vector<Affine> BodyBuilder::identity(bool rows, bool columns) const {
  std::vector<Affine> index;
  if (rows) {
    for (int r = 0; r < body_.row_variables; ++r) index.push_back(Affine::of(r));
  }
  if (columns) {
    for (int variable : body_.spaces[space_]) index.push_back(Affine::of(variable));
  }
  return index;
}

namespace {

Index to_index(const std::vector<Affine>& affines) {
  Index index;
  for (const Affine& affine : affines) index.push_back({affine, -1});
  return index;
}

ExprType register_type(DType dtype) {
  if (dtype == DType::i32) return ExprType::i32;
  if (dtype == DType::u32 || dtype == DType::u8) return ExprType::u32;
  return ExprType::f32;
}

}  // namespace

Term BodyBuilder::load(int input, std::vector<Affine> index) {
  Expr expr{ExprOp::load, register_type(body_.operands[input].dtype)};
  expr.operand = input;
  expr.index = to_index(index);
  return {this, body_.intern(std::move(expr))};
}

Term BodyBuilder::gather(int input, Term at, std::vector<Affine> before, std::vector<Affine> after) {
  Expr expr{ExprOp::load, register_type(body_.operands[input].dtype)};
  expr.operand = input;
  expr.index = to_index(before);
  expr.index.push_back({{}, at.id});
  for (const Affine& affine : after) expr.index.push_back({affine, -1});
  return {this, body_.intern(std::move(expr))};
}

Term BodyBuilder::full(int input) {
  return load(input, identity(true, true));
}
Term BodyBuilder::per_row(int input) {
  return load(input, identity(true, false));
}
Term BodyBuilder::per_column(int input) {
  return load(input, identity(false, true));
}
Term BodyBuilder::scalar(int input) {
  return load(input, {});
}

Term BodyBuilder::constant(double number, ExprType type, const std::string& name) {
  Expr expr{ExprOp::constant, type};
  expr.number = number;
  const Term term{this, body_.intern(std::move(expr))};
  body_.name(term.id, name);
  return term;
}

Term BodyBuilder::constant(const Number& number, ExprType type, const std::string& name) {
  Expr expr{ExprOp::constant, type};
  expr.number = number.value;
  if (!number.formula.of.empty()) expr.formula = number.formula;
  const Term term{this, body_.intern(std::move(expr))};
  body_.name(term.id, name);
  return term;
}

Term BodyBuilder::named(const std::string& name, Term term) {
  body_.name(term.id, name);
  return term;
}

Term BodyBuilder::position(Affine affine) {
  Expr expr{ExprOp::position, ExprType::i64};
  expr.index = {{std::move(affine), -1}};
  return {this, body_.intern(std::move(expr))};
}

Term BodyBuilder::flat_position(const Shape& shape, const std::vector<Affine>& index) {
  const std::vector<int64_t> strides = contiguous_strides(shape);
  Affine flat;
  for (size_t i = 0; i < index.size(); ++i) flat = flat + index[i] * strides[i];
  return position(flat);
}

Term BodyBuilder::layer() {
  return {this, body_.intern({ExprOp::layer, ExprType::i32})};
}

Term BodyBuilder::reduce(ExprOp op, Term x) {
  Expr expr{op, ExprType::f32, {x.id}};
  expr.space = space_;
  return {this, body_.intern(std::move(expr))};
}

Term BodyBuilder::mean(Term x, const std::string& sum_name) {
  return named(sum_name, sum(x)) * (1.0 / static_cast<double>(element_count(body_.space_shape(space_))));
}

void BodyBuilder::store_at(int output, std::vector<Affine> index, Term value) {
  body_.stores.push_back({inputs_ + output, to_index(index), value.id, space_, StoreKind::store});
}

void BodyBuilder::store(int output, Term value) {
  store_at(output, identity(true, true), value);
}

void BodyBuilder::store_row(int output, Term value) {
  store_row_at(output, identity(true, false), value);
}

void BodyBuilder::store_row_at(int output, std::vector<Affine> index, Term value) {
  body_.stores.push_back({inputs_ + output, to_index(index), value.id, kRowSpace, StoreKind::store});
}

void BodyBuilder::column_sum(int output, Term value, bool accumulate) {
  body_.stores.push_back({inputs_ + output, to_index(identity(false, true)), value.id, space_,
                          accumulate ? StoreKind::add_column_sum : StoreKind::column_sum});
}

void BodyBuilder::row_sum(int output, Term row_value, bool accumulate) {
  const Index index(body_.operands[inputs_ + output].shape.size());
  body_.stores.push_back({inputs_ + output, index, row_value.id, kRowSpace,
                          accumulate ? StoreKind::add_column_sum : StoreKind::column_sum});
}

void BodyBuilder::raise(int output, Term value) {
  body_.stores.push_back({inputs_ + output, {}, value.id, space_, StoreKind::raise});
}

Term BodyBuilder::rounded_stochastically(Term x, Term noise) {
  Expr expr{ExprOp::round_stochastically, ExprType::f32, {x.id, noise.id}};
  expr.dtype = DType::bf16;
  return {this, body_.intern(std::move(expr))};
}

Term BodyBuilder::apply(ExprOp op, std::initializer_list<Term> args, ExprType type) {
  Expr expr{op, type};
  for (Term arg : args) expr.args.push_back(arg.id);
  return {this, body_.intern(std::move(expr))};
}

namespace {

Term unary(ExprOp op, Term a) {
  return a.builder->apply(op, {a}, a.builder->type_of(a));
}
Term binary(ExprOp op, Term a, Term b) {
  return a.builder->apply(op, {a, b}, a.builder->type_of(a));
}
Term compare(ExprOp op, Term a, Term b) {
  return a.builder->apply(op, {a, b}, ExprType::boolean);
}
Term constant_like(Term a, double number) {
  return a.builder->constant(number, a.builder->type_of(a));
}

}  // namespace

Term operator+(Term a, Term b) {
  return binary(ExprOp::add, a, b);
}
Term operator-(Term a, Term b) {
  return binary(ExprOp::sub, a, b);
}
Term operator*(Term a, Term b) {
  return binary(ExprOp::mul, a, b);
}
Term operator/(Term a, Term b) {
  return binary(ExprOp::div, a, b);
}
Term operator%(Term a, Term b) {
  return binary(ExprOp::remainder, a, b);
}
Term operator-(Term a) {
  return unary(ExprOp::neg, a);
}
Term operator+(Term a, double b) {
  return a + constant_like(a, b);
}
Term operator-(Term a, double b) {
  return a - constant_like(a, b);
}
Term operator*(Term a, double b) {
  return a * constant_like(a, b);
}
Term operator/(Term a, double b) {
  return a / constant_like(a, b);
}
Term operator%(Term a, double b) {
  return a % constant_like(a, b);
}
Term operator-(double a, Term b) {
  return constant_like(b, a) - b;
}
Term operator*(double a, Term b) {
  return constant_like(b, a) * b;
}
Term operator/(double a, Term b) {
  return constant_like(b, a) / b;
}
Term operator<(Term a, Term b) {
  return compare(ExprOp::less, a, b);
}
Term operator<=(Term a, Term b) {
  return compare(ExprOp::less_equal, a, b);
}
Term operator==(Term a, Term b) {
  return compare(ExprOp::equal, a, b);
}
Term operator!(Term a) {
  return unary(ExprOp::logical_not, a);
}
Term operator&&(Term a, Term b) {
  return compare(ExprOp::logical_and, a, b);
}
Term operator||(Term a, Term b) {
  return compare(ExprOp::logical_or, a, b);
}
Term abs(Term a) {
  return unary(ExprOp::abs, a);
}
Term exp(Term a) {
  return unary(ExprOp::exp, a);
}
Term expm1(Term a) {
  return unary(ExprOp::expm1, a);
}
Term log(Term a) {
  return unary(ExprOp::log, a);
}
Term log1p(Term a) {
  return unary(ExprOp::log1p, a);
}
Term tanh(Term a) {
  return unary(ExprOp::tanh, a);
}
Term erf(Term a) {
  return unary(ExprOp::erf, a);
}
Term sqrt(Term a) {
  return unary(ExprOp::sqrt, a);
}
Term rsqrt(Term a) {
  return unary(ExprOp::rsqrt, a);
}
Term sigmoid(Term a) {
  return unary(ExprOp::sigmoid, a);
}
Term sin(Term a) {
  return unary(ExprOp::sin, a);
}
Term cos(Term a) {
  return unary(ExprOp::cos, a);
}
Term floor(Term a) {
  return unary(ExprOp::floor, a);
}
Term is_nan(Term a) {
  return a.builder->apply(ExprOp::is_nan, {a}, ExprType::boolean);
}
Term is_finite(Term a) {
  return a.builder->apply(ExprOp::is_finite, {a}, ExprType::boolean);
}
Term max(Term a, Term b) {
  return binary(ExprOp::max, a, b);
}
Term min(Term a, Term b) {
  return binary(ExprOp::min, a, b);
}

Term fma(Term a, Term b, Term c) {
  return a.builder->apply(ExprOp::fma, {a, b, c}, a.builder->type_of(a));
}
Term fma(Term a, double b, double c) {
  return fma(a, constant_like(a, b), constant_like(a, c));
}

Term select(Term condition, Term if_true, Term if_false) {
  return condition.builder->apply(ExprOp::select, {condition, if_true, if_false},
                                  if_true.builder->type_of(if_true));
}

Term convert(Term a, ExprType type) {
  return a.builder->apply(ExprOp::convert, {a}, type);
}

Term random_key(Term seed, Term step, Term site) {
  return seed.builder->apply(ExprOp::random_key, {seed, step, site}, ExprType::u32);
}

Term random_16_bits(Term key, Term element) {
  return key.builder->apply(ExprOp::random_16_bits, {key, element}, ExprType::u32);
}

Term dynamic_code(Term number, bool is_signed) {
  return number.builder->apply(is_signed ? ExprOp::signed_dynamic_code : ExprOp::dynamic_code, {number},
                               ExprType::u32);
}

Term dynamic_value(Term code, bool is_signed) {
  return code.builder->apply(is_signed ? ExprOp::signed_dynamic_value : ExprOp::dynamic_value, {code},
                             ExprType::f32);
}

Term nf4_upper(Term byte) {
  return byte.builder->apply(ExprOp::nf4_upper, {byte}, ExprType::f32);
}

Term nf4_lower(Term byte) {
  return byte.builder->apply(ExprOp::nf4_lower, {byte}, ExprType::f32);
}

}  // namespace hydrac::ir
