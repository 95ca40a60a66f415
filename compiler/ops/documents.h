// First and last token of a token's document, or of the sequence, for ops that read other tokens of a
// sequence. An input `documents` is i32 [B,T,2], as attention() has it.
#pragma once
#include "ir/body_builder.h"

namespace hydrac::ops {

inline constexpr int kNoInput = -1;

// The number of an input that a node may lack; kNoInput where it does.
inline int optional_input(const ir::Node& node, int input) {
  return input < static_cast<int>(node.inputs.size()) ? input : kNoInput;
}

// First and last token, as i32, of the document of a row's token; the row's first two dimensions are B and T.
// `documents`: the input that says so; kNoInput: the sequence has `tokens`.
inline ir::Term first_token(ir::BodyBuilder& k, int documents) {
  if (documents == kNoInput) return k.constant(0, ir::ExprType::i32);
  return k.named("document_begin", k.load(documents, {k.row(0), k.row(1), {}}));
}
inline ir::Term last_token(ir::BodyBuilder& k, int documents, int64_t tokens) {
  if (documents == kNoInput)
    return k.constant(static_cast<double>(tokens - 1), ir::ExprType::i32, "kLastToken");
  const ir::Term end = k.named("document_end", k.load(documents, {k.row(0), k.row(1), ir::Affine{1, {}}}));
  return k.named("last_token", end - k.constant(1, ir::ExprType::i32));
}

// Name in generated code of the test that a token lies between these.
inline const char* is_inside(int documents) {
  return documents == kNoInput ? "is_in_sequence" : "is_in_document";
}

}  // namespace hydrac::ops
