// What BERT makes of a text, by its definition in float64.
#pragma once
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/support/bert_folder.h"

namespace hydrac::test {

class BertReference {
 public:
  using Rows = std::vector<std::vector<double>>;  // [tokens][width]

  explicit BertReference(const BertFolder& bert) : bert_(bert) {}

  // The last hidden states of one text.
  Rows hidden(const std::vector<int32_t>& ids) const {
    const Numbers& words = numbers("embeddings.word_embeddings.weight");
    const Numbers& positions = numbers("embeddings.position_embeddings.weight");
    const Numbers& types = numbers("embeddings.token_type_embeddings.weight");
    const auto width = static_cast<size_t>(bert_.width);
    Rows x(ids.size(), std::vector<double>(width));
    for (size_t t = 0; t < ids.size(); ++t)
      for (size_t c = 0; c < width; ++c)
        x[t][c] =
            double{words[static_cast<size_t>(ids[t]) * width + c]} + positions[t * width + c] + types[c];
    x = normed(x, "embeddings.LayerNorm");
    for (int64_t layer = 0; layer < bert_.layers; ++layer) {
      const std::string name = "encoder.layer." + std::to_string(layer) + ".";
      x = normed(sum(x, linear(attention(x, name + "attention.self."), name + "attention.output.dense")),
                 name + "attention.output.LayerNorm");
      Rows inner = linear(x, name + "intermediate.dense");
      for (std::vector<double>& row : inner)
        for (double& value : row) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
      x = normed(sum(x, linear(inner, name + "output.dense")), name + "output.LayerNorm");
    }
    return x;
  }

 private:
  using Numbers = std::vector<float>;
  const Numbers& numbers(const std::string& name) const {
    return bert_.tensors.at(bert_.prefix + name).numbers;
  }
  static Rows sum(Rows a, const Rows& b) {
    for (size_t t = 0; t < a.size(); ++t)
      for (size_t c = 0; c < a[t].size(); ++c) a[t][c] += b[t][c];
    return a;
  }
  Rows linear(const Rows& x, const std::string& name) const {
    const Numbers &weight = numbers(name + ".weight"), &bias = numbers(name + ".bias");
    Rows y;
    for (const std::vector<double>& row : x) {
      y.emplace_back(bias.begin(), bias.end());
      for (size_t o = 0; o < bias.size(); ++o)
        for (size_t i = 0; i < row.size(); ++i) y.back()[o] += row[i] * weight[o * row.size() + i];
    }
    return y;
  }
  Rows normed(Rows x, const std::string& name) const {
    const Numbers &weight = numbers(name + ".weight"), &bias = numbers(name + ".bias");
    for (std::vector<double>& row : x) {
      const auto count = static_cast<double>(row.size());
      const double mean = std::accumulate(row.begin(), row.end(), 0.0) / count;
      double variance = 0;
      for (const double value : row) variance += (value - mean) * (value - mean) / count;
      for (size_t c = 0; c < row.size(); ++c)
        row[c] = (row[c] - mean) / std::sqrt(variance + 1e-12) * weight[c] + bias[c];
    }
    return x;
  }
  Rows attention(const Rows& x, const std::string& name) const {
    const Rows q = linear(x, name + "query"), k = linear(x, name + "key"), v = linear(x, name + "value");
    const auto head = static_cast<size_t>(bert_.width / bert_.heads);
    Rows mixed(x.size(), std::vector<double>(x[0].size(), 0));
    for (size_t first = 0; first < x[0].size(); first += head) {
      for (size_t i = 0; i < x.size(); ++i) {
        std::vector<double> weights;
        for (size_t j = 0; j < x.size(); ++j) {
          double score = 0;
          for (size_t d = first; d < first + head; ++d) score += q[i][d] * k[j][d];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head))));
        }
        const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (size_t j = 0; j < x.size(); ++j)
          for (size_t d = first; d < first + head; ++d) mixed[i][d] += weights[j] / all * v[j][d];
      }
    }
    return mixed;
  }

  const BertFolder& bert_;
};

}  // namespace hydrac::test
