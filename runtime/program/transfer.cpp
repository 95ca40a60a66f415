#include "runtime/program/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

namespace {

template <typename T>
void fill(std::string_view what, const std::vector<T>& from, Place place, std::byte* inputs) {
  if (static_cast<int64_t>(from.size()) != place.elements) {
    throw std::logic_error(
        fmt::format("a batch has {} {}, the program takes {}", from.size(), what, place.elements));
  }
  std::ranges::copy(from, reinterpret_cast<T*>(inputs + place.offset));
}

// `usual` everywhere where the batch says nothing.
template <typename T>
void fill_or(T usual, std::string_view what, const std::vector<T>& from, Place place, std::byte* inputs) {
  if (!from.empty()) return fill(what, from, place, inputs);
  std::ranges::fill_n(reinterpret_cast<T*>(inputs + place.offset), place.elements, usual);
}

template <typename T>
T scalar(Place place, const std::byte* bytes, int64_t first) {
  T result;
  std::memcpy(&result, bytes + (place.offset - first), sizeof result);
  return result;
}

// Targets of a rank's part of the classes.
void fill_own_targets(const InputPlaces& places, const std::vector<int32_t>& targets, std::byte* inputs) {
  constexpr int32_t of_another = -1;  // ops::kTargetOfAnother
  std::vector<int32_t> own = targets;
  for (int32_t& target : own) {
    if (target < 0) continue;  // ignored
    const int64_t place = target - places.first_own_id;
    target = place >= 0 && place < places.own_ids ? static_cast<int32_t>(place) : of_another;
  }
  fill("targets", own, places.targets, inputs);
}

}  // namespace

OwnIds own_ids(const InputPlaces& places, std::span<const int32_t> ids) {
  OwnIds own;
  for (const int32_t id : ids) {
    own.rows.push_back(static_cast<int32_t>(id % places.own_ids));
    own.are_own.push_back(id - own.rows.back() == places.first_own_id ? 1.0f : 0.0f);
  }
  return own;
}

void fill_inputs(const InputPlaces& places, const Batch& batch, float inv_count, std::byte* inputs) {
  if (places.own_tokens) {
    const OwnIds own = own_ids(places, batch.tokens);
    fill("tokens", own.rows, places.tokens, inputs);
    fill("tokens", own.are_own, places.own_tokens, inputs);
  } else if (places.tokens) {
    fill("tokens", batch.tokens, places.tokens, inputs);
  }
  if (places.features) fill("features", batch.features, places.features, inputs);
  if (places.targets && places.own_targets) fill_own_targets(places, batch.targets, inputs);
  if (places.targets && !places.own_targets) fill("targets", batch.targets, places.targets, inputs);
  if (places.documents) fill("documents", batch.documents, places.documents, inputs);
  if (places.positions) fill("positions", batch.positions, places.positions, inputs);
  if (places.target_weights) fill_or(1.0f, "weights", batch.weights, places.target_weights, inputs);
  if (places.segments) fill_or(int32_t{-1}, "segments", batch.segments, places.segments, inputs);
  if (places.chosen_reference) {
    fill_or(0.0f, "references", batch.chosen_reference, places.chosen_reference, inputs);
    fill_or(0.0f, "references", batch.rejected_reference, places.rejected_reference, inputs);
  }
  if (places.float_targets) fill("targets", batch.float_targets, places.float_targets, inputs);
  std::memcpy(inputs + places.inv_count.offset, &inv_count, sizeof inv_count);
}

StepResult step_result(const ProgramLayout& layout, const std::byte* bytes, int64_t first) {
  const ResultPlaces& places = layout.results;
  StepResult result;
  result.loss = scalar<float>(places.step_loss, bytes, first);
  result.grad_norm = scalar<float>(places.grad_norm, bytes, first);
  result.learning_rate = scalar<float>(places.learning_rate, bytes, first);
  if (places.loss_scale) {
    result.loss_scale = scalar<float>(places.loss_scale, bytes, first);
    result.skipped = scalar<int32_t>(places.skipped, bytes, first) != 0;
  }
  for (const MetricPlace& metric : layout.metrics)
    result.metrics.push_back({metric.text, scalar<float>(metric.place, bytes, first)});
  return result;
}

ByteRange step_result_range(const ProgramLayout& layout) {
  const ResultPlaces& places = layout.results;
  std::vector<int64_t> offsets;
  for (const Place& place :
       {places.step_loss, places.grad_norm, places.learning_rate, places.loss_scale, places.skipped})
    if (place) offsets.push_back(place.offset);
  for (const MetricPlace& metric : layout.metrics) offsets.push_back(metric.place.offset);
  const auto [low, high] = std::ranges::minmax(offsets);
  return {low, high + 4};
}

}  // namespace hydrac::runtime
