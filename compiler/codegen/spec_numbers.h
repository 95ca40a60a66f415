// The numbers of the spec that a program's kernels name: hyper::learning_rate.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/statement.h"
#include "program/program.h"

namespace hydrac::codegen {

// The spec's numbers in a graph's bodies and attention. A name with two values is dropped, and kernels
// contain digits.
class SpecNumbers {
 public:
  explicit SpecNumbers(const ir::Graph& graph);

  // "constexpr float kShare1 = 1.0 - hyper::beta1;", or with `digits`, and a condition that digits need.
  void define(Block& block, const std::string& declaration, const ir::Formula& formula,
              const Code& digits) const;
  // Its text, or `digits`.
  Code code(const ir::Formula& formula, const Code& digits) const;
  std::vector<ir::SpecNumber> all() const;

 private:
  void add(const ir::Formula& formula);

  // nullopt for a name with two values.
  std::map<std::string, std::optional<ir::SpecNumber>> numbers_;
};

// Namespace hyper with those among the names.
std::string number_constants(const std::vector<ir::SpecNumber>& numbers, const Names& names);
// All that a program's kernels name: these and dimensions.
std::string program_constants(const program::Program& program, const Names& names);
// "inline constexpr double beta1 = 0.9;"
std::string number_constant(const ir::SpecNumber& number);

}  // namespace hydrac::codegen
