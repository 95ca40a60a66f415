// The parameters of a kernel as text: one a line, its shape behind it.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "ir/type.h"

namespace hydrac::codegen {

class ParameterList {
 public:
  void add(const std::string& declaration, const ir::Shape& shape = {}) {
    parameters_.push_back({declaration, shape.empty() ? "" : symbols_of(shape)});
  }

  // What stands between the parentheses and the kernel's "{", that brace and the closing parenthesis
  // included.
  std::string text() const {
    std::string result = "(\n";
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const bool is_last = i + 1 == parameters_.size();
      const auto& [declaration, shape] = parameters_[i];
      result += "    " + declaration + (is_last ? ") {" : ",");
      result += (shape.empty() ? "" : "  // " + shape) + "\n";
    }
    return parameters_.empty() ? "() {\n" : result;
  }

 private:
  struct Parameter {
    std::string declaration, shape;
  };
  std::vector<Parameter> parameters_;
};

}  // namespace hydrac::codegen
