#include "runtime/data/token_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/val_split.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

enum Purpose : uint64_t { kShuffle, kStart, kDrawnStart };

EpochWindows checked_windows(const TokenDataset& dataset, int64_t sequence_len, bool shuffle) {
  const TokenRange &train = dataset.train, &val = dataset.val;
  if (train.size() < sequence_len + 1) {
    const bool is_set =
        val.size() > 0 && val.store == train.store && val.begin == train.begin;  // fill_mixed_corpus()
    throw InputError(
        fmt::format("the {} data has {} tokens, but a sequence of {} needs {}; give more data or a "
                    "shorter sequence",
                    is_set ? "validation" : "training", train.size(), sequence_len, sequence_len + 1));
  }
  return shuffle ? EpochWindows(train.size() - 1, sequence_len, sequence_len)
                 : EpochWindows::alike(train.size() - 1, sequence_len, sequence_len);
}

std::string too_few_to_validate(const TokenDataset& dataset, int64_t sequence_len) {
  const int64_t needed = sequence_len + 1, val = dataset.val.size();
  const std::string needs =
      fmt::format("but a sequence of {} (train.sequence_len) needs {}", sequence_len, needed);
  if (dataset.val.store != dataset.train.store) {
    return fmt::format("data.val_path has {} tokens, {}: give more of it, or a smaller train.sequence_len",
                       val, needs);
  }
  const int64_t all[] = {dataset.train.size() + val};
  const std::optional<double> fraction = smallest_val_fraction(all, needed);
  return fmt::format(
      "the last {} of {} tokens validate, {}: write {}data.val_fraction: 0 to train without validation", val,
      all[0], needs, fraction ? fmt::format("data.val_fraction: {} or more, or ", *fraction) : "");
}

}  // namespace

TokenDataset TokenDataset::split(std::shared_ptr<const TokenStore> store, double val_fraction) {
  const int64_t size = store->size();
  const int64_t train = training_part(size, val_fraction);
  return {{store, 0, train}, {store, train, size}};
}

TokenDataset TokenDataset::separate(std::shared_ptr<const TokenStore> train,
                                    std::shared_ptr<const TokenStore> val) {
  const int64_t train_size = train->size(), val_size = val->size();
  return {{std::move(train), 0, train_size}, {std::move(val), 0, val_size}};
}

TokenLoader::TokenLoader(TokenDataset dataset, TokenLoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(options),
      windows_(checked_windows(dataset_, options.sequence_len, options.shuffle)) {
  const int64_t val = dataset_.val.size();
  if (val > 0 && val < options.sequence_len + 1)
    throw InputError(too_few_to_validate(dataset_, options.sequence_len));
}

int64_t TokenLoader::window_begin(int64_t sample) const {
  const Curriculum& curriculum = options_.curriculum;
  if (curriculum.draws(sample))
    return dataset_.train.begin + windows_.begin(curriculum.draw(sample, windows_.count(), options_.seed),
                                                 epoch_key(options_.seed, sample, kDrawnStart));
  sample -= curriculum.samples();
  const int64_t epoch = sample / windows_.count();
  const KeyedPermutation shuffle(windows_.count(), epoch_key(options_.seed, epoch, kShuffle));
  const int64_t index = sample % windows_.count();
  return dataset_.train.begin +
         windows_.begin(options_.shuffle ? shuffle(index) : index, epoch_key(options_.seed, epoch, kStart));
}

void TokenLoader::clear(Batch& out) const {
  const auto count = static_cast<size_t>(options_.batch_size * options_.sequence_len);
  out.tokens.assign(count, 0);
  out.targets.assign(count, kIgnoredTarget);
  out.stage = {};
  if (!says_documents()) return;
  out.documents.resize(2 * count);
  out.positions.resize(count);
}

void TokenLoader::find_documents(int64_t stretch, int64_t row, Batch& out) const {
  const int64_t length = options_.sequence_len;
  int32_t* const targets = out.targets.data() + row * length;
  int32_t* const documents = out.documents.data() + 2 * row * length;
  int32_t* const positions = out.positions.data() + row * length;
  int64_t begin = 0;
  for (int64_t token = 0; token < length; ++token) {
    const bool ends = out.tokens[static_cast<size_t>(row * length + token)] == options_.document_end;
    if (ends) targets[token] = kIgnoredTarget;
    if (!ends && token + 1 < length && (token + 1) % stretch != 0) continue;
    for (int64_t i = begin; i <= token; ++i) {
      documents[2 * i] = static_cast<int32_t>(begin);
      documents[2 * i + 1] = static_cast<int32_t>(token + 1);
      positions[i] = static_cast<int32_t>(i - begin);
    }
    begin = token + 1;
  }
}

void TokenLoader::fill_row(const TokenRange& range, int64_t begin, int64_t stretch, int64_t row,
                           Batch& out) const {
  const auto length = static_cast<size_t>(options_.sequence_len);
  const auto at = static_cast<size_t>(row) * length;
  const std::span<int32_t> tokens = std::span(out.tokens).subspan(at, length),
                           targets = std::span(out.targets).subspan(at, length);
  range.store->read(begin, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  range.store->read(begin + options_.sequence_len, targets.last(1));
  if (says_documents()) find_documents(stretch, row, out);
}

void TokenLoader::fill_train_row(int64_t sample, int64_t row, Batch& out) const {
  const SequenceWarmup& warmup = options_.warmup;
  const int64_t stretch = warmup.cuts_rows() ? warmup.length_of(sample) : options_.sequence_len;
  fill_row(dataset_.train, window_begin(sample), stretch, row, out);
}

BatchStage TokenLoader::stage(int64_t first_sample) const {
  const SequenceWarmup& warmup = options_.warmup;
  return {warmup.cuts_rows() ? warmup.length_of(first_sample) : 0, options_.curriculum.share(first_sample)};
}

int64_t TokenLoader::eval_batches() const {
  if (dataset_.val.size() == 0) return 0;
  const int64_t rows = (dataset_.val.size() - 2) / options_.sequence_len + 1;
  return (rows - 1) / options_.batch_size + 1;
}

// Row r of all validation rows covers targets [r * T, (r + 1) * T); the last is moved left until it fits, and
// what it then shares with the one before is ignored.
void TokenLoader::fill_eval(int64_t index, Batch& out) const {
  const int64_t length = options_.sequence_len;
  const int64_t targets = dataset_.val.size() - 1;
  clear(out);
  for (int64_t row = 0; row < options_.batch_size; ++row) {
    const int64_t wanted = (index * options_.batch_size + row) * length;
    if (wanted >= targets) {
      if (says_documents()) find_documents(length, row, out);
      continue;
    }
    const int64_t begin = std::min(wanted, targets - length);
    fill_row(dataset_.val, dataset_.val.begin + begin, length, row, out);
    std::fill_n(out.targets.begin() + row * length, wanted - begin, kIgnoredTarget);
  }
  count_targets(out);
}

}  // namespace hydrac::runtime
