// Writes a Body the way one writes the formula:
//
//   BodyBuilder k(node, {B, T});                    // one row a token
//   k.columns({C});
//   Term x = k.full(0), w = k.per_column(1);
//   Term rstd = rsqrt(k.mean(x * x) + eps);
//   k.store(0, x * rstd * w);
#pragma once
#include "ir/body.h"
#include "ir/graph.h"

namespace hydrac::ir {

class BodyBuilder;

// An expression of a body under construction.
struct Term {
  BodyBuilder* builder = nullptr;
  ExprId id = -1;
};

class BodyBuilder {
 public:
  // Operands are the node's inputs, then its outputs. `rows`: the dimensions of one row each.
  BodyBuilder(const Graph& graph, const Node& node, Shape rows);

  // The column space that the functions below mean from here on.
  int columns(const Shape& extents);

  Affine row(int i) const { return Affine::of(i); }
  Affine column(int i) const { return Affine::of(body_.spaces[space_][i]); }

  Term load(int input, std::vector<Affine> index);
  // input[before..., at, after...]. Behind zeros `at` may count on through their dimensions: [0, i, c] is row
  // i of all rows of [B,T,C].
  Term gather(int input, Term at, std::vector<Affine> before, std::vector<Affine> after);
  Term full(int input);        // input[rows..., columns...]
  Term per_row(int input);     // input[rows...]
  Term per_column(int input);  // input[columns...]
  Term scalar(int input);      // input[]
  Term constant(double number, ExprType type = ExprType::f32, const std::string& name = "");
  // A number of the spec, under a name of the kernel's.
  Term constant(const Number& number, ExprType type, const std::string& name);
  // Names the term in generated code: "normalized". The first name of an expression counts.
  Term named(const std::string& name, Term term);
  Term position(Affine affine);
  Term flat_position(const Shape& shape, const std::vector<Affine>& index);  // row-major element number
  Term layer();

  Term sum(Term x) { return reduce(ExprOp::sum, x); }
  Term mean(Term x, const std::string& sum_name = "sum");
  Term maximum(Term x) { return reduce(ExprOp::maximum, x); }
  Term logsumexp(Term x) { return reduce(ExprOp::logsumexp, x); }

  void store(int output, Term value);                                    // output[rows..., columns...]
  void store_row(int output, Term value);                                // output[rows...]
  void store_row_at(int output, std::vector<Affine> index, Term value);  // a row value, at an index of rows
  void store_at(int output, std::vector<Affine> index, Term value);
  void column_sum(int output, Term value, bool accumulate);  // output[columns...] (+)= sum over rows
  void raise(int output, Term value);  // output[] = the largest of it and of all values, none negative
  // output (+)= sum over rows of a row value; one number, whatever its dimensions.
  void row_sum(int output, Term row_value, bool accumulate);

  // x as a bf16 number, by chance one of the two around it; `noise`: u32 below 2^16.
  Term rounded_stochastically(Term x, Term noise);
  Term apply(ExprOp op, std::initializer_list<Term> args, ExprType type);
  ExprType type_of(Term term) const { return body_.exprs[term.id].type; }
  Body take() { return std::move(body_); }

 private:
  std::vector<Affine> identity(bool rows, bool columns) const;
  Term reduce(ExprOp op, Term x);

  Body body_;
  int inputs_ = 0;
  int space_ = kRowSpace;
};

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);  // of integers: towards 0
Term operator%(Term a, Term b);  // of integers
Term operator-(Term a);
Term operator+(Term a, double b);
Term operator-(Term a, double b);
Term operator*(Term a, double b);
Term operator/(Term a, double b);
Term operator%(Term a, double b);
Term operator-(double a, Term b);
Term operator*(double a, Term b);
Term operator/(double a, Term b);
Term operator<(Term a, Term b);
Term operator<=(Term a, Term b);
Term operator==(Term a, Term b);
Term operator!(Term a);
Term operator&&(Term a, Term b);
Term operator||(Term a, Term b);
Term abs(Term a);
Term exp(Term a);
Term expm1(Term a);
Term log(Term a);
Term log1p(Term a);
Term tanh(Term a);
Term erf(Term a);
Term sqrt(Term a);
Term rsqrt(Term a);
Term sigmoid(Term a);
Term sin(Term a);
Term cos(Term a);
Term floor(Term a);
Term is_nan(Term a);
Term is_finite(Term a);  // neither NaN nor infinite
Term max(Term a, Term b);
Term min(Term a, Term b);
Term fma(Term a, Term b, Term c);  // a * b + c, rounded once
Term fma(Term a, double b, double c);
Term select(Term condition, Term if_true, Term if_false);
Term convert(Term a, ExprType type);
Term random_key(Term seed, Term step, Term site);
Term random_16_bits(Term key, Term element);
// 8-bit codes of numbers from 0, or signed from -1, to 1: hydrac/dynamic_code.h.
Term dynamic_code(Term number, bool is_signed);
Term dynamic_value(Term code, bool is_signed);
// The numbers of a byte's two 4-bit codes: hydrac/nf4.h.
Term nf4_upper(Term byte);
Term nf4_lower(Term byte);

}  // namespace hydrac::ir
