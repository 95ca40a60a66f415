// Keys and values of prompts on their way into the cache that generation reads. Targets bring the kernel.
#include <algorithm>

#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

void cache_append(RegionBuilder& b, Use k, Use v, const KeyCache& cache, Use rows) {
  std::vector<Use> inputs = {k, v, rows, cache.keys, cache.values};
  if (cache.page_table.value != ir::kNoValue) inputs.push_back(cache.page_table);
  b.emit_node(ir::Op::cache_append, std::move(inputs), {cache.keys, cache.values});
}

namespace {

// k and v are read, and as much of the cache is written.
Cost cache_append_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& k = graph.value(node.inputs[0]);
  return {0, 4 * static_cast<double>(element_count(k.shape) * size_of(k.dtype))};
}

void cache_append_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const std::vector<int64_t>& shape = in[0].shape;  // [B,T,K,D]
  const int64_t T = shape[1], K = shape[2], D = shape[3], M = in[3].shape[2];
  for (int side = 0; side < 2; ++side) {
    out[side].data = in[3 + side].data;
    for (int64_t r = 0; r < shape[0] * T * K; ++r) {
      const int64_t b = r / (T * K), t = r / K % T, head = r % K;
      const auto row = static_cast<int64_t>(in[2].data[b]);
      if (row < 0) continue;
      int64_t unit = row, place = t;
      if (in.size() > 5) {  // the page table
        unit = static_cast<int64_t>(in[5].data[row * in[5].shape[1] + t / M]);
        place = t % M;
      }
      if (unit < 0) continue;
      std::copy_n(&in[side].data[r * D], D, &out[side].data[((unit * K + head) * M + place) * D]);
    }
  }
}

}  // namespace

extern const OpInfo kCacheAppend{.op = ir::Op::cache_append,
                                 .formula = "keys[rows[b], head, t], values[..] = k[b, t, head], v[..]",
                                 .cost = cache_append_cost,
                                 .reference = cache_append_reference};

}  // namespace hydrac::ops
