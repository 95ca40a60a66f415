// Batches for language models: windows of a token corpus, each position's target the next token.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/data/curriculum.h"
#include "runtime/data/epoch_windows.h"
#include "runtime/data/row_loader.h"
#include "runtime/data/sequence_warmup.h"
#include "runtime/data/token_store.h"

namespace hydrac::runtime {

// A stretch [begin, end) of a store.
struct TokenRange {
  std::shared_ptr<const TokenStore> store;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

struct TokenDataset {
  TokenRange train;
  TokenRange val;  // empty without validation data

  // The first floor(n * (1 - val_fraction)) tokens train, the rest validate (nanoGPT's split).
  static TokenDataset split(std::shared_ptr<const TokenStore> store, double val_fraction);
  static TokenDataset separate(std::shared_ptr<const TokenStore> train,
                               std::shared_ptr<const TokenStore> val);
};

struct TokenLoaderOptions {
  int64_t batch_size;    // B
  int64_t sequence_len;  // T
  uint64_t seed;
  bool shuffle = true;
  // The token that ends a document; with it, batches say where documents are.
  std::optional<int32_t> document_end = std::nullopt;
  // Cuts rows, and batches say so as they do of documents. Validation rows stay whole.
  SequenceWarmup warmup = {};
  Curriculum curriculum = {};  // whose order is that of the range
};

// Each epoch cuts the training range into windows of T positions from a start of its own and shuffles them by
// a keyed permutation, so every window is seen once an epoch. A few tokens at the ends (fewer than 2T) rest
// in each epoch. Without shuffle each epoch is the same windows in the order of the range; fewer than T
// tokens at its end are never seen. With a curriculum epochs begin behind it; a sample that it draws is one
// of the first windows of an epoch that starts at a place of the sample's own.
//
// A document ends behind its document_end, and where its window ends: what of a document lies in a window is
// one for the model, beginning at position 0. The model learns to predict document_end, but not what follows
// it, which is another document: that target is ignored. A warm-up's cut is of one text: the next token stays
// the target of the last one before it.
class TokenLoader final : public RowLoader {
 public:
  // Throws InputError when the training or a non-empty validation range is shorter than T + 1 tokens.
  TokenLoader(TokenDataset dataset, TokenLoaderOptions options);

  void clear(Batch& out) const override;
  void fill_train_row(int64_t sample, int64_t row, Batch& out) const override;
  BatchStage stage(int64_t first_sample) const override;
  void fill_eval(int64_t index, Batch& out) const override;
  int64_t eval_batches() const override;
  int64_t samples_per_epoch() const override { return windows_.count(); }
  int64_t batch_size() const override { return options_.batch_size; }

  // First token in the store of the window of a training sample; it spans T + 1 tokens.
  int64_t window_begin(int64_t sample) const;

 private:
  bool says_documents() const { return options_.document_end || options_.warmup.cuts_rows(); }
  // Row `row` of a batch from the store's tokens [begin, begin + T], cut every `stretch` tokens.
  void fill_row(const TokenRange& range, int64_t begin, int64_t stretch, int64_t row, Batch& out) const;
  // The documents of the row's tokens, none longer than `stretch`; what follows the end of one is no target.
  void find_documents(int64_t stretch, int64_t row, Batch& out) const;

  TokenDataset dataset_;
  TokenLoaderOptions options_;
  EpochWindows windows_;
};

}  // namespace hydrac::runtime
