#include "codegen/spec_numbers.h"

#include <algorithm>

#include "codegen/dimensions.h"
#include "ops/dropout.h"

namespace hydrac::codegen {

namespace {

std::string qualified(const ir::SpecNumber& number) {
  return "hyper::" + number.name;
}

}  // namespace

SpecNumbers::SpecNumbers(const ir::Graph& graph) {
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op == ir::Op::attention || node.op == ir::Op::attention_backward)
          add(ops::attention_dropout(node).formula);
        if (!node.body) continue;
        for (const ir::Expr& expr : node.body->exprs) add(expr.formula);
      }
    }
  }
}

void SpecNumbers::add(const ir::Formula& formula) {
  for (const ir::SpecNumber& number : formula.of) {
    std::optional<ir::SpecNumber>& known = numbers_.try_emplace(number.name, number).first->second;
    if (known && known->value != number.value) known.reset();
  }
}

Code SpecNumbers::code(const ir::Formula& formula, const Code& digits) const {
  const auto is_known = [&](const ir::SpecNumber& number) {
    const auto found = numbers_.find(number.name);
    return found != numbers_.end() && found->second;
  };
  if (formula.of.empty() || !std::ranges::all_of(formula.of, is_known)) return digits;
  Code code = formula.condition.empty() ? Code(formula.text) : digits;
  for (const ir::SpecNumber& number : formula.of) code.names.insert(qualified(number));
  return code;
}

void SpecNumbers::define(Block& block, const std::string& declaration, const ir::Formula& formula,
                         const Code& digits) const {
  const Code value = code(formula, digits);
  block.line("{} = {};", declaration, value);
  if (!formula.condition.empty() && !value.names.empty())
    block.line("static_assert({});", formula.condition).comment = "the number above follows from it";
}

std::vector<ir::SpecNumber> SpecNumbers::all() const {
  std::vector<ir::SpecNumber> all;
  for (const auto& [name, number] : numbers_) {
    if (number) all.push_back(*number);
  }
  return all;
}

std::string number_constant(const ir::SpecNumber& number) {
  const Code value = number.is_integer ? codegen::code("{}", static_cast<std::int64_t>(number.value))
                                       : codegen::code("{}", number.value);
  return fmt::format("inline constexpr {} {} = {};", number.is_integer ? "std::int64_t" : "double",
                     number.name, value.text);
}

std::string number_constants(const std::vector<ir::SpecNumber>& numbers, const Names& names) {
  std::string constants;
  for (const ir::SpecNumber& number : numbers) {
    if (names.contains(qualified(number))) constants += number_constant(number) + "\n";
  }
  return constants.empty() ? "" : "namespace hyper {\n" + constants + "}  // namespace hyper\n";
}

std::string program_constants(const program::Program& program, const Names& names) {
  return dimension_constants(program.dimensions, names) + number_constants(program.numbers, names);
}

}  // namespace hydrac::codegen
