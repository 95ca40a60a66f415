// Expressions of a Body as C++ with as few parentheses as the order of evaluation allows.
#pragma once
#include <functional>
#include <string>

#include "codegen/dimensions.h"
#include "ir/body.h"

namespace hydrac::codegen {

std::string_view c_type(ir::ExprType type);
// How targets spell the same thing.
struct Dialect {
  std::string_view math;     // the namespace of C's functions
  std::string_view plain;    // the namespace of max, min and isfinite
  bool has_16_bits = false;  // the narrow floats of cuda/types.cuh
};
inline constexpr Dialect kCpuDialect{"std::", "std::", false};
inline constexpr Dialect kCudaDialect{"::", "", true};

// The type of an element in memory. Throws logic_error for a narrow float where the dialect has none.
std::string_view c_type(ir::DType dtype, const Dialect& dialect = kCpuDialect);

// Variables by position in Body::variables.
using VariableNames = std::vector<Code>;
// `number`: a coefficient or the constant; digits without.
Code affine_code(const ir::Affine& affine, const VariableNames& variables,
                 const std::function<Size(int64_t)>& number = literal);
Code constant_text(const ir::Expr& constant);

class ExpressionText {
 public:
  // `named`: the name of an expression that has a variable already; nothing to write the expression out.
  // `load`: text of a load. `constant`: text of a constant (with the expression of the other operand, or -1);
  // nothing for digits. `position`: text of an index.
  ExpressionText(const ir::Body& body, std::function<Code(ir::ExprId)> named,
                 std::function<Code(const ir::Expr&)> load,
                 std::function<Code(ir::ExprId, ir::ExprId)> constant,
                 std::function<Code(const ir::Affine&)> position, const VariableNames& variables,
                 const Dialect& dialect = kCpuDialect)
      : body_(body),
        named_(std::move(named)),
        load_(std::move(load)),
        constant_(std::move(constant)),
        position_(std::move(position)),
        variables_(variables),
        dialect_(dialect) {}

  Code of(ir::ExprId id) const;
  // The expression written out even if it has a name: for its definition.
  Code definition(ir::ExprId id) const;

 private:
  Code beside(ir::ExprId id, ir::ExprId other) const;
  Code comparable(ir::ExprId id) const;
  Code binary(const ir::Expr& expr, const char* op, Precedence precedence) const;
  bool is_rounded(ir::ExprId id, ir::DType dtype) const;
  Code call(const std::string& function, const ir::Expr& expr) const;

  const ir::Body& body_;
  std::function<Code(ir::ExprId)> named_;
  std::function<Code(const ir::Expr&)> load_;
  std::function<Code(ir::ExprId, ir::ExprId)> constant_;
  std::function<Code(const ir::Affine&)> position_;
  const VariableNames& variables_;
  const Dialect& dialect_;
};

}  // namespace hydrac::codegen
