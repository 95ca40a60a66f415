// Sizes of tensors as C++ expressions of the program's dimensions: "3 * H * D".
#pragma once
#include <string>

#include "codegen/dimensions.h"

namespace hydrac::emit {

inline std::string size_text(const codegen::Dimensions& dimensions, const ir::Dim& dim) {
  return dimensions.of(dim).text;
}

inline std::string elements_text(const codegen::Dimensions& dimensions, const ir::Shape& shape) {
  return dimensions.of(shape).text;
}

}  // namespace hydrac::emit
