#include "runtime/data/mixed_loader.h"

#include <cmath>
#include <utility>

namespace hydrac::runtime {

namespace {

std::vector<MixShare> shares_of(const std::vector<MixSource>& sources) {
  std::vector<MixShare> shares;
  for (const MixSource& source : sources) {
    MixShare& share = shares.emplace_back(MixShare{.weight = source.weight});
    if (source.epochs > 0)
      share.most = std::max<int64_t>(
          1, std::llround(source.epochs * static_cast<double>(source.loader->samples_per_epoch())));
  }
  return shares;
}

}  // namespace

MixedLoader::MixedLoader(std::vector<MixSource> sources, std::vector<ValidationSet> validation,
                         int64_t sequence_len, uint64_t seed)
    : sources_(std::move(sources)),
      validation_(std::move(validation)),
      sequence_len_(sequence_len),
      order_(shares_of(sources_), seed) {}

void MixedLoader::fill_train_row(int64_t sample, int64_t row, Batch& out) const {
  const MixOrder::Place place = order_.of(sample);
  sources_[place.source].loader->fill_train_row(place.sample, row, out);
}

void MixedLoader::fill_eval(int64_t index, Batch& out) const {
  for (const ValidationSet& set : validation_) {
    const int64_t batches = set.loader->eval_batches();
    if (index < batches) return set.loader->fill_eval(index, out);
    index -= batches;
  }
}

std::vector<EvalSet> MixedLoader::eval_sets() const {
  std::vector<EvalSet> sets;
  int64_t first = 0;
  for (const ValidationSet& set : validation_) {
    sets.push_back({set.name, first, set.loader->eval_batches()});
    first += sets.back().batches;
  }
  return sets;
}

int64_t MixedLoader::eval_batches() const {
  int64_t batches = 0;
  for (const EvalSet& set : eval_sets()) batches += set.batches;
  return batches;
}

int64_t MixedLoader::samples_per_epoch() const {
  int64_t samples = 0;
  for (const MixSource& source : sources_) samples += source.loader->samples_per_epoch();
  return samples;
}

std::vector<SourceUse> MixedLoader::uses(int64_t samples) const {
  std::vector<SourceUse> uses;
  const std::vector<int64_t> drawn = order_.drawn(samples);
  for (size_t i = 0; i < sources_.size() && sources_.size() > 1; ++i)
    uses.push_back(
        {sources_[i].name, drawn[i] * sequence_len_,
         static_cast<double>(drawn[i]) / static_cast<double>(sources_[i].loader->samples_per_epoch())});
  return uses;
}

}  // namespace hydrac::runtime
