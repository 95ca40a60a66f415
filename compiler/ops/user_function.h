// Users' functions in bodies and references.
#pragma once
#include <memory>
#include <string>

#include "functions/function.h"
#include "ir/body_builder.h"
#include "ir/graph.h"

namespace hydrac::ops {

// The function's value at these arguments, one a parameter. They are all of the type that it computes in.
ir::Term call(ir::BodyBuilder& k, const functions::Function& function,
              const std::vector<ir::Term>& arguments);

// Its derivative by parameter `parameter` there.
ir::Term call_derivative(ir::BodyBuilder& k, const functions::Function& function, int parameter,
                         const std::vector<ir::Term>& arguments);

// The node's attribute "function"; null where it has none.
const functions::Function* function_of(const ir::Node& node);

// Its kernel's name. No word of C++ or CUDA and no other name in generated code begins as it does, so that a
// function may have any name.
std::string kernel_name(const functions::Function& function);

// The attributes of a node that computes a function.
ir::Attributes function_attributes(const functions::Function& function);

}  // namespace hydrac::ops
