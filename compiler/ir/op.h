// The names of what a node can compute.
#pragma once
#include <string>

namespace hydrac::ir {

#define OP(word, info) word,
#define NODE(word) word,
enum class Op {
#include "ir/ops.def"
};
#undef OP
#undef NODE

std::string to_string(Op op);  // "all_reduce"

}  // namespace hydrac::ir
