// Text of an attention node's operands, mask and scores, the same in the kernels of every target.
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "codegen/spec_numbers.h"
#include "codegen/statement.h"
#include "ops/attention_rules.h"

namespace hydrac::codegen {

// A [B,T,heads,D] or [B,T,heads D] tensor in the form that templates take, "{q, T * H * D, H * D, D}":
// pointer, batch stride, token stride, head stride.
Code heads_code(const Dimensions& dimensions, const ir::Graph& graph, ir::Use use, const std::string& pointer,
                const ir::Dim& head_dim);

// "softmax(scale q k^T, causal)"
std::string softmax_formula(const ops::AttentionRules& rules);

// How a kernel calls the shape of its attention.
struct ShapeTypes {
  const char* type;
  const char* packed = "";  // with documents
};
// Defines the constant `shape`. `members` end with the scale; the rules' numbers and then `behind` follow. If
// layers differ, it reads the kernel's parameter `layer` and is no compile-time constant. With documents it
// is none either: its type is then the packed one around the constant, and `documents` points to the
// documents that the kernel works on. `tokens` is the sequence's length; the scale must follow from
// `head_dim`.
void define_shape(Block& body, const ops::AttentionRules& rules, const ShapeTypes& types, const Code& members,
                  const Size& tokens, const Size& head_dim, const Code& behind = {},
                  const Code& documents = {});

// Defines `dropout`, of a type, from the kernel's rng_seed and rng_step, unless the probability is 0. `wrap`:
// text between the key and the rest.
void define_dropout(Block& body, const ir::Graph& graph, const ir::Node& node, const char* type,
                    const char* wrap);

// The name of the compile-time constant that has all of the shape but a window that varies and documents.
std::string constant_shape(const ops::AttentionRules& rules);

}  // namespace hydrac::codegen
