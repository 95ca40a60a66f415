// The functions of an emitted program: the files that hold them, and step.h, which declares them.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/emit.h"
#include "emit/tensors.h"

namespace hydrac::emit {

// A C++ function of the program: some sections of one of its functions, in order.
struct EmittedFunction {
  std::string name;  // "forward"
  std::string file;  // "forward.cpp"
  std::string comment;
  const program::Function* source = nullptr;
  std::vector<int> sections;
  bool calls_hooks = false;  // after each layer
};

std::vector<EmittedFunction> emitted_functions(const driver::Compiled& compiled, Hooks hooks = Hooks::none);

// step.h's body: what calls are put on, and the functions' declarations.
std::string step_declarations(const driver::Compiled& compiled, Hooks hooks);
// The body of a function's file.
std::string function_source(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                            const Tensors& tensors, const EmittedFunction& function);

// The queues other than the main one. Emitted code gives them the names of to_string(Queue).
std::set<program::Queue> forked_queues(const driver::Compiled& compiled);

// An attention that cuDNN computes, and the bytes of workspace that the plan gives it.
struct CudnnAttention {
  program::AttentionShape shape;
  int64_t workspace_bytes = 0;
};
// By the member of Run that is its plan.
std::map<std::string, CudnnAttention> cudnn_attentions(const driver::Compiled& compiled);

}  // namespace hydrac::emit
