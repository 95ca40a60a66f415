#include "runtime/series/series_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "runtime/data/val_split.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

enum Purpose : uint64_t { kShuffle, kStart };  // kStart + segment

int64_t rows_of(const SeriesDataset::Segment& segment) {
  return segment.end - segment.begin;
}

// The rows of each file that data.val_fraction splits; empty with data.val_path.
std::vector<int64_t> split_files(const SeriesDataset& data) {
  std::vector<int64_t> rows;
  for (const SeriesDataset::Segment& val : data.val()) {
    const auto train = std::ranges::lower_bound(data.train(), val.begin, {}, &SeriesDataset::Segment::end);
    if (train != data.train().end() && train->end == val.begin && train->file == val.file)
      rows.push_back(rows_of(*train) + rows_of(val));
  }
  return rows;
}

// "write data.val_fraction: 0.3 or more, or " where that gives every file enough rows of both kinds.
std::string other_fraction(const SeriesDataset& data, int64_t sequence_len, const char* then) {
  const std::vector<int64_t> files = split_files(data);
  const std::optional<double> fraction =
      files.empty() ? std::nullopt : smallest_val_fraction(files, sequence_len);
  return fraction ? fmt::format("write data.val_fraction: {}{}", *fraction, then) : "";
}

void check_rows(const SeriesDataset& data, int64_t sequence_len) {
  const std::string needs = fmt::format("but a window needs {} (train.sequence_len)", sequence_len);
  for (const SeriesDataset::Segment& segment : data.train()) {
    if (rows_of(segment) >= sequence_len) continue;
    throw InputError(
        fmt::format("{}: {} rows train, {}: {}give longer series, or a smaller train.sequence_len",
                    segment.file, rows_of(segment), needs, other_fraction(data, sequence_len, ", or ")));
  }
  const bool split = !split_files(data).empty();
  for (const SeriesDataset::Segment& segment : data.val()) {
    if (rows_of(segment) >= sequence_len) continue;
    throw InputError(
        fmt::format("{}: {} rows validate, {}: {}{}", segment.file, rows_of(segment), needs,
                    split ? other_fraction(data, sequence_len, " or more, or ") : "",
                    split ? "data.val_fraction: 0 to train without validation"
                          : "give longer files in data.val_path, or a smaller train.sequence_len"));
  }
}

}  // namespace

SeriesLoader::SeriesLoader(std::shared_ptr<const SeriesDataset> dataset, SeriesLoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  const int64_t length = options_.sequence_len;
  if (options_.stride == 0) options_.stride = options_.last_position_only ? 1 : length;
  if (dataset_->train().empty())
    throw InputError("no rows are left for training: write a smaller data.val_fraction");
  check_rows(*dataset_, length);
  for (const SeriesDataset::Segment& segment : dataset_->train()) {
    train_first_.push_back(windows_);
    const int64_t rows = segment.end - segment.begin;
    train_.push_back(options_.shuffle ? EpochWindows(rows, length, options_.stride)
                                      : EpochWindows::alike(rows, length, options_.stride));
    windows_ += train_.back().count();
  }
  for (const SeriesDataset::Segment& segment : dataset_->val()) {
    if (options_.last_position_only) {
      for (int64_t begin = segment.begin; begin + length <= segment.end; ++begin)
        eval_.push_back({begin, length - 1});
      continue;
    }
    // The last window is moved left until it fits; what it shares with the one before is ignored.
    for (int64_t wanted = segment.begin; wanted < segment.end; wanted += length) {
      const int64_t begin = std::min(wanted, segment.end - length);
      eval_.push_back({begin, wanted - begin});
    }
  }
}

SeriesLoader::Window SeriesLoader::train_window(int64_t sample) const {
  const int64_t epoch = sample / windows_;
  const KeyedPermutation shuffle(windows_, epoch_key(options_.seed, epoch, kShuffle));
  const int64_t window = options_.shuffle ? shuffle(sample % windows_) : sample % windows_;
  const auto segment =
      static_cast<size_t>(std::upper_bound(train_first_.begin(), train_first_.end(), window) -
                          train_first_.begin()) -
      1;
  const int64_t begin = dataset_->train()[segment].begin +
                        train_[segment].begin(window - train_first_[segment],
                                              epoch_key(options_.seed, epoch, kStart + segment));
  return {begin, options_.last_position_only ? options_.sequence_len - 1 : 0};
}

void SeriesLoader::fill_train(int64_t first_sample, Batch& out) const {
  std::vector<Window> rows;
  for (int64_t row = 0; row < options_.batch_size; ++row) rows.push_back(train_window(first_sample + row));
  fill(rows, out);
}

int64_t SeriesLoader::eval_batches() const {
  return (static_cast<int64_t>(eval_.size()) + options_.batch_size - 1) / options_.batch_size;
}

void SeriesLoader::fill_eval(int64_t index, Batch& out) const {
  const auto begin = eval_.begin() + index * options_.batch_size;
  const auto end = std::min(begin + options_.batch_size, eval_.end());
  fill(std::vector<Window>(begin, end), out);
}

// Rows of the batch beyond `rows` become zeros without targets.
void SeriesLoader::fill(const std::vector<Window>& rows, Batch& out) const {
  const SeriesDataset& data = *dataset_;
  const bool regression = data.num_classes() == 0;
  const auto positions = static_cast<size_t>(options_.batch_size * options_.sequence_len);
  const int64_t features = data.features(), values = data.target_values();
  out.features.assign(positions * static_cast<size_t>(features), 0.0f);
  out.targets.assign(regression ? 0 : positions, kIgnoredTarget);
  out.float_targets.assign(regression ? positions * static_cast<size_t>(values) : 0,
                           std::numeric_limits<float>::quiet_NaN());
  out.target_count = 0;
  int64_t at = 0;  // position in the batch
  for (const Window& window : rows) {
    std::copy_n(data.feature_row(window.begin), options_.sequence_len * features,
                out.features.begin() + at * features);
    for (int64_t t = 0; t < options_.sequence_len; ++t, ++at) {
      if (t < window.first_target) continue;
      if (regression) {
        const float* target = data.target_row(window.begin + t);
        std::copy_n(target, values, out.float_targets.begin() + at * values);
        out.target_count +=
            std::count_if(target, target + values, [](float value) { return !std::isnan(value); });
      } else {
        const int32_t target = data.target_class(window.begin + t);
        out.targets[static_cast<size_t>(at)] = target;
        out.target_count += target != kIgnoredTarget;
      }
    }
  }
}

}  // namespace hydrac::runtime
