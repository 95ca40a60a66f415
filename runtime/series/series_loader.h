// Batches for models over numeric series: windows of the rows of CSV files, with regression or class targets.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/data_identity.h"
#include "runtime/data/epoch_windows.h"

namespace hydrac::runtime {

// Per-column (x - mean) / std over the training rows. A column that never varies has std 1.
struct Standardizer {
  std::vector<std::string> columns;
  std::vector<double> mean;
  std::vector<double> std;

  std::string to_json() const;  // for the checkpoint; parse() gives back the same bits
  // Throws InputError for anything else than what to_json() writes.
  static Standardizer parse(std::string_view json, const std::string& shown_as);
};

struct SeriesOptions {
  std::filesystem::path base;             // patterns are relative to it
  std::vector<std::string> patterns;      // CSV files with the same header; each is one continuous series
  std::vector<std::string> val_patterns;  // empty: the last val_fraction of each file's rows validates
  double val_fraction = 0.0;
  std::vector<std::string> target_columns;  // O of them; one for classification
  std::vector<std::string>
      feature_columns;          // F of them; empty: all columns that are no target, in file order
  bool classification = false;  // targets are integers 0, 1, ... below num_classes
  int64_t num_classes = 0;      // 0: one more than the largest in the files
  bool standardize_features = true;
  bool standardize_targets = true;  // regression only
};

// The rows of all files. A missing value (an empty field) is allowed in target columns only, as an ignored
// target. Immutable once made.
class SeriesDataset {
 public:
  struct Segment {  // consecutive rows that windows may not cross
    int64_t begin;
    int64_t end;
    std::string file;  // for messages
  };
  // Throws InputError naming file, line and column: no header, unknown or double column, not a number, a row
  // of another length, a class out of range.
  static std::shared_ptr<const SeriesDataset> load(const SeriesOptions& options);
  // The same of one file's text, without patterns.
  static std::shared_ptr<const SeriesDataset> parse(const SeriesOptions& options, const std::string& name,
                                                    std::string_view csv);
  // Like the first, with the standardization of an earlier run (columns must agree) instead of the training
  // rows' own.
  static std::shared_ptr<const SeriesDataset> load(const SeriesOptions& options, const Standardizer& features,
                                                   const Standardizer& targets);

  int64_t rows() const { return rows_; }
  int64_t features() const { return static_cast<int64_t>(feature_stats_.columns.size()); }      // F
  int64_t target_values() const { return static_cast<int64_t>(target_stats_.columns.size()); }  // O
  int64_t num_classes() const { return num_classes_; }  // 0 for regression
  // The numbers of the chosen columns before they are standardized, and which rows train and validate.
  const DataContent& content() const { return content_; }
  const float* feature_row(int64_t row) const { return features_.data() + row * features(); }  // [F]
  const float* target_row(int64_t row) const {
    return targets_.data() + row * target_values();
  }                                                                                       // [O] regression
  int32_t target_class(int64_t row) const { return classes_[static_cast<size_t>(row)]; }  // classification
  const std::vector<Segment>& train() const { return train_; }
  const std::vector<Segment>& val() const { return val_; }
  const Standardizer& feature_stats() const { return feature_stats_; }
  const Standardizer& target_stats() const { return target_stats_; }  // mean 0, std 1 where not standardized

 private:
  friend class SeriesReader;
  std::vector<float> features_;   // [rows, F], standardized
  std::vector<float> targets_;    // [rows, O], standardized; empty for classification
  std::vector<int32_t> classes_;  // [rows]; empty for regression
  std::vector<Segment> train_, val_;
  Standardizer feature_stats_, target_stats_;
  int64_t rows_ = 0;
  int64_t num_classes_ = 0;
  DataContent content_;
};

struct SeriesLoaderOptions {
  int64_t batch_size;    // B
  int64_t sequence_len;  // T rows a window
  uint64_t seed;
  bool last_position_only = false;  // targets of the other positions are ignored
  int64_t stride = 0;               // rows between windows; 0: 1 with last_position_only, else T
  bool shuffle = true;              // false: the windows of each epoch in the order of the files, all alike
};

class SeriesLoader final : public BatchLoader {
 public:
  // Throws InputError for a segment of fewer than T rows, naming its file.
  SeriesLoader(std::shared_ptr<const SeriesDataset> dataset, SeriesLoaderOptions options);

  void fill_train(int64_t first_sample, Batch& out) const override;
  void fill_eval(int64_t index, Batch& out) const override;
  int64_t eval_batches() const override;
  int64_t samples_per_epoch() const override { return windows_; }
  int64_t batch_size() const override { return options_.batch_size; }

 private:
  struct Window {
    int64_t begin;
    int64_t first_target;  // positions before it are ignored
  };
  Window train_window(int64_t sample) const;
  void fill(const std::vector<Window>& rows, Batch& out) const;

  std::shared_ptr<const SeriesDataset> dataset_;
  SeriesLoaderOptions options_;
  std::vector<EpochWindows> train_;   // of each training segment
  std::vector<int64_t> train_first_;  // running number of each training segment's first window
  std::vector<Window> eval_;
  int64_t windows_ = 0;  // an epoch
};

}  // namespace hydrac::runtime
