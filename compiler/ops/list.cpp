// The OpInfo of every op of ir/ops.def.
#include <stdexcept>

#include "ops/op.h"

namespace hydrac::ops {

#define NODE(word)
#define OP(word, info) extern const OpInfo info;
#include "ir/ops.def"
#undef OP

const std::vector<const OpInfo*>& all_ops() {
#define OP(word, info) &info,
  static const std::vector<const OpInfo*> ops = {
#include "ir/ops.def"
  };
#undef OP
  return ops;
}

const OpInfo& op_info(ir::Op op) {
  switch (op) {
#define OP(word, info) \
  case ir::Op::word:   \
    return info;
#include "ir/ops.def"
#undef OP
    default:
      throw std::logic_error(to_string(op) + " is no op of its own");
  }
}
#undef NODE

}  // namespace hydrac::ops
