// The largest logits of each row, and what all of them sum to: enough to draw the next token in most cases,
// and a small part of the row; and a token drawn from the whole row. Targets bring the kernels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

void top_logits(RegionBuilder& b, Use logits, Use inverse_temperature, Use vocabulary, Use uniforms,
                const TopLogits& top) {
  b.emit_node(ir::Op::top_logits, {logits, inverse_temperature, vocabulary, uniforms},
              {top.values, top.ids, top.sums, top.drawn});
}

namespace {

Cost top_logits_cost(const ir::Graph& graph, const ir::Node& node) {
  const double elements = static_cast<double>(element_count(graph.value(node.inputs[0]).shape));
  return {2 * elements, 4 * elements};
}

void top_logits_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t columns = in[0].shape.back(), top = out[0].shape.back();
  const int64_t vocabulary = std::min(static_cast<int64_t>(in[2].data[0]), columns);
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    const double* row = &in[0].data[r * columns];
    std::vector<int64_t> ids(vocabulary);
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](int64_t a, int64_t b) { return row[a] > row[b]; });
    for (int64_t i = 0; i < top; ++i) {
      out[0].data[r * top + i] = i < vocabulary ? row[ids[i]] : std::numeric_limits<float>::lowest();
      out[1].data[r * top + i] = i < vocabulary ? static_cast<double>(ids[i]) : -1;
    }
    const auto weight = [&](int64_t id) { return std::exp((row[id] - row[ids[0]]) * in[1].data[0]); };
    out[2].data[r] = 0;
    for (const int64_t id : ids) out[2].data[r] += weight(id);
    const double uniform = in[3].data[2 * r] + in[3].data[2 * r + 1];
    double left = uniform * out[2].data[r];
    int64_t drawn = uniform < 0 && !ids.empty() ? ids[0] : 0;
    while (uniform >= 0 && drawn + 1 < vocabulary && (left -= weight(drawn)) >= 0) ++drawn;
    out[3].data[r] = static_cast<double>(drawn);
  }
}

}  // namespace

extern const OpInfo kTopLogits{
    .op = ir::Op::top_logits,
    .formula =
        "values, ids = the largest of logits[..vocabulary]; sums = sum of exp((logits - values[0]) / "
        "T); drawn = the id whose share of the sum the row's number falls into, or ids[0]",
    .cost = top_logits_cost,
    .reference = top_logits_reference};

}  // namespace hydrac::ops
