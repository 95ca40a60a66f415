// Low-rank adapters of one linear layer.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <fmt/format.h>

#include "oracle/aten/op.h"

namespace hydrac::oracle {

// up[N, r] -> [N, targets * r]: the rows of target i in its own columns, times `scale`. The job leaves out
// rows of `up` behind the last target's.
at::Tensor adapter_matrix(const OpCall& call) {
  const std::int64_t rows = call.output_shape()[0];
  std::vector<at::Tensor> columns;
  for (int i = 0; call.node.attrs.count(fmt::format("first_{}", i)) != 0; ++i) {
    const auto first = static_cast<std::int64_t>(call.attr(fmt::format("first_{}", i))),
               count = static_cast<std::int64_t>(call.attr(fmt::format("rows_{}", i)));
    columns.push_back(
        at::constant_pad_nd(call.input(0).narrow(0, first, count), {0, 0, first, rows - first - count}));
  }
  return at::cat(columns, 1) * call.attr("scale");
}

}  // namespace hydrac::oracle
