// Compressed convolutional attention's changes of queries, keys and values before their dot products.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rsqrt.h>

#include <algorithm>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

// x[B, T, C] `count` tokens later: zeros where there are none, or, with `documents` [B, T, 2] of first tokens
// and ends, none of the token's document.
at::Tensor delayed(const at::Tensor& x, std::int64_t count, const at::Tensor& documents) {
  const std::int64_t tokens = x.size(1), kept = std::max<std::int64_t>(tokens - count, 0);
  const at::Tensor result = at::constant_pad_nd(x.narrow(1, 0, kept), {0, 0, tokens - kept, 0});
  if (!documents.defined()) return result;
  const at::Tensor begins = documents.select(-1, 0);
  const at::Tensor sources = at::arange(tokens, begins.options()) - count;
  return result.masked_fill(begins.gt(sources).unsqueeze(-1), 0);
}

}  // namespace

// x[B, T, C], weight[taps * W, C] with the token's own tap first. The output is channels [first, first + ...)
// of the W. With documents one matmul of each token's C * taps numbers, which conv1d cannot hide from it.
at::Tensor causal_conv(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  const auto taps = static_cast<std::int64_t>(call.attr("taps")),
             first = static_cast<std::int64_t>(call.attr("first"));
  const std::vector<std::int64_t>& shape = call.output_shape();
  std::int64_t width = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) width *= shape[d];
  const at::Tensor matrices = call.input(1).reshape({taps, -1, x.size(2)}).narrow(1, first, width);
  if (const at::Tensor documents = call.optional_input(2); documents.defined()) {
    std::vector<at::Tensor> seen;
    for (std::int64_t tap = 0; tap < taps; ++tap) seen.push_back(delayed(x, tap, documents));
    return at::linear(at::cat(seen, -1), matrices.transpose(0, 1).flatten(1)).reshape(shape);
  }
  // conv1d's kernel [width, C, taps] ends with the newest token.
  const at::Tensor kernel = matrices.flip(0).permute({1, 2, 0});
  const at::Tensor padded = at::constant_pad_nd(x.transpose(1, 2), {taps - 1, 0});
  return at::conv1d(padded, kernel.contiguous()).transpose(1, 2).reshape(shape);
}

at::Tensor value_shift(const OpCall& call) {
  const at::Tensor flat = call.input(0).flatten(2);
  if (flat.size(2) % 2 != 0) throw JobError("the values' width is odd");
  const std::vector<at::Tensor> halves = flat.chunk(2, -1);
  return at::cat({halves[0], delayed(halves[1], 1, call.optional_input(1))}, -1).reshape(call.output_shape());
}

// blocks[parts * groups * d, d]: of each part the blocks lie along a diagonal that begins in `first_column`.
at::Tensor block_diagonal(const OpCall& call) {
  const at::Tensor& blocks = call.input(0);
  const std::int64_t size = blocks.size(1), columns = call.output_shape()[1];
  const auto groups = static_cast<std::int64_t>(call.attr("groups"));
  std::vector<at::Tensor> rows;
  for (std::int64_t block = 0; block < blocks.size(0) / size; ++block) {
    const std::int64_t left = static_cast<std::int64_t>(call.attr("first_column")) + block % groups * size;
    rows.push_back(
        at::constant_pad_nd(blocks.narrow(0, block * size, size), {left, columns - left - size, 0, 0}));
  }
  return at::cat(rows, 0);
}

at::Tensor head_sum(const OpCall& call) {
  return call.input(0).sum(2) * call.attr("factor");
}

at::Tensor scale_heads(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  const at::Tensor of_heads = x.dim() == 3 ? x.unsqueeze(2).expand(call.output_shape()) : x;
  return of_heads * call.attr("factor");
}

at::Tensor l2norm(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  const at::Tensor unit = x * at::rsqrt(x.square().sum(-1, true) + call.attr("eps"));
  const at::Tensor temperature = call.optional_input(1);
  return temperature.defined() ? unit * temperature : unit;
}

}  // namespace hydrac::oracle
