// Rotary position embedding: element i turns with element i + D/2 (Hugging Face's convention), or 2i with
// 2i + 1.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

const double kTwoPi = 2 * std::acos(-1.0);

// Llama 3's rule: wavelengths beyond the original context are stretched by `factor`, short ones are kept, and
// those between are blended.
double llama3_share(const OpCall& call, double frequency) {
  const double low = call.attr("scaling.low_freq_factor"), high = call.attr("scaling.high_freq_factor");
  const double turns = call.attr("scaling.original_max_position_embeddings") * frequency / kTwoPi;
  return std::clamp((high - turns) / (high - low), 0.0, 1.0);
}

// YaRN's: the blend is linear in the pair's number, between those that turn beta_fast and beta_slow times
// within the original context.
double yarn_share(const OpCall& call, double pair, double width) {
  const double context = call.attr("scaling.original_max_position_embeddings"), theta = call.attr("theta");
  const auto pair_of = [&](const char* turns) {
    return width / 2 * std::log(context / (kTwoPi * call.attr(turns))) / std::log(theta);
  };
  double begin = pair_of("scaling.beta_fast"), end = pair_of("scaling.beta_slow");
  if (call.attr("scaling.truncate") != 0) begin = std::floor(begin), end = std::ceil(end);
  begin = std::max(0.0, begin);
  end = std::min(width - 1, end);
  if (begin == end) end += 1e-3;
  return std::clamp((pair - begin) / (end - begin), 0.0, 1.0);
}

// The share of a pair's frequency that is divided by `factor`.
double scaled_share(const OpCall& call, double pair, double width, double frequency) {
  if (call.attr("scaling.is_linear", 0) != 0) return 1;
  const bool is_yarn = call.attr("scaling.beta_fast", 0) != 0;
  return is_yarn ? yarn_share(call, pair, width) : llama3_share(call, frequency);
}

bool is_scaled(const OpCall& call) {
  return call.attr("scaling.factor", 1) != 1 || call.attr("scaling.pair_factors.0", 0) != 0;
}

double scaled_frequency(const OpCall& call, std::int64_t pair, std::int64_t width, double frequency) {
  const double own = call.attr(fmt::format("scaling.pair_factors.{}", pair), 0);
  if (own != 0) return frequency / own;  // LongRoPE
  const double share = scaled_share(call, static_cast<double>(pair), static_cast<double>(width), frequency);
  return share * frequency / call.attr("scaling.factor") + (1 - share) * frequency;
}

// cos and sin of the layer's angles, [T, 1, R/2] each.
std::vector<at::Tensor> make_tables(const OpCall& call, bool is_local, std::int64_t length,
                                    std::int64_t width, const at::TensorOptions& options) {
  const std::int64_t half = width / 2;
  const bool scales = is_scaled(call) && !is_local;
  const double theta = call.attr(is_local ? "local_theta" : "theta");
  at::Tensor angles = at::empty({length, 1, half}, at::kDouble);
  double* angle = angles.data_ptr<double>();
  for (std::int64_t t = 0; t < length; ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      if (scales) frequency = scaled_frequency(call, i, width, frequency);
      *angle++ = static_cast<double>(t) * frequency;
    }
  const double length_factor = scales ? call.attr("scaling.attention_factor", 1) : 1;
  return {(length_factor * angles.cos()).to(options), (length_factor * angles.sin()).to(options)};
}

}  // namespace

// Only the shape of the cos and sin inputs is read: the angles come from the attributes, in float64. The
// fourth input, the tokens' positions [B, T], may be left out: then token t is at position t. With `period`,
// layers whose number it divides have no rope, or they have it and the others have local_theta's.
at::Tensor rope(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  if (x.dim() != 4 || x.size(-1) % 2 != 0) throw JobError("the input must be [B, T, H, D] with an even D");
  const auto period = static_cast<int>(call.attr("period", 0));
  const bool is_nth = period > 0 && (call.layer + 1) % period == 0,
             has_local = call.attr("local_theta", 0) > 0;
  if (is_nth && !has_local) return x;
  // Chosen tokens have positions beyond their number: the job's table is as long as a sequence.
  const bool has_table = call.inputs[1].defined();
  const std::int64_t length = has_table ? call.inputs[1].size(0) / (period > 0 ? 2 : 1) : x.size(1),
                     width = has_table ? 2 * call.inputs[1].size(1) : x.size(-1);
  std::vector<at::Tensor>& tables = call.tables[&call.node];
  if (tables.empty()) {
    tables = make_tables(call, false, length, width, x.options());
    if (has_local) {
      const std::vector<at::Tensor> local = make_tables(call, true, length, width, x.options());
      tables.insert(tables.end(), local.begin(), local.end());
    }
  }
  const at::Tensor positions = call.optional_input(3);
  const auto of_tokens = [&](const at::Tensor& table) {
    if (!positions.defined()) return table;
    return table.index_select(0, positions.reshape({-1})).reshape({x.size(0), x.size(1), 1, table.size(-1)});
  };
  const std::size_t first = has_local && !is_nth ? 2 : 0;
  const at::Tensor cos = of_tokens(tables[first]), sin = of_tokens(tables[first + 1]);
  const at::Tensor turning = x.narrow(-1, 0, width), rest = x.narrow(-1, width, x.size(-1) - width);
  if (call.attr("interleaved", 0) != 0) {
    const at::Tensor pairs = turning.unflatten(-1, {width / 2, 2}), a = pairs.select(-1, 0),
                     b = pairs.select(-1, 1);
    return at::cat({at::stack({a * cos - b * sin, b * cos + a * sin}, -1).flatten(-2), rest}, -1);
  }
  const std::vector<at::Tensor> halves = at::chunk(turning, 2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin, rest}, -1);
}

}  // namespace hydrac::oracle
