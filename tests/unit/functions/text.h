// A function's result as text, for tests to compare.
#pragma once
#include <fmt/format.h>

#include <string>

#include "functions/function.h"

namespace hydrac::functions {

inline std::string text_of(const Function& f, int id) {
  const Node& node = f.nodes[static_cast<size_t>(id)];
  if (node.op == Op::constant) return fmt::format("{:.6g}", node.number);
  if (node.op == Op::argument) return f.parameters[static_cast<size_t>(node.parameter)];
  std::string text = std::string(to_string(node.op)) + "(";
  for (size_t i = 0; i < node.args.size(); ++i) text += (i ? ", " : "") + text_of(f, node.args[i]);
  if (node.op == Op::pow) text += fmt::format(", {}", node.number);
  return text + ")";
}

inline std::string text_of(const Function& f) {
  return text_of(f, f.result);
}

}  // namespace hydrac::functions
