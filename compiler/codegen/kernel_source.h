// One kernel as C++ text, and what its caller must pass.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hydrac::codegen {

struct KernelSource {
  std::string name;     // wanted; the program makes it unique
  std::string comment;  // what it computes, over which rows and columns
  // Definition with the placeholder kNamePlaceholder wherever the kernel's name belongs.
  std::string text;
  std::vector<ir::Use> arguments;       // the tensors, in the order of the parameters
  std::vector<std::string> parameters;  // what the text calls them
  std::string header;                   // the file of templates/ that the text binds to constants, if it does
  int64_t workspace_bytes = 0;          // passed behind the tensors, when not 0
  bool takes_layer = false;             // then `int layer` is last
};

inline constexpr const char* kNamePlaceholder = "@KERNEL@";

}  // namespace hydrac::codegen
