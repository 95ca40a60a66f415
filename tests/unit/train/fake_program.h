// A tiny model in plain C++ for the training loop's tests: its parameters depend on every batch, on their
// order, on the optimizer's state and on the micro-batch counter, so whatever a resume forgets shows up. It
// can have several steps in flight, and it fails when it is used in a way that a device's queue would not
// bear.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/hash.h"
#include "runtime/log/monotonic.h"
#include "runtime/program/step_program.h"

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

class FakeProgram : public StepProgram {
 public:
  std::function<void(int64_t step)> in_update = [](int64_t) {};    // within the update that completes `step`
  std::function<void(int64_t step)> in_finish = [](int64_t) {};    // as the host waits for `step`
  std::function<void(int64_t step)> in_evaluate = [](int64_t) {};  // before each batch
  std::function<void(int64_t step)> in_download = [](int64_t) {};  // before the first of the parameters
  int64_t depth = 1;                                               // steps in flight
  bool lazy = false;  // a slow device: a step is worked on when it is waited for; else when it is begun
  int64_t most_unfinished = 0;  // that there ever were
  RecordedChoices chosen;
  std::optional<DeviceLoad> load;
  // With loss scaling: the gradients of steps `overflows` hold infinities, which halves the scale and changes
  // nothing else; four good steps in a row double it.
  bool scales = false;
  std::set<int64_t> overflows;
  float loss_scale = 0;
  int32_t good_steps = 0;
  // Where it is set, set_learning_rate() changes the rate; the "schedule" halves it.
  std::optional<DecimalRate> found_rate;
  std::vector<double> rates;  // of all steps, where found_rate is set
  float loss_factor = 1, grad_norm_factor = 1, eval_factor = 1;
  std::vector<float> inv_counts;              // of all micro-steps
  std::vector<int32_t> evaluated;             // the first token of all batches
  std::vector<std::vector<int32_t>> prompts;  // of all Function::generate
  bool generates = true;
  size_t replies = 2;   // a set
  float favourite = 0;  // added to the logit of token 0
  std::vector<float> weight, bias, momentum;
  std::vector<std::pair<bool, int64_t>> timed;  // calls of time_calls(), and after how many steps

  void start(const std::vector<NamedTensor>&) override {
    weight.assign(12, 0);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.01f * static_cast<float>(i);
    bias.assign(2, 0.5f);
    momentum.assign(14, 0);
    gradient_.assign(14, 0);
    loss_ = 0;
    counters_ = {};
    loss_scale = 1024;
    good_steps = 0;
    if (found_rate) {
      found_rate = DecimalRate{1, 100};
      ports_.state.rate_digits = {14, 1};
    }
    scheduled_ = true;
  }

  ProgramFacts facts() const override {
    return {.generates = generates,
            .context_length = 5,
            .steps_in_flight = depth,
            .arena_bytes = int64_t{1} << 29,
            .flop_per_target = 10};
  }
  ProgramTensors tensors() override {
    NamedTensor w = named("weight", {4, 3}, weight.data());
    w.transposed = true;
    return {.parameters = {w, named("bias", {2}, bias.data())}, .optimizer_state = optimizer_state()};
  }

  // One call a step, from its begin to its end.
  void time_calls(bool on) override { timed.emplace_back(on, finished_); }
  std::vector<CallSpan> take_timed_calls() override {
    return {{"kernel \"all\"", 3, "model", 1, monotonic_seconds() - 0.25, monotonic_seconds()}};
  }

  void micro_step(const Batch& batch, float inv_count) override {
    if (static_cast<int64_t>(queue_.size()) >= depth) throw std::logic_error("a step too many in flight");
    inv_counts.push_back(inv_count);
    begun_.emplace_back(batch, inv_count);
  }

  void update() override {
    queue_.push_back({std::exchange(begun_, {}), std::nullopt});
    most_unfinished = std::max(most_unfinished, static_cast<int64_t>(queue_.size()));
    if (!lazy) queue_.back().result = work(queue_.back().micro_batches);
  }

  StepResult finish_step() override {
    Queued& oldest = queue_.front();
    if (!oldest.result) oldest.result = work(oldest.micro_batches);
    const StepResult result = *oldest.result;
    queue_.pop_front();
    in_finish(++finished_);
    return result;
  }

  const Ports& ports() const override { return ports_; }
  void write_ports(std::span<const PortBytes> ports) override {
    require_still();
    for (const auto& [port, bytes] : ports) {
      const std::span words(reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / 4);
      const auto number = std::bit_cast<float>(words[0]);
      if (port == ports_.inputs.prompt) prompt_.assign(words.begin(), words.end());
      if (port == ports_.inputs.position) position_ = words[0];
      if (port == ports_.results.reply_embeddings) distances_.clear();
      if (port == ports_.state.step) counters_.step = finished_ = words[0];
      if (port == ports_.state.rng_step) counters_.rng_step = words[0];
      if (port == ports_.state.rate_digits) found_rate->digits = number;
      if (port == ports_.state.rate_unit) found_rate->unit = number;
      if (port == ports_.state.rate_trial) scheduled_ = number == 0;
    }
  }
  void compute(Function function, const Batch* batch) override {
    require_still();
    if (function == Function::generate) generate();
    if (function == Function::evaluate) sum_losses(*batch);
    if (function == Function::score) score(*batch);
    if (function == Function::score_base) base_losses_.assign(batch->targets.size(), 1.5f);
  }
  std::span<const std::byte> read_port(Place port) override {
    require_still();
    const ResultPlaces& results = ports_.results;
    if (port == results.target_losses) return bytes_of(losses_);
    if (port == results.base_target_losses) return bytes_of(base_losses_);
    if (port == results.reply_distance) return bytes_of(means_);
    if (port == results.reply_distances) return bytes_of(distances_);
    if (port == results.logits) return bytes_of(logits_);
    if (port == results.eval_loss) return one(eval_loss_);
    if (port == ports_.state.step) return one(static_cast<int32_t>(counters_.step));
    if (port == ports_.state.rng_step) return one(static_cast<uint32_t>(counters_.rng_step));
    return one(port == ports_.state.rate_digits ? found_rate.value().digits : found_rate.value().unit);
  }
  void begin_decode(std::span<const PortBytes>, bool) override {}
  std::vector<TopLogits> finish_decode() override { return {}; }
  // Batches with weights are those of replies; their losses are never added up.
  void begin_replies() override {}
  void end_replies() override {}

  int64_t unfinished() const { return static_cast<int64_t>(queue_.size()); }

  void download(const NamedTensor& tensor, std::span<std::byte> to) override {
    require_still();
    if (tensor.name == "weight") in_download(counters_.step);
    if (to.size() != static_cast<size_t>(tensor.bytes())) throw std::logic_error("not a whole tensor");
    std::memcpy(to.data(), reinterpret_cast<const void*>(tensor.address), to.size());
  }
  using StepProgram::upload;
  void upload(const NamedTensor& tensor, SafetensorsDtype, std::span<const std::byte> from) override {
    require_still();
    if (from.size() != static_cast<size_t>(tensor.bytes())) throw std::logic_error("not a whole tensor");
    std::memcpy(reinterpret_cast<void*>(tensor.address), from.data(), from.size());
  }
  std::string description() const override { return "a fake"; }
  RecordedChoices choices() const override { return chosen; }
  std::optional<DeviceLoad> device_load() override { return load; }

 private:
  struct Queued {
    std::vector<std::pair<Batch, float>> micro_batches;
    std::optional<StepResult> result;
  };

  // Offsets only tell ports from each other.
  static Ports fake_ports() {
    Ports ports;
    ports.inputs.prompt = {1, 5};
    ports.inputs.position = {2, 1};
    ports.state.step = {3, 1};
    ports.state.rng_step = {4, 1};
    ports.state.rate_unit = {5, 1};
    ports.state.rate_trial = {6, 1};
    ports.results.eval_loss = {7, 1};
    ports.results.logits = {8, kFakeVocab + 44};
    ports.results.vocab_size = kFakeVocab + 44;
    ports.results.target_losses = {9, 1};
    ports.results.base_target_losses = {10, 1};
    ports.results.reply_embeddings = {11, 1};
    ports.results.reply_distance = {12, 1};
    ports.results.reply_distances = {13, 1};
    return ports;
  }

  static NamedTensor named(const char* name, std::vector<int64_t> shape, void* data) {
    return {.name = name, .shape = std::move(shape), .address = reinterpret_cast<uint64_t>(data)};
  }

  static std::span<const std::byte> bytes_of(const std::vector<float>& numbers) {
    return std::as_bytes(std::span(numbers));
  }
  template <class T>
  std::span<const std::byte> one(T number) {
    std::memcpy(&one_, &number, sizeof one_);
    return std::as_bytes(std::span(&one_, 1));
  }

  void sum_losses(const Batch& batch) {
    in_evaluate(counters_.step);
    evaluated.push_back(batch.tokens[0]);
    double loss = 0;
    for (const int32_t target : batch.targets) {
      if (target != kIgnoredTarget) loss += double{std::abs(weight[0])} + batch.tokens[0];
    }
    eval_loss_ = static_cast<float>(loss * eval_factor);
  }

  // A reply's distance is the sum of its tokens; that of its set the mean of these. Only the base's losses
  // differ.
  void score(const Batch& batch) {
    losses_.assign(batch.targets.size(), 1);
    for (size_t i = 0; i < batch.segments.size(); ++i) {
      if (batch.segments[i] < 0) continue;
      const auto segment = static_cast<size_t>(batch.segments[i]);
      distances_.resize(std::max(distances_.size(), segment + 1));
      distances_[segment] += static_cast<float>(batch.tokens[i]) / 1000;
    }
    means_.clear();
    for (size_t i = 0; i + 1 < distances_.size(); i += replies)
      means_.push_back(distances_[i] + distances_[i + 1]);
  }

  void generate() {
    const std::span prompt = std::span(prompt_).first(static_cast<size_t>(position_) + 1);
    prompts.emplace_back(prompt.begin(), prompt.end());
    const auto seen = static_cast<uint64_t>(prompt.back()) + 1000 * prompt.size();
    logits_.resize(kFakeVocab + 44);  // a model may know more tokens than its tokenizer: here the likeliest
    for (size_t id = 0; id < logits_.size(); ++id) {
      logits_[id] = static_cast<float>(mix64(seen * 512 + id) % 1000) / 100;
      if (id >= kFakeVocab) logits_[id] = 1000;
    }
    logits_[0] = favourite;
  }

  std::vector<NamedTensor> optimizer_state() {
    std::vector<NamedTensor> state{named("momentum", {14}, momentum.data())};
    if (found_rate) {
      state.push_back(named("rate.digits", {}, &found_rate->digits));
      state.push_back(named("rate.unit", {}, &found_rate->unit));
    }
    if (!scales) return state;
    state.push_back(named("loss_scale", {}, &loss_scale));
    state.push_back(named("good_steps", {}, &good_steps));
    state.back().dtype = SafetensorsDtype::i32;
    return state;
  }

  void require_still() const {
    if (!begun_.empty() || !queue_.empty()) throw std::logic_error("used while steps are in flight");
  }

  StepResult work(const std::vector<std::pair<Batch, float>>& micro_batches) {
    for (const auto& [batch, inv_count] : micro_batches) add_gradient(batch, inv_count);
    in_update(counters_.step + 1);
    return apply_gradient();
  }

  void add_gradient(const Batch& batch, float inv_count) {
    const auto noise = static_cast<float>(mix64(static_cast<uint64_t>(counters_.rng_step++)) % 1000) * 1e-3f;
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      if (batch.targets[i] == kIgnoredTarget) continue;
      const size_t w = static_cast<size_t>(batch.tokens[i]) % 12, b = w % 2;
      const float wanted = static_cast<float>(batch.targets[i]) / 256;
      const float error = weight[w] + bias[b] - wanted + 0.1f * noise;
      if (batch.weights.empty()) loss_ += error * error * inv_count;
      const float weight_of_target = batch.weights.empty() ? 1 : batch.weights[i];
      gradient_[w] += 2 * error * inv_count * weight_of_target;
      gradient_[12 + b] += 2 * error * inv_count * weight_of_target;
    }
  }

  StepResult apply_gradient() {
    ++counters_.step;
    StepResult result;
    result.learning_rate = 0.003f / static_cast<float>(counters_.step);
    float rate = 0.01f;
    if (found_rate) {
      rates.push_back(found_rate->value() * (scheduled_ ? 0.5 : 1));
      result.learning_rate = rate = static_cast<float>(rates.back());
    }
    result.loss = std::exchange(loss_, 0.0f) * loss_factor;
    if (scales) result.loss_scale = loss_scale;
    const std::vector<float> gradient = std::exchange(gradient_, std::vector<float>(14, 0));
    if (overflows.contains(counters_.step)) {
      result.skipped = true;
      result.loss = result.grad_norm = std::numeric_limits<float>::infinity();
      loss_scale /= 2;
      good_steps = 0;
      return result;
    }
    float square = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      square += gradient[i] * gradient[i];
      momentum[i] = 0.9f * momentum[i] + gradient[i];
      (i < 12 ? weight[i] : bias[i - 12]) -= rate * momentum[i];
    }
    if (++good_steps == 4) {
      loss_scale *= 2;
      good_steps = 0;
    }
    result.grad_norm = std::sqrt(square) * grad_norm_factor;
    return result;
  }

  Ports ports_ = fake_ports();
  std::vector<std::pair<Batch, float>> begun_;
  std::deque<Queued> queue_;
  std::vector<float> gradient_, logits_, losses_, base_losses_, means_, distances_;
  std::vector<int32_t> prompt_;
  int32_t position_ = 0;
  float eval_loss_ = 0;
  uint32_t one_ = 0;  // that was read last
  float loss_ = 0;
  bool scheduled_ = true;
  int64_t finished_ = 0;
  Counters counters_;
};

}  // namespace hydrac::runtime
