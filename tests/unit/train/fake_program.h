// A tiny model in plain C++ for the training loop's tests: its parameters depend on every batch, on their
// order, on the optimizer's state and on the micro-batch counter, so whatever a resume forgets shows up.
#pragma once
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/hash.h"
#include "runtime/train/step_program.h"

namespace hydrac::runtime {

inline constexpr int64_t kFakeVocab = 256;

// B = 2, T = 4; every third sample has one target only. Validation batch i has i + 1 targets of 3.
class FakeLoader final : public BatchLoader {
 public:
  explicit FakeLoader(int64_t eval_batches = 3) : eval_batches_(eval_batches) {}

  void fill_train(int64_t first_sample, Batch& out) const override {
    out.tokens.assign(8, 0);
    out.targets.assign(8, kIgnoredTarget);
    out.target_count = 0;
    for (int64_t row = 0; row < 2; ++row) {
      const int64_t sample = first_sample + row;
      for (int64_t t = 0; t < (without_targets ? 0 : sample % 3 == 0 ? 1 : 4); ++t) {
        const auto at = static_cast<size_t>(row * 4 + t);
        out.tokens[at] = static_cast<int32_t>(mix64(static_cast<uint64_t>(sample * 4 + t)) % kFakeVocab);
        out.targets[at] = static_cast<int32_t>(mix64(static_cast<uint64_t>(sample * 4 + t + 1)) % kFakeVocab);
        ++out.target_count;
      }
    }
  }
  void fill_eval(int64_t index, Batch& out) const override {
    out.tokens.assign(8, static_cast<int32_t>(index));
    out.targets.assign(8, kIgnoredTarget);
    out.target_count = without_targets ? 0 : index + 1;
    for (int64_t i = 0; i < out.target_count; ++i) out.targets[static_cast<size_t>(i)] = 3;
  }
  int64_t eval_batches() const override { return eval_batches_; }
  int64_t samples_per_epoch() const override { return 100; }
  int64_t batch_size() const override { return 2; }

  bool without_targets = false;

 private:
  int64_t eval_batches_;
};

class FakeProgram final : public StepProgram {
 public:
  std::function<void(int64_t step)> in_update = [](int64_t) {};    // within the update that completes `step`
  std::function<void(int64_t step)> in_evaluate = [](int64_t) {};  // before each batch
  std::function<void(int64_t step)> in_parameters = [](int64_t) {};  // as they are asked for
  float loss_factor = 1, grad_norm_factor = 1, eval_factor = 1;
  std::vector<float> inv_counts;              // of all micro-steps
  std::vector<int32_t> evaluated;             // the first token of all batches
  std::vector<std::vector<int32_t>> prompts;  // of all next_logits()
  bool generates = true;
  float favourite = 0;  // added to the logit of token 0
  std::vector<float> weight, bias, momentum;

  void initialize() override {
    weight.assign(12, 0);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.01f * static_cast<float>(i);
    bias.assign(2, 0.5f);
    momentum.assign(14, 0);
    gradient_.assign(14, 0);
    loss_ = 0;
    counters_ = {};
  }

  void micro_step(const Batch& batch, float inv_count) override {
    inv_counts.push_back(inv_count);
    const auto noise = static_cast<float>(mix64(static_cast<uint64_t>(counters_.rng_step++)) % 1000) * 1e-3f;
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      if (batch.targets[i] == kIgnoredTarget) continue;
      const size_t w = static_cast<size_t>(batch.tokens[i]) % 12, b = w % 2;
      const float wanted = static_cast<float>(batch.targets[i]) / 256;
      const float error = weight[w] + bias[b] - wanted + 0.1f * noise;
      loss_ += error * error * inv_count;
      gradient_[w] += 2 * error * inv_count;
      gradient_[12 + b] += 2 * error * inv_count;
    }
  }

  StepResult update() override {
    in_update(counters_.step + 1);
    float square = 0;
    for (size_t i = 0; i < gradient_.size(); ++i) {
      square += gradient_[i] * gradient_[i];
      momentum[i] = 0.9f * momentum[i] + gradient_[i];
      (i < 12 ? weight[i] : bias[i - 12]) -= 0.01f * momentum[i];
      gradient_[i] = 0;
    }
    ++counters_.step;
    return {std::exchange(loss_, 0.0f) * loss_factor, std::sqrt(square) * grad_norm_factor,
            0.003f / static_cast<float>(counters_.step)};
  }

  double evaluate(const Batch& batch) override {
    in_evaluate(counters_.step);
    evaluated.push_back(batch.tokens[0]);
    double loss = 0;
    for (const int32_t target : batch.targets) {
      if (target != kIgnoredTarget) loss += double{std::abs(weight[0])} + batch.tokens[0];
    }
    return loss * eval_factor;
  }

  std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position) override {
    prompts.emplace_back(prompt.begin(), prompt.end());
    const auto seen = static_cast<uint64_t>(prompt[static_cast<size_t>(position)]) + 1000 * prompt.size();
    logits_.resize(kFakeVocab + 44);  // a model may know more tokens than its tokenizer: here the likeliest
    for (size_t id = 0; id < logits_.size(); ++id) {
      logits_[id] = static_cast<float>(mix64(seen * 512 + id) % 1000) / 100;
      if (id >= kFakeVocab) logits_[id] = 1000;
    }
    logits_[0] = favourite;
    return logits_;
  }
  bool can_generate() const override { return generates; }
  int64_t context_length() const override { return 5; }

  std::vector<NamedTensor> parameters() override {
    in_parameters(counters_.step);
    return {{"weight", {4, 3}, weight.data(), true}, {"bias", {2}, bias.data()}};
  }
  std::vector<NamedTensor> optimizer_state() override { return {{"momentum", {14}, momentum.data()}}; }
  Counters counters() const override { return counters_; }
  void set_counters(const Counters& counters) override { counters_ = counters; }
  int64_t arena_bytes() const override { return int64_t{1} << 29; }
  double flop_per_target() const override { return 10; }

 private:
  std::vector<float> gradient_, logits_;
  float loss_ = 0;
  Counters counters_;
};

}  // namespace hydrac::runtime
