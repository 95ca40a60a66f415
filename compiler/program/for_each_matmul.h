// The matmuls of a program, each shape once: recomputation and layers repeat them.
#pragma once
#include <set>

#include "program/program.h"

namespace hydrac::program {

// The matmul as iteration `iteration` of its section computes it.
inline GemmShape shape_at(GemmShape shape, int iteration) {
  shape.accumulate = shape.accumulates(iteration);
  shape.first_overwrites = false;
  return shape;
}

enum class Matmuls {
  all,
  step  // of micro_step, as all but the first iterations compute them: what the cpu's libraries are timed
        // with
};

// Calls visit(call, shape_at()) with each matmul that differs, in the order of the program.
template <typename Visit>
void for_each_matmul(const Program& program, Matmuls which, const Visit& visit) {
  std::set<GemmShape> seen;
  for (const Function& function : program.functions) {
    if (which == Matmuls::step && function.name != "micro_step") continue;
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        const auto* gemm = std::get_if<Gemm>(&call.work);
        if (!gemm) continue;
        for (int iteration = which == Matmuls::step; iteration < 2; ++iteration) {
          const GemmShape shape = shape_at(gemm->shape, iteration);
          if (seen.insert(shape).second) visit(call, shape);
        }
      }
    }
  }
}

}  // namespace hydrac::program
