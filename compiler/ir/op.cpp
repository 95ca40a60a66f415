#include "ir/op.h"

namespace hydrac::ir {

std::string to_string(Op op) {
#define OP(word, info) #word,
#define NODE(word) #word,
  static constexpr const char* kWords[] = {
#include "ir/ops.def"
  };
#undef OP
#undef NODE
  return kWords[static_cast<size_t>(op)];
}

}  // namespace hydrac::ir
