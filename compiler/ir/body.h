// The body of a fused kernel: pointwise work, row reductions and column sums over one set of rows, as one DAG
// of scalar expressions. Every generated kernel (norms, activations, rope, dropout, loss rows, optimizers) is
// one Body; code generation prints it as C++ or CUDA, the fusion pass merges two of them.
//
// A body runs once for every row, a point of the row variables. A column space is a list of further variables
// that a row loops over (a body may have several: a norm reduces over C, rope stores over D/2). An expression
// is then
//   - uniform:  it reads no variable at all,
//   - a row value: it depends on row variables and on reductions over column spaces,
//   - a column value: it depends on the variables of one column space.
// Memory is read at affine indices of the variables, or at an index that another expression computes (a
// gather).
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/number.h"
#include "ir/type.h"

namespace hydrac::ir {

using ExprId = int;
inline constexpr int kRowSpace = -1;  // not in any column space: evaluated once a row

// constant + sum of coefficient * variable. Terms are sorted by variable and have no zero coefficient.
struct Affine {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;

  static Affine of(int variable, int64_t coefficient = 1) { return {0, {{variable, coefficient}}}; }
  auto operator<=>(const Affine&) const = default;
};

Affine operator+(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, int64_t factor);

// One dimension of an index into a tensor: affine, plus an i32 expression where `gather` is not negative.
struct IndexDim {
  Affine affine;
  ExprId gather = -1;
  auto operator<=>(const IndexDim&) const = default;
};
using Index = std::vector<IndexDim>;

enum class ExprOp {
  constant,  // `number`
  load,      // operand[index]
  position,  // the value of index[0].affine, an i64
  layer,     // the iteration of the region the kernel is launched from, an i32
  neg,
  abs,
  exp,
  expm1,
  log,
  log1p,
  tanh,
  erf,
  sqrt,
  rsqrt,
  sigmoid,
  sin,
  cos,
  floor,
  is_nan,
  is_finite,
  add,
  sub,
  mul,
  div,        // of integers: towards 0
  remainder,  // of that division; of integers
  max,
  min,
  less,
  less_equal,
  equal,
  logical_not,
  logical_and,
  logical_or,
  fma,       // args[0] * args[1] + args[2], rounded once
  select,    // args: condition, value if true, value if false
  round_to,  // rounds an f32 to the storage type `dtype` and back
  convert,   // to `type`
  sum,
  maximum,
  logsumexp,             // reductions of args[0] over column space `space`; their value is a row value
  random_key,            // args: seed u32, step u32, site i32; see templates/include/hydrac/random.h
  random_16_bits,        // args: key u32, element index i64
  round_stochastically,  // an f32 to `dtype` (bf16) and back; args: the number, 16 random bits u32
  // Signed 8-bit code (templates/include/hydrac/dynamic_code.h): an f32 from 0 or -1 to 1 to a u32 below 256,
  // and back.
  dynamic_code,
  dynamic_value,
  signed_dynamic_code,
  signed_dynamic_value,
  // 4-bit code (templates/include/hydrac/nf4.h): the f32 of one of a byte's two codes, from a u32 below 256.
  nf4_upper,
  nf4_lower,
};

// The type of a value in registers. Storage types narrower than f32 widen on load and round on store.
enum class ExprType { f32, f64, i32, u32, i64, boolean };

struct Expr {
  ExprOp op = ExprOp::constant;
  ExprType type = ExprType::f32;
  std::vector<ExprId> args;
  double number = 0;
  Formula formula = {};      // constant: where the spec says it
  int operand = -1;          // load: position in Body::operands
  Index index;               // load, position
  int space = kRowSpace;     // reductions: what they reduce over
  DType dtype = DType::f32;  // round_to, round_stochastically
  auto operator<=>(const Expr&) const = default;
};

bool is_reduction(ExprOp op);
std::string_view to_string(ExprOp op);
std::string_view to_string(ExprType type);

// A tensor the body reads or writes. `input`/`output` are positions in the node's lists, or -1. A tensor that
// is updated in place (an optimizer's parameter) has both.
struct Operand {
  int input = -1;
  int output = -1;
  DType dtype = DType::f32;
  Shape shape;
  std::string name = {};  // its part in the formula: "x", "d_weight"; empty: the tensor's name in the model
};

enum class StoreKind {
  store,           // output[index] = value, at every row (and column of `space`)
  column_sum,      // output[index] = sum over all rows of value; index uses column variables only
  add_column_sum,  // the same, added to what output holds
  raise,           // output[index] = the largest of all values and what output holds, none of them negative;
                   // index uses no variable
};
inline bool is_sum(StoreKind kind) {
  return kind == StoreKind::column_sum || kind == StoreKind::add_column_sum;
}

struct Store {
  int operand = -1;
  Index index;
  ExprId value = -1;
  int space = kRowSpace;
  StoreKind kind = StoreKind::store;
};

struct Body {
  std::vector<Dim> variables;  // rows first
  int row_variables = 0;
  std::vector<std::vector<int>> spaces;  // column spaces: their variables, outermost first
  std::vector<Operand> operands;
  std::vector<Expr> exprs;  // arguments stand before their users; no two are equal
  std::vector<Store> stores;
  // Name in generated code of an expression that gets a variable, or of a constant; not part of equality.
  // Empty for a constant that several formulas use with different meanings.
  std::map<ExprId, std::string> names;

  // Adds an expression, or returns the equal one that is there already.
  ExprId intern(Expr expr);
  // The first name stays, but a constant keeps one only while all its users agree.
  void name(ExprId id, const std::string& name);
  std::string name_of(ExprId id) const;
  // The column space with these extents; added, with its variables, where there is none.
  int space_of(const Shape& extents);

  Shape row_shape() const { return {variables.begin(), variables.begin() + row_variables}; }
  Shape space_shape(int space) const;
  int64_t row_count() const { return element_count(row_shape()); }

 private:
  std::map<Expr, ExprId> interned_;
  friend class BodyMerge;
};

// The smallest and the largest value of an affine index, over all rows and columns.
std::pair<int64_t, int64_t> range_of(const Body& body, const Affine& affine);

// Dependences of each expression, computed once for code generation and checks.
struct Dependence {
  int space = kRowSpace;  // the column space whose variables it reads, or kRowSpace
  int level = 0;  // how many reductions, one after another, must be finished before it can be evaluated
  bool uniform = false;  // the same for every row
};
std::vector<Dependence> dependences(const Body& body);

// The expressions that the stores need, in evaluation order; the others are dead.
std::vector<bool> live_expressions(const Body& body);

std::string to_text(const Body& body);  // for dumps
std::string to_text(const Body& body, const Affine& affine);

}  // namespace hydrac::ir
