// Several sources of training data in the rows of one batch, and several sets that validate.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/mix_order.h"
#include "runtime/data/row_loader.h"

namespace hydrac::runtime {

struct MixSource {
  std::string name;
  double weight = 1;
  double epochs = 0;  // passes at most; 0: any number
  std::shared_ptr<const RowLoader> loader;
};

struct ValidationSet {
  std::string name;
  std::shared_ptr<const BatchLoader> loader;
};

// All loaders have the same options but for their seeds.
class MixedLoader final : public RowLoader {
 public:
  // `sequence_len`: theirs.
  MixedLoader(std::vector<MixSource> sources, std::vector<ValidationSet> validation, int64_t sequence_len,
              uint64_t seed);

  void clear(Batch& out) const override { sources_[0].loader->clear(out); }
  void fill_train_row(int64_t sample, int64_t row, Batch& out) const override;
  BatchStage stage(int64_t first_sample) const override { return sources_[0].loader->stage(first_sample); }
  // The sets' batches, one set behind the other.
  void fill_eval(int64_t index, Batch& out) const override;
  int64_t eval_batches() const override;
  std::vector<EvalSet> eval_sets() const override;
  int64_t samples_per_epoch() const override;  // of all sources together
  int64_t most_samples() const override { return order_.size(); }
  std::vector<SourceUse> uses(int64_t samples) const override;
  int64_t batch_size() const override { return sources_[0].loader->batch_size(); }

 private:
  std::vector<MixSource> sources_;
  std::vector<ValidationSet> validation_;
  int64_t sequence_len_;
  MixOrder order_;
};

}  // namespace hydrac::runtime
