// Batches for fine-tuning: whole items packed into sequences, so that none is cut in two and little of a
// sequence stays empty. A target is the next token of the same item, where that token is learned.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/curriculum.h"
#include "runtime/data/items.h"
#include "runtime/data/row_loader.h"

namespace hydrac::runtime {

// Items [begin, end) of a store.
struct ItemRange {
  std::shared_ptr<const ItemStore> store;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ItemDataset {
  ItemRange train;
  ItemRange val;  // empty without validation data

  // The last items, of a share `val_fraction` of all of them rounded up, validate; one that is above 0 leaves
  // at least one item for each, InputError otherwise.
  static ItemDataset split(std::shared_ptr<const ItemStore> store, double val_fraction);
  static ItemDataset separate(std::shared_ptr<const ItemStore> train, std::shared_ptr<const ItemStore> val);
};

struct ItemLoaderOptions {
  int64_t batch_size;    // B
  int64_t sequence_len;  // T
  uint64_t seed;
  bool shuffle = true;
  bool cut = false;             // what is too long for a sequence: cut at its end, or dropped
  bool with_documents = false;  // batches say where items are
  int64_t pairs = 0;            // P, of a sequence at most, where items are pairs; 0: they are single texts
  Curriculum curriculum = {};   // where there is one, items that train are packed in its order
};

// The sequences that items make. An item of n tokens takes n - 1 positions, since its last token is a target
// only: T + 1 tokens fit. A pair is two texts one behind the other. Each item goes, in the order of the data,
// to the fullest sequence that has room for it. With an order of their difficulty items go in that order, and
// only to the kOpenSequences newest sequences with room, so that a sequence holds items of like difficulty;
// sequences are in the order of their easiest.
class PackedItems {
 public:
  static constexpr size_t kOpenSequences = 32;

  PackedItems() = default;
  // `most_items` of a sequence; 0: any number.
  PackedItems(const ItemRange& range, int64_t sequence_len, bool cut,
              std::optional<CurriculumOrder> order = std::nullopt, int64_t most_items = 0);

  struct Counts {
    int64_t items = 0;      // that there are
    int64_t too_long = 0;   // of them, cut or dropped
    int64_t untaught = 0;   // of them, dropped because no token (left after a cut) is learned
    int64_t positions = 0;  // of the sequences that are taken
    int64_t targets = 0;
  };
  const Counts& counts() const { return counts_; }
  int64_t sequences() const { return static_cast<int64_t>(sequences_.size()); }
  std::span<const int64_t> items_of(int64_t sequence) const {
    return sequences_[static_cast<size_t>(sequence)];
  }

 private:
  // The items that are packed, in the order of the data; the others are counted.
  std::vector<int64_t> choose(const ItemRange& range, int64_t sequence_len, bool cut);
  void pack(const ItemStore& store, const std::vector<int64_t>& items, int64_t sequence_len,
            size_t most_items, size_t most_open);

  std::vector<std::vector<int64_t>> sequences_;  // indices of items
  Counts counts_;
};

// Sequences are shuffled anew each epoch, or in order without shuffle; what is in one stays together. With a
// curriculum epochs begin behind it.
class ItemLoader final : public RowLoader {
 public:
  // InputError where no item is left to train on, or of those that validate.
  ItemLoader(ItemDataset dataset, ItemLoaderOptions options);

  void clear(Batch& out) const override;
  void fill_train_row(int64_t sample, int64_t row, Batch& out) const override;
  BatchStage stage(int64_t first_sample) const override;
  void fill_eval(int64_t index, Batch& out) const override;
  int64_t eval_batches() const override;
  int64_t samples_per_epoch() const override { return train_.sequences(); }
  int64_t batch_size() const override { return options_.batch_size; }

  // "1250 items in 312 sequences, 97.3% full, 41.0% of tokens learned; 47 longer than 1025 tokens are
  // dropped"
  std::string description() const;

 private:
  int64_t sequence_of(int64_t sample) const;  // that a training sample is
  // `number`: that a batch's pairs have, of the range's first item.
  void fill_row(const ItemRange& range, int64_t number, std::span<const int64_t> items, int64_t row,
                Batch& out) const;

  ItemDataset dataset_;
  ItemLoaderOptions options_;
  PackedItems train_, val_;
};

}  // namespace hydrac::runtime
