#include "runtime/data/token_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/data/val_split.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

enum Purpose : uint64_t { kShuffle, kStart };

EpochWindows checked_windows(const TokenRange& train, int64_t sequence_len, bool shuffle) {
  if (train.size() < sequence_len + 1) {
    throw InputError(
        fmt::format("the training data has {} tokens, but a sequence of {} needs {}; give more data or a "
                    "shorter sequence",
                    train.size(), sequence_len, sequence_len + 1));
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
      windows_(checked_windows(dataset_.train, options.sequence_len, options.shuffle)) {
  const int64_t val = dataset_.val.size();
  if (val > 0 && val < options.sequence_len + 1)
    throw InputError(too_few_to_validate(dataset_, options.sequence_len));
}

int64_t TokenLoader::window_begin(int64_t sample) const {
  const int64_t epoch = sample / windows_.count();
  const KeyedPermutation shuffle(windows_.count(), epoch_key(options_.seed, epoch, kShuffle));
  const int64_t index = sample % windows_.count();
  return dataset_.train.begin +
         windows_.begin(options_.shuffle ? shuffle(index) : index, epoch_key(options_.seed, epoch, kStart));
}

void TokenLoader::fill_row(const TokenRange& range, int64_t begin, int64_t row, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  const auto length = static_cast<size_t>(options_.sequence_len);
  const auto at = static_cast<size_t>(row) * length;
  const std::span<int32_t> to_tokens = tokens.subspan(at, length), to_targets = targets.subspan(at, length);
  range.store->read(begin, to_tokens);
  std::copy(to_tokens.begin() + 1, to_tokens.end(), to_targets.begin());
  range.store->read(begin + options_.sequence_len, to_targets.last(1));
}

int64_t TokenLoader::fill_train(int64_t first_sample, std::span<int32_t> tokens,
                                std::span<int32_t> targets) const {
  const int64_t count = options_.batch_size * options_.sequence_len;
  if (static_cast<int64_t>(tokens.size()) != count || tokens.size() != targets.size()) {
    throw std::invalid_argument("TokenLoader::fill_train: buffers are not [B, T]");
  }
  for (int64_t row = 0; row < options_.batch_size; ++row) {
    fill_row(dataset_.train, window_begin(first_sample + row), row, tokens, targets);
  }
  return count;
}

void TokenLoader::fill_train(int64_t first_sample, Batch& out) const {
  const auto count = static_cast<size_t>(options_.batch_size * options_.sequence_len);
  out.tokens.resize(count);
  out.targets.resize(count);
  out.target_count = fill_train(first_sample, out.tokens, out.targets);
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
  out.tokens.assign(static_cast<size_t>(options_.batch_size * length), 0);
  out.targets.assign(out.tokens.size(), kIgnoredTarget);
  out.target_count = 0;
  for (int64_t row = 0; row < options_.batch_size; ++row) {
    const int64_t wanted = (index * options_.batch_size + row) * length;
    if (wanted >= targets) break;
    const int64_t begin = std::min(wanted, targets - length);
    fill_row(dataset_.val, dataset_.val.begin + begin, row, out.tokens, out.targets);
    std::fill_n(out.targets.begin() + row * length, wanted - begin, kIgnoredTarget);
    out.target_count += length - (wanted - begin);
  }
}

}  // namespace hydrac::runtime
