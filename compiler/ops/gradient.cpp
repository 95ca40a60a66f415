#include "ops/gradient.h"

namespace hydrac::ops {

void Gradient::contribute_op(ir::Use input, ir::Op op, std::vector<ir::Use> inputs,
                             ir::Attributes attributes) {
  if (!wanted(input)) return;
  const ir::Use gradient = emit(op, std::move(inputs), name_of(input), shape(input), std::move(attributes));
  graph_.value(gradient.value).exact = value(input).exact;
  contribute(input, gradient);
}

}  // namespace hydrac::ops
