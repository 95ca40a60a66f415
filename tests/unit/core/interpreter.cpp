#include "interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "hydrac/random.h"
#include "ir/evaluate.h"
#include "ops/attention_decode.h"
#include "ops/dropout.h"

namespace hydrac::test {

namespace {

// Calls fn with the storage offset of every element of the view, in row-major order.
template <typename Fn>
void for_each_element(const ir::Shape& shape, const std::vector<int64_t>& strides, int64_t offset,
                      const Fn& fn, size_t depth = 0) {
  if (depth == shape.size()) return fn(offset);
  for (int64_t i = 0; i < shape[depth].size; ++i) {
    for_each_element(shape, strides, offset + i * strides[depth], fn, depth + 1);
  }
}

// How dropout scales a probability: 0 or 1 / (1 - p).
class AttentionDropout {
 public:
  AttentionDropout(const ir::Node& node, double step, double seed, int layer) : p_(node.number("dropout")) {
    key_ = random_key(static_cast<uint32_t>(seed), static_cast<uint32_t>(step),
                      static_cast<uint32_t>(node.integer("site") * ops::kSiteStride + layer));
  }
  double factor(int64_t head, int64_t tokens, int64_t query, int64_t key) const {
    if (p_ == 0) return 1;
    const uint32_t bits = random_16_bits(key_, score_index(head, tokens, query, key));
    return bits < ops::dropout_threshold(p_) ? 0 : 1 / (1 - p_);
  }

 private:
  double p_;
  uint32_t key_ = 0;
};

}  // namespace

ir::Node matmul_of(const ir::Node& fused_matmul) {
  ir::Node matmul = fused_matmul;
  const bool has_experts = fused_matmul.optional_flag("experts");
  matmul.op = has_experts ? ir::Op::grouped_matmul : ir::Op::gemm;
  matmul.inputs.resize(has_experts ? 3 : 2);
  if (fused_matmul.optional_flag("tail"))
    matmul.inputs.insert(matmul.inputs.end(), {{}, fused_matmul.inputs[2], fused_matmul.inputs[3]});
  matmul.outputs = {fused_matmul.matmul};
  matmul.attributes.insert({{"transpose_a", false}, {"accumulate", false}});
  return matmul;
}

std::vector<ir::Node> matmuls_of(const ir::Node& weight_gradients) {
  std::vector<ir::Node> matmuls;
  for (size_t i = 0; i < weight_gradients.inputs.size() / 2; ++i) {
    ir::Node matmul = weight_gradients;
    matmul.op = ir::Op::gemm;
    matmul.inputs = {weight_gradients.inputs[2 * i], weight_gradients.inputs[2 * i + 1]};
    matmul.outputs = {weight_gradients.outputs[i]};
    matmul.attributes.insert({{"transpose_a", true}, {"transpose_b", false}});
    matmuls.push_back(std::move(matmul));
  }
  return matmuls;
}

Interpreter::Interpreter(const ir::Graph& graph) : graph_(graph) {
  for (const ir::Value& value : graph.values) {
    if (value.view) continue;
    const double start = value.role == ir::Role::activation ? std::numeric_limits<double>::quiet_NaN() : 0;
    storages_[value.id].assign(value.slots, std::vector<double>(element_count(value.shape), start));
  }
}

void Interpreter::run(const std::string& name) {
  for (const ir::Region& region : graph_.function(name).regions) {
    const int iterations = std::max(region.layers, 1);
    first_layer_ = region.first_layer;
    for (int i = 0; i < iterations; ++i) {
      const int layer = region.reverse ? iterations - 1 - i : i;
      for (const ir::Node& node : region.nodes) run(node, layer, i);
    }
  }
}

void Interpreter::run(const ir::Node& node, int layer, int iteration) {
  if (node.op == ir::Op::fused) return run_fused(node, layer);
  if (node.op == ir::Op::gemm) return run_gemm(node, layer, iteration);
  if (node.op == ir::Op::fused_matmul) {
    run(matmul_of(node), layer, iteration);
    return run_fused(epilogue_of(node), layer);
  }
  if (node.op == ir::Op::weight_gradients) {
    for (const ir::Node& matmul : matmuls_of(node)) run_gemm(matmul, layer, iteration);
    return;
  }
  if (node.op == ir::Op::transpose || node.op == ir::Op::top_logits || node.op == ir::Op::history_append ||
      node.op == ir::Op::history_window || node.op == ir::Op::expert_rows ||
      node.op == ir::Op::grouped_matmul || node.op == ir::Op::grouped_weight_gradient)
    return run_reference(node, layer);
  if (node.op == ir::Op::attention) return run_attention(node, layer);
  if (node.op == ir::Op::attention_backward) return run_attention_backward(node, layer);
  if (node.op == ir::Op::cache_append) return run_cache_append(node, layer);
  if (node.op == ir::Op::attention_decode) return run_attention_decode(node, layer);
  if (node.op == ir::Op::embedding_backward) return run_embedding_backward(node, layer);
  throw std::logic_error("the interpreter does not know " + to_string(node.op));
}

int Interpreter::physical_slot(ir::Use use, int layer) const {
  return storage_slot(graph_, use).at(layer);
}

int64_t Interpreter::first_element(ir::Use use, int layer) const {
  const ir::View view = resolved_view(graph_, use.value);
  return view.offset + view.slot_stride * use.slot.at(layer);
}

std::vector<double>& Interpreter::storage(ir::Use use, int layer) {
  return storages_.at(storage_of(graph_, use.value)).at(physical_slot(use, layer));
}

std::vector<double> Interpreter::read(ir::Use use, int layer) const {
  const std::vector<double>& from = const_cast<Interpreter*>(this)->storage(use, layer);
  std::vector<double> dense;
  for_each_element(graph_.value(use).shape, resolved_view(graph_, use.value).strides,
                   first_element(use, layer), [&](int64_t at) { dense.push_back(from.at(at)); });
  return dense;
}

void Interpreter::write(ir::Use use, const std::vector<double>& dense, int layer) {
  std::vector<double>& to = storage(use, layer);
  size_t next = 0;
  for_each_element(graph_.value(use).shape, resolved_view(graph_, use.value).strides,
                   first_element(use, layer), [&](int64_t at) { to.at(at) = dense.at(next++); });
}

ops::Tensor64 Interpreter::tensor(ir::Use use, int layer) const {
  if (use.value == ir::kNoValue) return {};
  ops::Tensor64 result{{}, read(use, layer)};
  for (const ir::Dim& dim : graph_.value(use).shape) result.shape.push_back(dim.size);
  return result;
}

void Interpreter::run_fused(const ir::Node& node, int layer) {
  const std::vector<ir::Operand>& operands = node.body->operands;
  std::vector<std::vector<double>> data(operands.size());
  std::vector<std::vector<double>*> pointers(operands.size(), nullptr);
  for (size_t o = 0; o < operands.size(); ++o) {
    const ir::Operand& operand = operands[o];
    if (operand.input < 0 && operand.output < 0) continue;
    const ir::Use use = operand.input >= 0 ? node.inputs[operand.input] : node.outputs[operand.output];
    if (use.value == ir::kNoValue) continue;
    data[o] = read(use, layer);
    pointers[o] = &data[o];
  }
  ir::evaluate(*node.body, pointers, first_layer_ + layer);
  for (size_t o = 0; o < operands.size(); ++o) {
    if (operands[o].output >= 0) write(node.outputs[operands[o].output], data[o], layer);
  }
}

void Interpreter::run_gemm(const ir::Node& node, int layer, int iteration) {
  const ops::Tensor64 a = tensor(node.inputs[0], layer), b = tensor(node.inputs[1], layer);
  ops::Tensor64 c = tensor(node.outputs[0], layer);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2].value != ir::kNoValue;
  const std::vector<double> bias = has_bias ? read(node.inputs[2], layer) : std::vector<double>();
  const bool has_tail = node.optional_flag("tail");
  const double scale = node.inputs.size() > 4 && !has_tail
                           ? read(node.inputs[3], layer)[0] * read(node.inputs[4], layer)[0]
                           : 1;
  const bool ta = node.flag("transpose_a"), tb = node.flag("transpose_b");
  const int64_t columns_a = a.shape.back(), columns_b = b.shape.back(), n = c.shape.back();
  const int64_t batch = node.attributes.contains("batch") ? node.integer("batch") : 1;
  const int64_t m = static_cast<int64_t>(c.data.size()) / n / batch;
  const int64_t k = ta ? static_cast<int64_t>(a.data.size()) / columns_a / batch : columns_a;
  const bool adds = node.flag("accumulate") && !(iteration == 0 && node.optional_flag("first_overwrites"));
  for (int64_t matrix = 0; matrix < batch; ++matrix) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x) {
          sum += a.data.at(matrix * m * k + (ta ? x * columns_a + i : i * columns_a + x)) *
                 b.data.at(matrix * k * n + (tb ? j * columns_b + x : x * columns_b + j));
        }
        sum *= scale;
        if (has_bias) sum += bias.at(j);
        double& target = c.data[(matrix * m + i) * n + j];
        target = adds ? target + sum : sum;
      }
    }
  }
  write(node.outputs[0], c.data, layer);
  if (!has_tail) return;
  ir::Node tail = node;
  tail.inputs = {node.inputs[3], node.inputs[4]};
  tail.attributes["accumulate"] = true;
  tail.attributes.erase("tail");
  run_gemm(tail, layer, iteration);
}

void Interpreter::run_reference(const ir::Node& node, int layer) {
  std::vector<ops::Tensor64> inputs, outputs;
  for (const ir::Use use : node.inputs) inputs.push_back(tensor(use, layer));
  for (const ir::Use use : node.outputs) outputs.push_back(tensor(use, layer));
  ops::op_info(node.op).reference(node, inputs, outputs);
  for (size_t o = 0; o < outputs.size(); ++o) write(node.outputs[o], outputs[o].data, layer);
}

// The score of a query's matmul with a key, -infinity where it may not see the key, and the score's
// derivative over scale.
struct AttentionScore {
  AttentionScore(const ir::Node& node, int layer, int64_t tokens, int64_t query, int64_t key, double matmul) {
    const auto attribute = [&](const char* name) {
      return node.attributes.contains(name) ? node.integer(name) : 0;
    };
    const int64_t period = attribute("window_period");
    const int64_t window = period > 0 && layer % period == period - 1 ? tokens : attribute("window");
    value = matmul * node.number("scale");
    if (node.attributes.contains("softcap")) {
      const double cap = node.number("softcap"), ratio = std::tanh(value / cap);
      value = cap * ratio;
      derivative = 1 - ratio * ratio;
    }
    if ((node.flag("causal") && key > query) || (window > 0 && key <= query - window))
      value = -std::numeric_limits<double>::infinity();
  }
  double value, derivative = 1;
};

// The document of each token of a batch, where sequences have several.
class Documents {
 public:
  Documents(const ir::Node& node, size_t input, const std::function<std::vector<double>(ir::Use)>& read) {
    if (node.inputs.size() > input) ranges_ = read(node.inputs[input]);
  }
  // The score of tokens of one document, else -infinity. `row` is the query's number in the batch.
  double of(double score, int64_t row, int64_t key) const {
    if (ranges_.empty()) return score;
    const auto token = static_cast<double>(key);
    const bool is_same = ranges_.at(2 * row) <= token && token < ranges_.at(2 * row + 1);
    return is_same ? score : -std::numeric_limits<double>::infinity();
  }

 private:
  std::vector<double> ranges_;
};

void Interpreter::run_attention(const ir::Node& node, int layer) {
  const ops::Tensor64 q = tensor(node.inputs[0], layer), k = tensor(node.inputs[1], layer),
                      v = tensor(node.inputs[2], layer);
  const AttentionDropout dropout(node, read(node.inputs[3])[0], read(node.inputs[4])[0],
                                 first_layer_ + layer);
  const Documents documents(node, 5, [&](ir::Use use) { return read(use); });
  const int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], K = k.shape[2];
  std::vector<double> out(q.data.size(), 0.0), lse(B * H * T);
  for (int64_t row = 0; row < B * H * T; ++row) {
    const int64_t b = row / (H * T), h = row / T % H, i = row % T;
    const auto query = [&](int64_t d) { return ((b * T + i) * H + h) * D + d; };
    const auto key = [&](int64_t j, int64_t d) { return ((b * T + j) * K + h / (H / K)) * D + d; };
    std::vector<double> weight(T, 0.0);
    for (int64_t j = 0; j < T; ++j) {
      for (int64_t d = 0; d < D; ++d) weight[j] += q.data[query(d)] * k.data[key(j, d)];
      weight[j] =
          documents.of(AttentionScore(node, first_layer_ + layer, T, i, j, weight[j]).value, b * T + i, j);
    }
    const double largest = *std::ranges::max_element(weight);  // random scores may be large
    double sum = 0;
    for (double& w : weight) sum += w = std::exp(w - largest);
    for (int64_t j = 0; j < T; ++j) {
      const double probability = dropout.factor(b * H + h, T, i, j) * weight[j] / sum;
      for (int64_t d = 0; d < D; ++d) out[query(d)] += probability * v.data[key(j, d)];
    }
    lse[row] = largest + std::log(sum);
  }
  write(node.outputs[0], out, layer);
  write(node.outputs[1], lse, layer);
}

namespace {

// Where a cache [S,K,M,D] has a sequence's tokens, or one in pages [Pages,K,M,D] with a table of them.
class CachePlaces {
 public:
  struct Place {
    int64_t unit = -1, token = 0;  // a sequence or a page, and the token of it; -1: none
  };

  CachePlaces(ops::Tensor64 pages, int64_t tokens) : pages_(std::move(pages)), unit_tokens_(tokens) {}

  int64_t tokens() const { return pages_.data.empty() ? unit_tokens_ : pages_.shape[1] * unit_tokens_; }
  Place of(int64_t sequence, int64_t token) const {
    if (pages_.data.empty()) return {sequence, token};
    const double page = pages_.data.at(sequence * pages_.shape[1] + token / unit_tokens_);
    return {static_cast<int64_t>(page), token % unit_tokens_};
  }

 private:
  ops::Tensor64 pages_;  // [S,P]
  int64_t unit_tokens_;
};

// A token's rows of all heads into a cache.
void keep(ops::Tensor64& cache, const CachePlaces::Place& at, const double* rows) {
  const int64_t K = cache.shape[1], M = cache.shape[2], D = cache.shape[3];
  for (int64_t i = 0; i < K * D && at.unit >= 0; ++i)
    cache.data.at(((at.unit * K + i / D) * M + at.token) * D + i % D) = rows[i];
}

// Rope of x [S,1,heads,D], of each sequence by the angles of its position.
void turn_tokens(ops::Tensor64& x, const std::vector<double>& positions, const std::vector<double>& cos,
                 const std::vector<double>& sin, bool interleaved) {
  const int64_t heads = x.shape[2], D = x.shape[3];
  for (int64_t pair = 0; pair < x.shape[0] * heads * (D / 2); ++pair) {
    const int64_t row = pair / (D / 2), i = pair % (D / 2);
    const auto angle = static_cast<size_t>(static_cast<int64_t>(positions.at(row / heads)) * (D / 2) + i);
    double &x1 = x.data.at(row * D + (interleaved ? 2 * i : i)),
           &x2 = x.data.at(row * D + (interleaved ? 2 * i + 1 : i + D / 2));
    const double before = x1;
    x1 = before * cos.at(angle) - x2 * sin.at(angle);
    x2 = x2 * cos.at(angle) + before * sin.at(angle);
  }
}

}  // namespace

void Interpreter::run_cache_append(const ir::Node& node, int layer) {
  const std::vector<double> rows = read(node.inputs[2]);
  const CachePlaces places(node.inputs.size() > 5 ? tensor(node.inputs[5], layer) : ops::Tensor64(),
                           tensor(node.inputs[3], layer).shape[2]);
  for (const size_t side : {0, 1}) {
    const ops::Tensor64 x = tensor(node.inputs[side], layer);
    ops::Tensor64 cache = tensor(node.inputs[3 + side], layer);
    const int64_t tokens = x.shape[1], width = x.shape[2] * x.shape[3];
    for (int64_t i = 0; i < x.shape[0] * tokens; ++i) {
      const auto sequence = static_cast<int64_t>(rows.at(i / tokens));
      if (sequence >= 0) keep(cache, places.of(sequence, i % tokens), &x.data[i * width]);
    }
    write(node.outputs[side], cache.data, layer);
  }
}

void Interpreter::run_attention_decode(const ir::Node& node, int layer) {
  const std::vector<double> positions = read(node.inputs[3]);
  const auto turned = [&](size_t input) {
    ops::Tensor64 x = tensor(node.inputs[input], layer);
    if (const auto rotation = ops::rotation_in_decode(node))
      turn_tokens(x, positions, read(rotation->cos), read(rotation->sin), node.flag("interleaved"));
    return x;
  };
  const ops::Tensor64 q = turned(0), k = turned(1);
  ops::Tensor64 cache[2] = {tensor(node.inputs[4], layer), tensor(node.inputs[5], layer)};
  const int64_t S = q.shape[0], H = q.shape[2], D = q.shape[3], K = cache[0].shape[1];
  const ops::Tensor64 pages = ops::page_table(node) ? tensor(*ops::page_table(node), layer) : ops::Tensor64();
  const CachePlaces places(pages, cache[0].shape[2]);
  const int64_t M = places.tokens();
  const std::vector<double> new_rows[2] = {k.data, read(node.inputs[2], layer)};
  for (const size_t side : {0, 1}) {
    for (int64_t s = 0; s < S; ++s)
      keep(cache[side], places.of(s, static_cast<int64_t>(positions[s])), &new_rows[side][s * K * D]);
    write(node.outputs[1 + side], cache[side].data, layer);
  }
  std::vector<double> out(q.data.size(), 0.0);
  for (int64_t row = 0; row < S * H; ++row) {
    const int64_t s = row / H, kv_head = row % H / (H / K);
    const auto position = static_cast<int64_t>(positions[s]);
    const auto element = [&](size_t side, int64_t j, int64_t d) {
      if (j == position) return new_rows[side][(s * K + kv_head) * D + d];
      const CachePlaces::Place at = places.of(s, j);
      return cache[side].data.at(((at.unit * K + kv_head) * cache[side].shape[2] + at.token) * D + d);
    };
    std::vector<double> weight;
    for (int64_t j = 0; j <= position; ++j) {
      double product = 0;
      for (int64_t d = 0; d < D; ++d) product += q.data[row * D + d] * element(0, j, d);
      weight.push_back(AttentionScore(node, first_layer_ + layer, M, position, j, product).value);
    }
    const double largest = *std::ranges::max_element(weight);
    double sum = 0;
    for (double& w : weight) sum += w = std::exp(w - largest);
    for (int64_t j = 0; j <= position; ++j) {
      for (int64_t d = 0; d < D; ++d) out[row * D + d] += weight[j] / sum * element(1, j, d);
    }
  }
  write(node.outputs[0], out, layer);
}

// By the book: p = softmax(scale q k^T); d_v = (p keep)^T d_o; d_p = keep * (d_o v^T); d_s = p (d_p - sum(p
// d_p)).
void Interpreter::run_attention_backward(const ir::Node& node, int layer) {
  const ops::Tensor64 d_out = tensor(node.inputs[0], layer), lse = tensor(node.inputs[2], layer);
  const ops::Tensor64 q = tensor(node.inputs[3], layer), k = tensor(node.inputs[4], layer),
                      v = tensor(node.inputs[5], layer);
  const AttentionDropout dropout(node, read(node.inputs[6])[0], read(node.inputs[7])[0],
                                 first_layer_ + layer);
  const Documents documents(node, 8, [&](ir::Use use) { return read(use); });
  const int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], K = k.shape[2];
  const double scale = node.number("scale");
  std::vector<double> d_q(q.data.size()), d_k(k.data.size()), d_v(v.data.size());
  for (int64_t row = 0; row < B * H * T; ++row) {
    const int64_t b = row / (H * T), h = row / T % H, i = row % T;
    const auto query = [&](int64_t d) { return ((b * T + i) * H + h) * D + d; };
    const auto key = [&](int64_t j, int64_t d) { return ((b * T + j) * K + h / (H / K)) * D + d; };
    std::vector<double> p(T), keep(T), derivative(T), d_p(T, 0.0);
    double mean = 0;
    for (int64_t j = 0; j < T; ++j) {
      double matmul = 0;
      for (int64_t d = 0; d < D; ++d) matmul += q.data[query(d)] * k.data[key(j, d)];
      const AttentionScore score(node, first_layer_ + layer, T, i, j, matmul);
      p[j] = std::exp(documents.of(score.value, b * T + i, j) - lse.data[row]);
      derivative[j] = score.derivative;
      keep[j] = dropout.factor(b * H + h, T, i, j);
      for (int64_t d = 0; d < D; ++d) d_p[j] += keep[j] * d_out.data[query(d)] * v.data[key(j, d)];
      mean += p[j] * d_p[j];
    }
    for (int64_t j = 0; j < T; ++j) {
      const double d_score = p[j] * (d_p[j] - mean) * scale * derivative[j];
      for (int64_t d = 0; d < D; ++d) {
        d_q[query(d)] += d_score * k.data[key(j, d)];
        d_k[key(j, d)] += d_score * q.data[query(d)];
        d_v[key(j, d)] += p[j] * keep[j] * d_out.data[query(d)];
      }
    }
  }
  write(node.outputs[0], d_q, layer);
  write(node.outputs[1], d_k, layer);
  write(node.outputs[2], d_v, layer);
  if (node.outputs.size() < 4) return;
  std::vector<double> sums = read(node.outputs[3], layer);
  if (!node.flag("accumulate")) sums.assign(sums.size(), 0.0);
  for (int64_t token = 0; token < B * T; ++token) {
    size_t to = 0;
    for (const std::vector<double>* part : {&d_q, &d_k, &d_v}) {
      const int64_t width = static_cast<int64_t>(part->size()) / (B * T);
      for (int64_t c = 0; c < width; ++c) sums.at(to++) += part->at(token * width + c);
    }
  }
  write(node.outputs[3], sums, layer);
}

void Interpreter::run_embedding_backward(const ir::Node& node, int layer) {
  const ops::Tensor64 ids = tensor(node.inputs[0], layer), d_y = tensor(node.inputs[1], layer);
  ops::Tensor64 table = tensor(node.outputs[0], layer);
  const int64_t width = table.shape[1];
  if (!node.flag("accumulate")) table.data.assign(table.data.size(), 0);
  for (size_t r = 0; r < ids.data.size(); ++r) {
    for (int64_t c = 0; c < width; ++c) {
      table.data.at(static_cast<int64_t>(ids.data[r]) * width + c) +=
          d_y.data[static_cast<int64_t>(r) * width + c];
    }
  }
  write(node.outputs[0], table.data, layer);
}

}  // namespace hydrac::test
