// SeriesDataset::load(): CSV files to standardized rows.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/base/quote.h"
#include "runtime/base/utf8.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_files.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/data/val_split.h"
#include "runtime/error.h"
#include "runtime/series/csv.h"
#include "runtime/series/series_loader.h"

namespace hydrac::runtime {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMaxClasses = int64_t{1} << 24;

std::string_view trimmed(std::string_view field) {
  while (field.starts_with(' ') || field.starts_with('\t')) field.remove_prefix(1);
  while (field.ends_with(' ') || field.ends_with('\t')) field.remove_suffix(1);
  return field;
}

bool is_missing(std::string_view field) {
  const std::string_view text = trimmed(field);
  return text.empty() || text == "NaN" || text == "nan" || text == "NA";
}

// A finite number that a float can hold, in the notation of JSON and Fortran-free C, whatever the locale.
bool parse_number(std::string_view field, double& value) {
  std::string_view text = trimmed(field);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
}

struct Columns {
  std::vector<std::string> header;
  std::vector<size_t> features;  // positions in a record
  std::vector<size_t> targets;
};

}  // namespace

// Collects the rows of all files, then makes the dataset of them.
class SeriesReader {
 public:
  explicit SeriesReader(const SeriesOptions& options)
      : options_(options), data_(std::make_shared<SeriesDataset>()) {
    if (options.target_columns.empty()) throw InputError("no target column is named");
    if (options.classification && options.target_columns.size() != 1) {
      throw InputError(
          fmt::format("classification has one target column; {} are named", options.target_columns.size()));
    }
  }

  void read_files() {
    const std::vector<InputFile> files = expand_patterns(options_.patterns, options_.base);
    const double val_fraction = options_.val_patterns.empty() ? options_.val_fraction : 0.0;
    for (const InputFile& file : files) read_file(file, val_fraction);
    if (options_.val_patterns.empty()) return;
    for (const InputFile& file : expand_patterns(options_.val_patterns, options_.base)) read_file(file, 1.0);
  }

  void read_text(const std::string& file, std::string_view csv, double val_fraction);

  Standardizer own_stats(const std::vector<double>& values, const std::vector<size_t>& columns,
                         bool standardize) const;
  Standardizer own_feature_stats() const {
    return own_stats(features_, columns_.features, options_.standardize_features);
  }
  Standardizer own_target_stats() const {
    return own_stats(targets_, columns_.targets, options_.standardize_targets && !options_.classification);
  }
  std::shared_ptr<const SeriesDataset> finish(Standardizer features, Standardizer targets);

 private:
  void read_file(const InputFile& file, double val_fraction);
  void choose_columns(const std::string& file, const std::vector<std::string>& header);
  size_t position_of(const std::string& file, const std::string& name) const;
  void read_row(const std::string& where, const std::vector<std::string>& row);
  void read_target(const std::string& where, const std::string& column, const std::string& field);
  std::vector<std::string> names_of(const std::vector<size_t>& columns) const;
  DataContent content() const;
  static std::vector<float> standardized(const std::vector<double>& values, const Standardizer& stats);

  const SeriesOptions& options_;
  std::shared_ptr<SeriesDataset> data_;
  std::string first_file_;
  Columns columns_;
  std::vector<double> features_;  // [rows, F]
  std::vector<double> targets_;   // [rows, O]; NaN where missing
};

void SeriesReader::read_file(const InputFile& file, double val_fraction) {
  read_text(file.name, MappedFile::open(file.path, file.name)->bytes(), val_fraction);
}

void SeriesReader::read_text(const std::string& file, std::string_view csv, double val_fraction) {
  if (csv.empty()) throw InputError(fmt::format("{}: it is empty", file));
  require_text(csv, file, "CSV");
  CsvReader reader(csv, file);
  std::vector<std::string> header, row;
  reader.next(header);
  const int64_t begin = data_->rows_;
  while (reader.next(row)) {
    if (row.size() == 1 && header.size() > 1 && row[0].empty()) continue;  // a blank line
    const std::string where = fmt::format("{}:{}", file, reader.line());
    if (row.size() != header.size()) {
      throw InputError(fmt::format("{}: {} fields, but the header has {}", where, row.size(), header.size()));
    }
    if (columns_.header.empty()) choose_columns(file, header);
    if (header != columns_.header) {
      throw InputError(fmt::format("{}:1: its columns differ from those of {}", file, first_file_));
    }
    read_row(where, row);
    ++data_->rows_;
  }
  if (data_->rows_ == begin) throw InputError(fmt::format("{}: it has no rows behind the header", file));
  const int64_t rows = data_->rows_ - begin;
  const int64_t train = begin + training_part(rows, val_fraction);
  if (train > begin) data_->train_.push_back({begin, train, file});
  if (train < data_->rows_) data_->val_.push_back({train, data_->rows_, file});
}

size_t SeriesReader::position_of(const std::string& file, const std::string& name) const {
  const auto found = std::find(columns_.header.begin(), columns_.header.end(), name);
  if (found == columns_.header.end()) {
    std::string have;
    for (const std::string& column : columns_.header) have += (have.empty() ? "" : ", ") + column;
    throw InputError(
        fmt::format("{}:1: there is no column {}; it has {}", file, in_quotes(name), escaped(have, 500)));
  }
  return static_cast<size_t>(found - columns_.header.begin());
}

void SeriesReader::choose_columns(const std::string& file, const std::vector<std::string>& header) {
  double number = 0;
  if (std::all_of(header.begin(), header.end(),
                  [&](const std::string& name) { return parse_number(name, number); })) {
    throw InputError(fmt::format("{}:1: only numbers; the first line must name the columns", file));
  }
  std::set<std::string> seen;
  for (const std::string& name : header) {
    if (find_malformed_utf8(name)) throw InputError(fmt::format("{}:1: a column's name is not UTF-8", file));
    if (!seen.insert(name).second)
      throw InputError(fmt::format("{}:1: two columns are named {}", file, in_quotes(name)));
  }
  first_file_ = file;
  columns_.header = header;
  for (const std::string& name : options_.target_columns) columns_.targets.push_back(position_of(file, name));
  for (const std::string& name : options_.feature_columns)
    columns_.features.push_back(position_of(file, name));
  if (!options_.feature_columns.empty()) return;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool is_target = std::count(columns_.targets.begin(), columns_.targets.end(), i) != 0;
    if (is_target) continue;
    if (header[i].empty()) {
      throw InputError(
          fmt::format("{}:1: column {} has no name; name the feature columns to use", file, i + 1));
    }
    columns_.features.push_back(i);
  }
  if (columns_.features.empty()) throw InputError(fmt::format("{}: no column is left for features", file));
}

void SeriesReader::read_row(const std::string& where, const std::vector<std::string>& row) {
  for (const size_t column : columns_.features) {
    double value = 0;
    if (!parse_number(row[column], value)) {
      throw InputError(fmt::format(
          "{}: column {}: {}", where, in_quotes(columns_.header[column]),
          is_missing(row[column])
              ? std::string("a missing value; only target columns may have gaps")
              : fmt::format(
                    "{} is not a finite number{}", in_quotes(row[column]),
                    options_.feature_columns.empty() ? "; data.features names the columns to read" : "")));
    }
    features_.push_back(value);
  }
  for (const size_t column : columns_.targets) read_target(where, columns_.header[column], row[column]);
}

void SeriesReader::read_target(const std::string& where, const std::string& column,
                               const std::string& field) {
  double value = kMissing;
  if (!is_missing(field) && !parse_number(field, value)) {
    throw InputError(
        fmt::format("{}: column {}: {} is not a finite number", where, in_quotes(column), in_quotes(field)));
  }
  targets_.push_back(value);
  if (!options_.classification) return;
  if (std::isnan(value)) {
    data_->classes_.push_back(kIgnoredTarget);
    return;
  }
  const int64_t limit = options_.num_classes > 0 ? options_.num_classes : kMaxClasses;
  if (value != std::floor(value) || value < 0 || value >= static_cast<double>(limit)) {
    throw InputError(fmt::format("{}: column {}: {} is not a class 0 to {}", where, in_quotes(column),
                                 escaped(field), limit - 1));
  }
  data_->classes_.push_back(static_cast<int32_t>(value));
  data_->num_classes_ = std::max(data_->num_classes_, static_cast<int64_t>(value) + 1);
}

std::vector<std::string> SeriesReader::names_of(const std::vector<size_t>& columns) const {
  std::vector<std::string> names;
  for (const size_t column : columns) names.push_back(columns_.header[column]);
  return names;
}

// Two passes over the training rows, in double; missing values do not count.
Standardizer SeriesReader::own_stats(const std::vector<double>& values, const std::vector<size_t>& columns,
                                     bool standardize) const {
  const size_t width = columns.size();
  Standardizer stats{names_of(columns), std::vector<double>(width, 0.0), std::vector<double>(width, 1.0)};
  if (!standardize) return stats;
  for (size_t c = 0; c < width; ++c) {
    const auto for_each_value = [&](auto&& take) {
      for (const auto& segment : data_->train_) {
        for (int64_t row = segment.begin; row < segment.end; ++row) {
          const double value = values[static_cast<size_t>(row) * width + c];
          if (!std::isnan(value)) take(value);
        }
      }
    };
    double sum = 0, squares = 0, count = 0;
    for_each_value([&](double value) { sum += value, ++count; });
    if (count == 0)
      throw InputError(fmt::format("{}: column {} has no value in the training rows", first_file_,
                                   in_quotes(stats.columns[c])));
    const double mean = sum / count;
    for_each_value([&](double value) { squares += (value - mean) * (value - mean); });
    const double std = std::sqrt(squares / count);
    stats.mean[c] = mean;
    // A constant column leaves only rounding, which must not be blown up.
    if (std > 1e-12 * std::abs(mean)) stats.std[c] = std;
  }
  return stats;
}

std::vector<float> SeriesReader::standardized(const std::vector<double>& values, const Standardizer& stats) {
  const size_t width = stats.columns.size();
  std::vector<float> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t column = i % width;
    const double value = (values[i] - stats.mean[column]) / stats.std[column];
    if (std::abs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
      throw InputError(fmt::format(
          "column {}, row {} of all: {} is too far from the mean of the training rows ({}) for a float",
          in_quotes(stats.columns[column]), i / width + 1, values[i], stats.mean[column]));
    }
    out[i] = static_cast<float>(value);
  }
  return out;
}

DataContent SeriesReader::content() const {
  Hash64 hash;
  for (const auto* columns : {&columns_.features, &columns_.targets})
    for (const std::string& name : names_of(*columns)) hash.add(name);
  for (const std::vector<double>* values : {&features_, &targets_})
    hash.add({reinterpret_cast<const char*>(values->data()), values->size() * sizeof(double)});
  for (const auto* segments : {&data_->train_, &data_->val_})
    for (const SeriesDataset::Segment& rows : *segments)
      hash.add(static_cast<uint64_t>(rows.begin)).add(static_cast<uint64_t>(rows.end));
  return {fmt::format("{} rows", data_->rows_), hash.value()};
}

std::shared_ptr<const SeriesDataset> SeriesReader::finish(Standardizer features, Standardizer targets) {
  if (features.columns != names_of(columns_.features) || targets.columns != names_of(columns_.targets)) {
    throw InputError("the stored standardization is for other columns than the data files and options give");
  }
  if (options_.classification && data_->num_classes_ == 0) {
    throw InputError(
        fmt::format("{}: column {} holds no class at all", first_file_, in_quotes(targets.columns[0])));
  }
  data_->content_ = content();
  data_->features_ = standardized(features_, features);
  if (!options_.classification) data_->targets_ = standardized(targets_, targets);
  if (options_.classification && options_.num_classes > 0) data_->num_classes_ = options_.num_classes;
  data_->feature_stats_ = std::move(features);
  data_->target_stats_ = std::move(targets);
  return data_;
}

std::shared_ptr<const SeriesDataset> SeriesDataset::load(const SeriesOptions& options) {
  SeriesReader reader(options);
  reader.read_files();
  return reader.finish(reader.own_feature_stats(), reader.own_target_stats());
}

std::shared_ptr<const SeriesDataset> SeriesDataset::parse(const SeriesOptions& options,
                                                          const std::string& name, std::string_view csv) {
  SeriesReader reader(options);
  reader.read_text(name, csv, options.val_fraction);
  return reader.finish(reader.own_feature_stats(), reader.own_target_stats());
}

std::shared_ptr<const SeriesDataset> SeriesDataset::load(const SeriesOptions& options,
                                                         const Standardizer& features,
                                                         const Standardizer& targets) {
  SeriesReader reader(options);
  reader.read_files();
  return reader.finish(features, targets);
}

}  // namespace hydrac::runtime
