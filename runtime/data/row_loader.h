// Loaders of tokens fill training batches row by row, so that rows of several can stand in one batch.
#pragma once
#include <algorithm>

#include "runtime/data/batch.h"

namespace hydrac::runtime {

class RowLoader : public BatchLoader {
 public:
  void fill_train(int64_t first_sample, Batch& out) const final {
    clear(out);
    for (int64_t row = 0; row < batch_size(); ++row) fill_train_row(first_sample + row, row, out);
    out.stage = stage(first_sample);
    count_targets(out);
  }

  // Makes room for a batch, whose tokens are 0 and without targets.
  virtual void clear(Batch& out) const = 0;
  virtual void fill_train_row(int64_t sample, int64_t row, Batch& out) const = 0;
  virtual BatchStage stage(int64_t first_sample) const = 0;

 protected:
  static void count_targets(Batch& out) {
    out.target_count =
        static_cast<int64_t>(out.targets.size()) - std::ranges::count(out.targets, kIgnoredTarget);
    out.pair_count = std::ranges::count_if(out.pairs, [](int64_t pair) { return pair >= 0; });
  }
};

}  // namespace hydrac::runtime
