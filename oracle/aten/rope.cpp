// Rotary position embedding: element i turns with element i + D/2 (Hugging Face's convention), or 2i with
// 2i + 1.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

const double kTwoPi = 2 * std::acos(-1.0);

// Llama 3's rule: wavelengths beyond the original context are stretched by `factor`, short ones are kept, and
// those between are blended.
double scaled_frequency(const OpCall& call, double frequency) {
  const auto is_scaling = [](const auto& attr) { return attr.first.starts_with("scaling."); };
  if (std::none_of(call.node.attrs.begin(), call.node.attrs.end(), is_scaling)) return frequency;
  const double factor = call.attr("scaling.factor");
  const double low = call.attr("scaling.low_freq_factor"), high = call.attr("scaling.high_freq_factor");
  const double context = call.attr("scaling.original_max_position_embeddings");
  const double turns = context * frequency / kTwoPi;  // within the original context
  if (turns < low) return frequency / factor;
  if (turns > high) return frequency;
  const double kept = (turns - low) / (high - low);
  return (1 - kept) * frequency / factor + kept * frequency;
}

// cos and sin of the angles, [T, 1, D/2] each.
std::vector<at::Tensor> make_tables(const OpCall& call, std::int64_t length, std::int64_t head_dim,
                                    const at::TensorOptions& options) {
  const std::int64_t half = head_dim / 2;
  at::Tensor angles = at::empty({length, 1, half}, at::kDouble);
  double* angle = angles.data_ptr<double>();
  for (std::int64_t t = 0; t < length; ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
      *angle++ = static_cast<double>(t) * scaled_frequency(call, std::pow(call.attr("theta"), exponent));
    }
  return {angles.cos().to(options), angles.sin().to(options)};
}

}  // namespace

// Only the length of the cos and sin inputs is read: the angles come from the attributes, in float64. The
// fourth input, the tokens' positions [B, T], may be left out: then token t is at position t.
at::Tensor rope(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  if (x.dim() != 4 || x.size(-1) % 2 != 0) throw JobError("the input must be [B, T, H, D] with an even D");
  std::vector<at::Tensor>& tables = call.tables[&call.node];
  // Chosen tokens have positions beyond their number: the job's table is as long as a sequence.
  const std::int64_t length = call.inputs[1].defined() ? call.inputs[1].size(0) : x.size(1);
  if (tables.empty()) tables = make_tables(call, length, x.size(-1), x.options());
  const at::Tensor positions = call.optional_input(3);
  const auto of_tokens = [&](const at::Tensor& table) {
    if (!positions.defined()) return table;
    return table.index_select(0, positions.reshape({-1})).reshape({x.size(0), x.size(1), 1, table.size(-1)});
  };
  const at::Tensor cos = of_tokens(tables[0]), sin = of_tokens(tables[1]);
  if (call.attr("interleaved", 0) != 0) {
    const at::Tensor pairs = x.unflatten(-1, {x.size(-1) / 2, 2}), a = pairs.select(-1, 0),
                     b = pairs.select(-1, 1);
    return at::stack({a * cos - b * sin, b * cos + a * sin}, -1).flatten(-2);
  }
  const std::vector<at::Tensor> halves = at::chunk(x, 2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

}  // namespace hydrac::oracle
