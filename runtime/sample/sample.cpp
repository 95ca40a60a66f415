#include "runtime/sample/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

struct Candidate {
  float logit;
  int32_t id;
};

// A total order: by logit, equal ones by id.
bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
bool less_likely(const Candidate& a, const Candidate& b) {
  return likelier(b, a);
}

uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The first of the highest logits.
Candidate most_likely(std::span<const float> logits) {
  if (logits.empty()) throw RunError("cannot choose a token: there are no logits");
  Candidate best{-INFINITY, -1};
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || logit == INFINITY) {
      throw RunError(fmt::format(
          "cannot choose a token: the logit of token {} is {}; the model's parameters are damaged or "
          "its training diverged",
          i, std::isnan(logit) ? "NaN" : "infinite"));
    }
    if (logit > best.logit) best = {logit, static_cast<int32_t>(i)};
  }
  if (best.id < 0) throw RunError("cannot choose a token: every logit is -infinity");
  return best;
}

// A candidate's unnormalized probability, 1 for the most likely.
class Weights {
 public:
  Weights(float highest, double temperature) : highest_(highest), temperature_(temperature) {}
  double operator()(const Candidate& candidate) const {
    return std::exp((static_cast<double>(candidate.logit) - highest_) / temperature_);
  }
  double sum(std::span<const Candidate> candidates) const {
    double total = 0;
    for (const Candidate& candidate : candidates) total += (*this)(candidate);
    return total;
  }

 private:
  double highest_, temperature_;
};

// `uniform` in [0, 1) falls into one candidate's share of `total`, in the order in which they stand.
int32_t draw(std::span<const Candidate> candidates, const Weights& weight, double total, double uniform) {
  double left = uniform * total;
  const Candidate* last = nullptr;  // with a weight: what rounding leaves over falls to it
  for (const Candidate& candidate : candidates) {
    const double w = weight(candidate);
    if (w == 0) continue;
    last = &candidate;
    left -= w;
    if (left < 0) break;
  }
  return last->id;
}

// Moves the fewest most likely candidates that reach `share` of the total to the front, in order; returns
// their number. Uses a heap, because these are usually few of many.
size_t nucleus(std::vector<Candidate>& candidates, const Weights& weight, double share) {
  const double wanted = share * weight.sum(candidates);
  std::make_heap(candidates.begin(), candidates.end(), less_likely);
  double reached = 0;
  auto heap_end = candidates.end();
  while (heap_end != candidates.begin() && reached < wanted) {
    std::pop_heap(candidates.begin(), heap_end, less_likely);
    --heap_end;
    reached += weight(*heap_end);
  }
  std::reverse(candidates.begin(), candidates.end());
  return static_cast<size_t>(candidates.end() - heap_end);
}

// Keeps the candidates that are likely enough, in order.
void keep_likely(std::vector<Candidate>& candidates, const Weights& weight, double least) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return weight(candidate) < least; });
  std::sort(candidates.begin(), candidates.end(), likelier);
}

// How many of candidates in order reach `share` of `total`; nothing where all of them do not.
std::optional<size_t> reaching(std::span<const Candidate> candidates, const Weights& weight, double share,
                               double total) {
  double reached = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    reached += weight(candidates[i]);
    if (reached >= share * total) return i + 1;
  }
  return std::nullopt;
}

// Each token of the text is penalized once, however often it stands there.
std::vector<float> penalized(std::span<const float> logits, std::span<const int32_t> text, double penalty) {
  std::vector<float> result(logits.begin(), logits.end());
  for (const int32_t id : text) {
    const auto at = static_cast<size_t>(id);
    if (at >= logits.size()) continue;
    const double logit = logits[at];
    result[at] = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
  return result;
}

}  // namespace

void check_sample_options(const SampleOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    throw InputError(
        fmt::format("temperature is {}; it must be 0 (the most likely token) or more", options.temperature));
  }
  if (options.top_k < 0) {
    throw InputError(fmt::format("top_k is {}; it must be 0 (all tokens) or more", options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw InputError(
        fmt::format("top_p is {}; it must be above 0 and at most 1 (all tokens)", options.top_p));
  }
  if (!(options.min_p >= 0 && options.min_p < 1)) {
    throw InputError(
        fmt::format("min_p is {}; it must be 0 (all tokens) or more and below 1", options.min_p));
  }
  if (!(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty))) {
    throw InputError(fmt::format("repetition_penalty is {}; it must be above 0, and 1 is none",
                                 options.repetition_penalty));
  }
}

double sample_uniform(uint64_t seed, uint64_t position) {
  const uint64_t bits = mix64(mix64(seed) + (position + 1) * 0x9e3779b97f4a7c15);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int32_t sample_token(std::span<const float> logits, const SampleOptions& options, uint64_t position,
                     std::span<const int32_t> text) {
  check_sample_options(options);
  std::vector<float> changed;
  if (options.repetition_penalty != 1) logits = changed = penalized(logits, text, options.repetition_penalty);
  const Candidate best = most_likely(logits);
  if (options.temperature == 0) return best.id;

  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates[i] = {logits[i], static_cast<int32_t>(i)};
  if (const auto k = static_cast<size_t>(options.top_k); k > 0 && k < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k) - 1,
                     candidates.end(), likelier);
    candidates.resize(k);
    // A fixed order, so that sums and draws do not depend on how the standard library selects.
    std::sort(candidates.begin(), candidates.end(), likelier);
  }
  const Weights weight(best.logit, options.temperature);
  if (options.top_p < 1) candidates.resize(nucleus(candidates, weight, options.top_p));
  if (options.min_p > 0) keep_likely(candidates, weight, options.min_p);
  return draw(candidates, weight, weight.sum(candidates), sample_uniform(options.seed, position));
}

bool samples_from_all(const SampleOptions& options) {
  return options.temperature > 0 && options.top_k == 0 && options.top_p == 1 && options.min_p == 0 &&
         options.repetition_penalty == 1;
}

bool samples_from_top(const SampleOptions& options, int64_t count) {
  if (options.repetition_penalty != 1) return false;
  return options.temperature == 0 || options.top_k <= count || options.top_p < 1 || options.min_p > 0;
}

std::optional<int32_t> sample_token(const TopLogits& top, const SampleOptions& options, uint64_t position) {
  check_sample_options(options);
  if (!samples_from_top(options, static_cast<int64_t>(top.values.size()))) return std::nullopt;
  if (top.ids.empty() || top.ids[0] < 0 || !std::isfinite(top.values[0]) || !std::isfinite(top.sum))
    return std::nullopt;
  if (options.temperature == 0) return top.ids[0];
  if (samples_from_all(options)) return top.drawn < 0 ? std::nullopt : std::optional(top.drawn);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < top.values.size() && top.ids[i] >= 0; ++i)
    candidates.push_back({top.values[i], top.ids[i]});
  const Weights weight(top.values[0], options.temperature);
  const bool is_whole = candidates.size() < top.values.size();
  double total = is_whole ? weight.sum(candidates) : top.sum;
  bool are_all = is_whole;  // that may be drawn
  if (options.top_k > 0 && options.top_k <= static_cast<int64_t>(top.values.size())) {
    candidates.resize(std::min(candidates.size(), static_cast<size_t>(options.top_k)));
    total = weight.sum(candidates);
    are_all = true;
  }
  if (options.top_p < 1) {
    const auto count = reaching(candidates, weight, options.top_p, total);
    if (!count && !are_all) return std::nullopt;
    candidates.resize(count.value_or(candidates.size()));
    are_all = true;
  }
  if (!are_all && weight(candidates.back()) >= options.min_p) return std::nullopt;
  if (options.min_p > 0) keep_likely(candidates, weight, options.min_p);
  return draw(candidates, weight, weight.sum(candidates), sample_uniform(options.seed, position));
}

}  // namespace hydrac::runtime
