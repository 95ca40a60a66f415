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
  bool has_16_bits = false;  // bf16 and f16 of cuda/types.cuh
};
inline constexpr Dialect kCpuDialect{"std::", "std::", false};
inline constexpr Dialect kCudaDialect{"::", "hydrac::", true};

// The type of an element in memory. Throws logic_error for 16 bits where the dialect has none.
std::string_view c_type(ir::DType dtype, const Dialect& dialect = kCpuDialect);

// Variables by position in Body::variables.
using VariableNames = std::vector<std::string>;
std::string affine_text(const ir::Affine& affine, const VariableNames& variables);

class ExpressionText {
 public:
  // `named`: the name of an expression that is already in a variable, or "" to write it out.
  // `load`: the text of a load.
  ExpressionText(const ir::Body& body, std::function<std::string(ir::ExprId)> named,
                 std::function<std::string(const ir::Expr&)> load, const VariableNames& variables,
                 const Dialect& dialect = kCpuDialect)
      : body_(body),
        named_(std::move(named)),
        load_(std::move(load)),
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
  Piece written(ir::ExprId id) const;
  Piece binary(const ir::Expr& expr, const char* op, int precedence) const;
  bool is_rounded(ir::ExprId id, ir::DType dtype) const;
  std::string call(const std::string& function, const ir::Expr& expr) const;

  const ir::Body& body_;
  std::function<std::string(ir::ExprId)> named_;
  std::function<std::string(const ir::Expr&)> load_;
  const VariableNames& variables_;
  const Dialect& dialect_;
};

}  // namespace hydrac::codegen
