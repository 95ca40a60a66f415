// Attention and its gradients in float64 on the host, straight from the formulas, to test the CUDA
// kernels by.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "hydrac/random.h"

namespace hydrac::test {

struct AttentionCase {
  int batch, tokens, heads, kv_heads, head_dim;
  double dropout;
  bool causal;
  std::uint32_t key;  // of the dropout's random bits
  int window = 0;     // tokens that a query sees, its own among them; 0 = all that `causal` lets it see
  double softcap = 0;
  int document = 0;    // tokens of a document, that of sequence b one more for each b; 0 = sequences are one
  bool steep = false;  // queries and keys are steep_element()s

  double scale() const { return steep ? 1 : 1 / std::sqrt(static_cast<double>(head_dim)); }
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(dropout * 65536.0); }
  int group() const { return heads / kv_heads; }
  bool sees(std::int64_t batch, std::int64_t query, std::int64_t key_token) const {
    const std::int64_t length = document + batch;
    return (!causal || key_token <= query) && (window == 0 || key_token > query - window) &&
           (document == 0 || query / length == key_token / length);
  }
  // [B,T,2]: where each token's document begins and ends.
  std::vector<std::int32_t> documents() const {
    std::vector<std::int32_t> all;
    for (int token = 0; token < batch * tokens; ++token) {
      const int length = document == 0 ? tokens : document + token / tokens;
      const int first = token % tokens / length * length;
      all.push_back(first);
      all.push_back(first + length < tokens ? first + length : tokens);
    }
    return all;
  }
};

// Queries and keys whose scores lie between -10,000 and 10,000: element 0 makes a level for each 16 keys, the
// others some units of difference within. Exact in bf16, and so are the scores in float32.
inline float steep_element(bool is_key, std::int64_t token, int d, float random) {
  if (d > 0) return std::round(random * 4) / 8;
  return is_key ? static_cast<float>(token / 16 * 37 % 63 * 2 - 62) : 160.0f;
}

// q, d_q, out, d_out [B,T,H,D]; k, v, d_k, d_v [B,T,K,D]; lse [B,H,T].
struct AttentionTensors {
  std::vector<double> q, k, v, d_out, out, lse, d_q, d_k, d_v;
};

inline void parallel_for(int count, const std::function<void(int)>& body) {
  const int workers = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int i = worker; i < count; i += workers) body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Fills what follows from q, k, v and d_out. One unit of work is one (batch, kv head), so none shares what it
// writes.
inline void attention_reference(const AttentionCase& c, AttentionTensors& x) {
  const int T = c.tokens, D = c.head_dim;
  x.out.assign(x.q.size(), 0);
  x.d_q.assign(x.q.size(), 0);
  x.d_k.assign(x.k.size(), 0);
  x.d_v.assign(x.k.size(), 0);
  x.lse.assign(static_cast<std::size_t>(c.batch) * c.heads * T, 0);
  const auto dot = [D](const double* a, const double* b) {
    double sum = 0;
    for (int d = 0; d < D; ++d) sum += a[d] * b[d];
    return sum;
  };
  parallel_for(c.batch * c.kv_heads, [&](int unit) {
    const std::int64_t b = unit / c.kv_heads, kv = unit % c.kv_heads;
    const auto kv_row = [&](std::int64_t j) { return ((b * T + j) * c.kv_heads + kv) * D; };
    std::vector<double> weight(T), factor(T), derivative(T);
    for (std::int64_t h = kv * c.group(); h < (kv + 1) * c.group(); ++h) {
      for (std::int64_t i = 0; i < T; ++i) {
        const std::int64_t row = ((b * T + i) * c.heads + h) * D;
        double sum = 0, delta = 0, largest = -HUGE_VAL;
        for (std::int64_t j = 0; j < T; ++j) {
          weight[j] = 0;
          if (!c.sees(b, i, j)) continue;
          double score = c.scale() * dot(&x.q[row], &x.k[kv_row(j)]);
          derivative[j] = 1;
          if (c.softcap > 0) {
            const double ratio = std::tanh(score / c.softcap);
            score = c.softcap * ratio;
            derivative[j] = 1 - ratio * ratio;
          }
          weight[j] = score;
          largest = std::max(largest, score);
          const std::uint32_t bits = random_16_bits(c.key, score_index(b * c.heads + h, T, i, j));
          factor[j] = c.dropout > 0 && bits < c.threshold() ? 0 : 1 / (1 - c.dropout);
        }
        for (std::int64_t j = 0; j < T; ++j) {
          if (c.sees(b, i, j)) sum += weight[j] = std::exp(weight[j] - largest);
        }
        x.lse[(b * c.heads + h) * T + i] = largest + std::log(sum);
        for (std::int64_t j = 0; j < T; ++j) {
          if (!c.sees(b, i, j)) continue;
          weight[j] /= sum;
          for (int d = 0; d < D; ++d) x.out[row + d] += weight[j] * factor[j] * x.v[kv_row(j) + d];
        }
        delta = dot(&x.d_out[row], &x.out[row]);
        for (std::int64_t j = 0; j < T; ++j) {
          if (!c.sees(b, i, j)) continue;
          const double d_probability = factor[j] * dot(&x.d_out[row], &x.v[kv_row(j)]);
          const double d_score = c.scale() * derivative[j] * weight[j] * (d_probability - delta);
          for (int d = 0; d < D; ++d) {
            x.d_q[row + d] += d_score * x.k[kv_row(j) + d];
            x.d_k[kv_row(j) + d] += d_score * x.q[row + d];
            x.d_v[kv_row(j) + d] += weight[j] * factor[j] * x.d_out[row + d];
          }
        }
      }
    }
  });
}

}  // namespace hydrac::test
