#include "runtime/data/mix_order.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/epoch_windows.h"

namespace hydrac::runtime {

namespace {

constexpr uint64_t kMixture = 16;  // the purpose of a block's key

}  // namespace

MixOrder::MixOrder(std::vector<MixShare> sources, uint64_t seed) : sources_(std::move(sources)), seed_(seed) {
  Phase phase{0, std::vector<int64_t>(sources_.size()), {}};
  const auto is_exhausted = [&](size_t i) { return phase.drawn[i] >= sources_[i].most; };
  for (;;) {
    phase.parts = parts_of(phase.drawn);
    if (std::ranges::count(phase.parts, 0) == std::ssize(phase.parts)) {
      size_ = phase.begin;
      return;
    }
    phases_.push_back(phase);
    // The block in which the first source is exhausted.
    int64_t blocks = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < sources_.size(); ++i)
      if (phase.parts[i] > 0 && sources_[i].most < std::numeric_limits<int64_t>::max())
        blocks = std::min(blocks, (sources_[i].most - phase.drawn[i]) / phase.parts[i]);
    if (blocks == std::numeric_limits<int64_t>::max()) return;
    for (size_t i = 0; i < sources_.size(); ++i) phase.drawn[i] += blocks * phase.parts[i];
    const Block last = block_of(phases_.back(), blocks);
    phase.begin = last.begin;
    const auto any_exhausted = [&] {
      for (size_t i = 0; i < sources_.size(); ++i)
        if (phase.parts[i] > 0 && is_exhausted(i)) return true;
      return false;
    };
    for (size_t at = 0; !any_exhausted(); ++at, ++phase.begin) ++phase.drawn[last.places[at].source];
  }
}

// Shares of a block by largest remainders.
std::vector<int64_t> MixOrder::parts_of(const std::vector<int64_t>& drawn) const {
  std::vector<double> shares(sources_.size());
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] = drawn[i] < sources_[i].most ? sources_[i].weight : 0;
    sum += shares[i];
  }
  std::vector<int64_t> parts(shares.size());
  int64_t left = sum > 0 ? kBlock : 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    shares[i] *= kBlock / sum;
    parts[i] = std::max<int64_t>(1, static_cast<int64_t>(std::floor(shares[i])));
    left -= parts[i];
  }
  for (; left != 0; left -= left > 0 ? 1 : -1) {
    size_t best = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < shares.size(); ++i) {
      const double lacks = shares[i] - static_cast<double>(parts[i]);
      const bool may = left > 0 ? shares[i] > 0 : parts[i] > 1;
      if (may && (left > 0 ? lacks : -lacks) > most) best = i, most = left > 0 ? lacks : -lacks;
    }
    parts[best] += left > 0 ? 1 : -1;
  }
  return parts;
}

MixOrder::Block MixOrder::block_of(const Phase& phase, int64_t index) const {
  Block block{phase.begin + index * kBlock, std::vector<Place>(kBlock)};
  const KeyedPermutation shuffle(kBlock, epoch_key(seed_, block.begin, kMixture));
  int64_t next = 0;
  for (size_t source = 0; source < phase.parts.size(); ++source)
    for (int64_t i = 0; i < phase.parts[source]; ++i)
      block.places[static_cast<size_t>(shuffle(next++))].source = source;
  std::vector<int64_t> samples(phase.parts.size());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = phase.drawn[i] + index * phase.parts[i];
  for (Place& place : block.places) place.sample = samples[place.source]++;
  return block;
}

const MixOrder::Phase& MixOrder::phase_at(int64_t sample) const {
  return *std::prev(std::ranges::upper_bound(phases_, sample, {}, &Phase::begin));
}

size_t MixOrder::find(int64_t sample) const {
  const Phase& phase = phase_at(sample);
  const int64_t index = (sample - phase.begin) / kBlock, begin = phase.begin + index * kBlock;
  if (newest_.begin != begin) newest_ = block_of(phase, index);
  return static_cast<size_t>(sample - begin);
}

MixOrder::Place MixOrder::of(int64_t sample) const {
  const std::lock_guard lock(mutex_);
  const size_t at = find(sample);
  return newest_.places[at];
}

std::vector<int64_t> MixOrder::drawn(int64_t samples) const {
  const std::lock_guard lock(mutex_);
  const size_t at = find(samples);
  const Phase& phase = phase_at(samples);
  std::vector<int64_t> counts = phase.drawn;
  const int64_t blocks = (samples - phase.begin) / kBlock;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += blocks * phase.parts[i];
  for (size_t i = 0; i < at; ++i) ++counts[newest_.places[i].source];
  return counts;
}

}  // namespace hydrac::runtime
