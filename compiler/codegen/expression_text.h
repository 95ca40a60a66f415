// Expressions of a Body as C++ text with as few parentheses as the order of evaluation allows.
#pragma once
#include <functional>
#include <string>

#include "ir/body.h"

namespace hydrac::codegen {

std::string_view c_type(ir::ExprType type);
std::string_view c_type(ir::DType dtype);

// Variables by position in Body::variables.
using VariableNames = std::vector<std::string>;
std::string affine_text(const ir::Affine& affine, const VariableNames& variables);

class ExpressionText {
 public:
  // `named`: the name of an expression that is already in a variable, or "" to write it out.
  // `load`: the text of a load.
  ExpressionText(const ir::Body& body, std::function<std::string(ir::ExprId)> named,
                 std::function<std::string(const ir::Expr&)> load, const VariableNames& variables)
      : body_(body), named_(std::move(named)), load_(std::move(load)), variables_(variables) {}

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
  std::string call(const std::string& function, const ir::Expr& expr) const;

  const ir::Body& body_;
  std::function<std::string(ir::ExprId)> named_;
  std::function<std::string(const ir::Expr&)> load_;
  const VariableNames& variables_;
};

}  // namespace hydrac::codegen
