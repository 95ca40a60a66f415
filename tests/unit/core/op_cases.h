// One table of small calls of every op: what the op tests run over. An op that is not in it fails them.
#pragma once
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "ops/op.h"

namespace hydrac::test {

struct CaseInput {
  ir::Shape shape;
  enum class Kind { differentiated, parameter, constant, absent } kind = Kind::differentiated;
  ir::DType dtype = ir::DType::f32;
  std::vector<double> values;  // random normals where empty
};

struct OpCase {
  std::string name;  // of the test: the op, and what is special
  std::vector<CaseInput> inputs;
  // Emits the op; its node is the last one.
  std::function<void(ops::RegionBuilder&, const std::vector<ir::Use>&)> build;
  bool has_gradient = true;
  // Gradients that the op's outputs receive: all ones for a loss, else random.
  std::vector<size_t> outputs_with_gradient = {0};
  bool unit_gradient = false;
};

inline void PrintTo(const OpCase& op, std::ostream* os) {
  *os << op.name;
}

const std::vector<OpCase>& op_cases();

}  // namespace hydrac::test
