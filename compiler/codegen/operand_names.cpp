#include "codegen/operand_names.h"

#include <fmt/format.h>

#include <cctype>
#include <set>

namespace hydrac::codegen {

std::string identifier(const std::string& name) {
  std::string result;
  for (char c : name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return result;
}

std::vector<std::string> operand_names(const ir::Graph& graph, const ir::Node& node) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const ir::Operand& operand : node.body->operands) {
    if (operand.input < 0 && operand.output < 0) {
      names.emplace_back();
      continue;
    }
    const ir::Use use = operand.output >= 0 ? node.outputs[operand.output] : node.inputs[operand.input];
    const std::string base = !operand.name.empty()       ? operand.name
                             : use.value == ir::kNoValue ? "none"
                                                         : identifier(graph.value(use).name);
    std::string name = base;
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    names.push_back(name);
  }
  return names;
}

}  // namespace hydrac::codegen
