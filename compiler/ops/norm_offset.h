// The attribute "offset" of norms: the factor of a column is that plus the weight.
#pragma once
#include <string>

#include "ir/body_builder.h"
#include "ir/graph.h"

namespace hydrac::ops {

inline double offset_of(const ir::Node& node) {
  return node.attributes.contains("offset") ? node.number("offset") : 0;
}

inline void set_offset(ir::Attributes& attributes, double offset) {
  if (offset != 0) attributes["offset"] = offset;
}

inline ir::Attributes only_offset(const ir::Node& node) {
  ir::Attributes attributes;
  set_offset(attributes, offset_of(node));
  return attributes;
}

// The factor of each column, from the weight at `input`.
inline ir::Term factor_of(ir::BodyBuilder& k, const ir::Node& node, int input) {
  const double offset = offset_of(node);
  return offset == 0 ? k.per_column(input) : k.per_column(input) + offset;
}

// Its name in formulas.
inline std::string factor_text(const ir::Node& node) {
  return offset_of(node) == 0 ? "norm_weight" : "(norm_weight + offset)";
}

}  // namespace hydrac::ops
