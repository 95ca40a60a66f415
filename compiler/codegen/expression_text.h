// Expressions of a Body as C++ text with as few parentheses as the order of evaluation allows.
#pragma once
#include <functional>
#include <string>

#include "ir/body.h"

namespace hydrac::codegen {

std::string_view c_type(ir::ExprType type);
// How targets spell the same thing.
struct Dialect {
  std::string_view math;     // the namespace of C's functions
  std::string_view min_max;  // the namespace of max and min
  bool has_16_bits = false;  // the narrow floats of cuda/types.cuh
};
inline constexpr Dialect kCpuDialect{"std::", "std::", false};
inline constexpr Dialect kCudaDialect{"::", "", true};

// The type of an element in memory. Throws logic_error for a narrow float where the dialect has none.
std::string_view c_type(ir::DType dtype, const Dialect& dialect = kCpuDialect);

// Variables by position in Body::variables.
using VariableNames = std::vector<std::string>;
// `number`: the text of a coefficient or of the constant; as it stands without.
std::string affine_text(const ir::Affine& affine, const VariableNames& variables,
                        const std::function<std::string(int64_t)>& number = {});
// A constant's digits.
std::string literal_text(const ir::Expr& constant);

class ExpressionText {
 public:
  // `named`: the name of an expression that is already in a variable, or "" to write it out.
  // `load`: the text of a load. `constant`: that of a constant beside another operand or -1; "" for digits.
  // `position`: the text of an index.
  ExpressionText(const ir::Body& body, std::function<std::string(ir::ExprId)> named,
                 std::function<std::string(const ir::Expr&)> load,
                 std::function<std::string(ir::ExprId, ir::ExprId)> constant,
                 std::function<std::string(const ir::Affine&)> position, const VariableNames& variables,
                 const Dialect& dialect = kCpuDialect)
      : body_(body),
        named_(std::move(named)),
        load_(std::move(load)),
        constant_(std::move(constant)),
        position_(std::move(position)),
        variables_(variables),
        dialect_(dialect) {}

  std::string of(ir::ExprId id) const { return text(id).text; }

  // The expression written out even if it has a name: for its definition.
  std::string definition(ir::ExprId id) const { return written(id).text; }

 private:
  struct Piece {
    std::string text;
    int precedence;  // C++'s, higher binds tighter
  };
  Piece text(ir::ExprId id) const;
  Piece text_beside(ir::ExprId id, ir::ExprId other) const;
  Piece comparable(ir::ExprId id) const;
  Piece written(ir::ExprId id) const;
  Piece binary(const ir::Expr& expr, const char* op, int precedence) const;
  bool is_rounded(ir::ExprId id, ir::DType dtype) const;
  std::string call(const std::string& function, const ir::Expr& expr) const;

  const ir::Body& body_;
  std::function<std::string(ir::ExprId)> named_;
  std::function<std::string(const ir::Expr&)> load_;
  std::function<std::string(ir::ExprId, ir::ExprId)> constant_;
  std::function<std::string(const ir::Affine&)> position_;
  const VariableNames& variables_;
  const Dialect& dialect_;
};

}  // namespace hydrac::codegen
