// Series: CSV, standardization, windows.
#include <fmt/core.h>
#include <cmath>
#include <map>
#include <set>

#include "data_test.h"
#include "runtime/series/csv.h"
#include "runtime/series/series_loader.h"

namespace hydrac::runtime {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows csv(std::string_view text) {
  CsvReader reader(text, "t.csv");
  Rows rows;
  for (std::vector<std::string> row; reader.next(row);) rows.push_back(row);
  return rows;
}

TEST(Csv, ReadsWhatRfc4180Allows) {
  EXPECT_EQ(csv("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(csv("a,b\r\n1,2"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(csv("\"a,\"\"x\"\"\",\"two\r\nlines\"\r\n,\n"), (Rows{{"a,\"x\"", "two\r\nlines"}, {"", ""}}));
  EXPECT_EQ(csv("\xEF\xBB\xBF"
                "a\n"),
            (Rows{{"a"}}));
  EXPECT_EQ(csv("a,"), (Rows{{"a", ""}}));
  EXPECT_EQ(csv(""), Rows{});
  CsvReader reader("\"a\nb\"\nc\n", "t.csv");
  std::vector<std::string> row;
  reader.next(row);
  EXPECT_EQ(reader.line(), 1);
  reader.next(row);
  EXPECT_EQ(reader.line(), 3);
}

TEST(Csv, StrayQuotesAreNamed) {
  EXPECT_EQ(input_error([] { csv("a\nb\"c\n"); }),
            "t.csv:2: a quote within a field that does not begin with one");
  EXPECT_EQ(input_error([] { csv("a\n\"b\n\n"); }), "t.csv:2: a quoted field without end");
  EXPECT_EQ(input_error([] { csv("a\n\"b\"c\n"); }), "t.csv:2: text behind a quoted field");
}

SeriesOptions options_in(const TempFolder& folder) {
  SeriesOptions options;
  options.base = folder.path();
  options.patterns = {"*.csv"};
  options.target_columns = {"y"};
  return options;
}

TEST(SeriesDataset, StandardizesWithTheTrainingRowsOnly) {
  const TempFolder folder;
  folder.write(
      "s.csv",
      "date,x,y,flat\n2020-01-01,1,10,5\n2020-01-02,3,,5\n2020-01-03,+5e0,30,5\n2020-01-04, 100 ,nan,5\n");
  SeriesOptions options = options_in(folder);
  options.val_fraction = 0.25;
  options.feature_columns = {"x", "flat"};
  const auto data = SeriesDataset::load(options);
  EXPECT_EQ(data->rows(), 4);
  EXPECT_EQ(data->feature_stats().columns, (std::vector<std::string>{"x", "flat"}));
  EXPECT_EQ(data->feature_stats().mean, (std::vector<double>{3, 5}));
  EXPECT_EQ(data->feature_stats().std, (std::vector<double>{std::sqrt(8.0 / 3), 1}));
  EXPECT_EQ(data->target_stats().mean, std::vector<double>{20});
  EXPECT_EQ(data->target_stats().std, std::vector<double>{10});
  EXPECT_FLOAT_EQ(data->feature_row(3)[0], static_cast<float>(97 / std::sqrt(8.0 / 3)));
  EXPECT_EQ(data->feature_row(3)[1], 0.0f);
  EXPECT_EQ(data->target_row(0)[0], -1.0f);
  EXPECT_TRUE(std::isnan(data->target_row(1)[0]));
  EXPECT_TRUE(std::isnan(data->target_row(3)[0]));

  const Standardizer stored = Standardizer::parse(data->feature_stats().to_json(), "stats");
  EXPECT_EQ(stored.std, data->feature_stats().std);
  options.patterns = {"s.csv"};
  options.val_fraction = 0;
  const auto resumed = SeriesDataset::load(options, stored, data->target_stats());
  EXPECT_EQ(resumed->feature_row(3)[0], data->feature_row(3)[0]);
  options.feature_columns = {"flat"};
  EXPECT_EQ(input_error([&] { SeriesDataset::load(options, stored, data->target_stats()); }),
            "the stored standardization is for other columns than the data files and options give");
}

TEST(SeriesDataset, BadFilesAreNamedByLineAndColumn) {
  const TempFolder folder;
  const auto error = [&](std::string_view text, auto&& change) {
    folder.write("s.csv", text);
    SeriesOptions options = options_in(folder);
    change(options);
    return input_error([&] { SeriesDataset::load(options); });
  };
  const auto as_is = [](SeriesOptions&) {};
  const auto classes = [](SeriesOptions& options) { options.classification = true, options.num_classes = 3; };
  EXPECT_EQ(error("x,y\n1,2\n1,2\nn/a,3\n", as_is),
            "s.csv:4: column \"x\": \"n/a\" is not a finite number; data.features names the columns to read");
  EXPECT_EQ(error("x,y\n1,2\n,3\n", as_is),
            "s.csv:3: column \"x\": a missing value; only target columns may have gaps");
  EXPECT_EQ(error("x,y\n1,inf\n", as_is), "s.csv:2: column \"y\": \"inf\" is not a finite number");
  EXPECT_EQ(error("x,y\n1,1e39\n", as_is), "s.csv:2: column \"y\": \"1e39\" is not a finite number");
  EXPECT_EQ(error("x,y\n1,0x10\n", as_is), "s.csv:2: column \"y\": \"0x10\" is not a finite number");
  EXPECT_EQ(error("x,y\n1,2,3\n", as_is), "s.csv:2: 3 fields, but the header has 2");
  EXPECT_EQ(error("x,y\n", as_is), "s.csv: it has no rows behind the header");
  EXPECT_EQ(error("", as_is), "s.csv: it is empty");
  EXPECT_EQ(error(std::string_view("x,y\n\0,1\n", 8), as_is),
            "s.csv: byte 4 is NUL, so this is binary data or UTF-16, not CSV");
  EXPECT_EQ(error("1,2\n3,4\n", as_is), "s.csv:1: only numbers; the first line must name the columns");
  EXPECT_EQ(error("x,z\n3,4\n", as_is), "s.csv:1: there is no column \"y\"; it has x, z");
  EXPECT_EQ(error("x,x,y\n1,2,3\n", as_is), "s.csv:1: two columns are named \"x\"");
  EXPECT_EQ(error(",y\n1,2\n", as_is), "s.csv:1: column 1 has no name; name the feature columns to use");
  EXPECT_EQ(error("y\n1\n", as_is), "s.csv: no column is left for features");
  EXPECT_EQ(
      error("day,x,y\nMonday,1,1\n", as_is),
      "s.csv:2: column \"day\": \"Monday\" is not a finite number; data.features names the columns to read");
  folder.write("s.csv", "day,x,y\nMonday,1,1\n");
  SeriesOptions numbers = options_in(folder);
  numbers.feature_columns = {"x"};
  EXPECT_EQ(SeriesDataset::load(numbers)->features(), 1) << "what is not read may be text";
  EXPECT_EQ(
      error(std::string_view("\x1f\x8b\x08", 3), as_is),
      "s.csv: it is compressed by gzip: unpack it with gunzip, or let the name of text or JSONL end in .gz");
  EXPECT_EQ(error("x,y\n1,\n", as_is), "s.csv: column \"y\" has no value in the training rows");
  EXPECT_EQ(
      error("x,y\n3e38,1\n-3e38,1\n", [](SeriesOptions& o) { o.val_fraction = 0.5; }),
      "column \"x\", row 2 of all: -3e+38 is too far from the mean of the training rows (3e+38) for a float");
  EXPECT_EQ(error("x,y\n1,3\n", classes), "s.csv:2: column \"y\": 3 is not a class 0 to 2");
  EXPECT_EQ(error("x,y\n1,0.5\n", classes), "s.csv:2: column \"y\": 0.5 is not a class 0 to 2");
  EXPECT_EQ(error("x,y\n1,-1\n", classes), "s.csv:2: column \"y\": -1 is not a class 0 to 2");
  EXPECT_EQ(error("x,y\n1,\n", classes), "s.csv: column \"y\" holds no class at all");
  EXPECT_EQ(error("x,y\n1,2\n", [](SeriesOptions& o) { o.target_columns = {}; }),
            "no target column is named");
  EXPECT_EQ(error("x,y\n1,2\n",
                  [](SeriesOptions& o) {
                    o.classification = true, o.target_columns = {"x", "y"};
                  }),
            "classification has one target column; 2 are named");
  folder.write("t.csv", "y,x\n1,2\n");
  EXPECT_EQ(error("x,y\n1,2\n", as_is), "t.csv:1: its columns differ from those of s.csv");
}

TEST(Standardizer, RefusesOtherJson) {
  const auto error = [](std::string_view text) {
    return input_error([&] { Standardizer::parse(text, "stats"); });
  };
  EXPECT_EQ(error("[]"), "stats: it is not a JSON object");
  EXPECT_EQ(error("{}"), "stats: \"columns\" is missing; it must be an array");
  EXPECT_EQ(error(R"({"columns": [1], "mean": [], "std": []})"),
            "stats: \"columns\" holds something else than names");
  EXPECT_EQ(error(R"({"columns": ["a"], "mean": ["0"], "std": [1]})"),
            "stats: \"mean\" holds something else than numbers");
  EXPECT_EQ(error(R"({"columns": ["a"], "mean": [], "std": [1]})"),
            "stats: \"columns\", \"mean\" and \"std\" are not of the same length");
  EXPECT_EQ(error(R"({"columns": ["a"], "mean": [0], "std": [0]})"),
            "stats: a standard deviation of 0; it must be positive");
}

// Rows x = 0, 1, 2, ... and y = 1000 + x, not standardized.
std::string counting_csv(int begin, int rows) {
  std::string text = "x,y\n";
  for (int i = begin; i < begin + rows; ++i) text += fmt::format("{},{}\n", i, 1000 + i);
  return text;
}
SeriesOptions counting_options(const TempFolder& folder) {
  SeriesOptions options = options_in(folder);
  options.standardize_features = options.standardize_targets = false;
  return options;
}

TEST(SeriesLoader, WindowsCoverEachFileAndCrossNone) {
  const TempFolder folder;
  folder.write("a.csv", counting_csv(0, 53));
  folder.write("b.csv", counting_csv(100, 20));
  const SeriesLoader loader(SeriesDataset::load(counting_options(folder)),
                            {.batch_size = 2, .sequence_len = 5, .seed = 1});
  EXPECT_EQ(loader.samples_per_epoch(), 9 + 3);
  EXPECT_EQ(loader.eval_batches(), 0);
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::set<float> rows;
    for (int64_t sample = 0; sample < 12; sample += 2) {
      Batch batch;
      loader.fill_train(epoch * 12 + sample, batch);
      ASSERT_EQ(batch.features.size(), 10u);
      EXPECT_EQ(batch.target_count, 10);
      EXPECT_TRUE(batch.targets.empty());
      for (size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(batch.float_targets[i], batch.features[i] + 1000);
        if (i % 5 != 0) {
          EXPECT_EQ(batch.features[i], batch.features[i - 1] + 1);
        }
        EXPECT_TRUE(rows.insert(batch.features[i]).second) << "twice in an epoch";
      }
    }
    EXPECT_EQ(rows.size(), 60u);
  }
}

TEST(SeriesLoader, LastPositionOnlyVisitsEveryWindow) {
  const TempFolder folder;
  folder.write("a.csv", counting_csv(0, 30));
  SeriesOptions options = counting_options(folder);
  options.val_fraction = 0.3;
  const SeriesLoader loader(SeriesDataset::load(options),
                            {.batch_size = 1, .sequence_len = 5, .seed = 1, .last_position_only = true});
  EXPECT_EQ(loader.samples_per_epoch(), 17);
  std::set<float> last;
  for (int64_t sample = 0; sample < 17; ++sample) {
    Batch batch;
    loader.fill_train(sample, batch);
    EXPECT_EQ(batch.target_count, 1);
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(batch.float_targets[i]));
    last.insert(batch.float_targets[4]);
  }
  EXPECT_EQ(last.size(), 17u);
  EXPECT_EQ(loader.eval_batches(), 5);
  for (int64_t i = 0; i < 5; ++i) {
    Batch batch;
    loader.fill_eval(i, batch);
    EXPECT_EQ(batch.float_targets[4], static_cast<float>(1025 + i));
  }
}

TEST(SeriesLoader, ValidationCountsEveryRowOnce) {
  const TempFolder folder;
  folder.write("a.csv", counting_csv(0, 20));
  folder.write("v/a.csv", counting_csv(100, 13));
  SeriesOptions options = counting_options(folder);
  options.val_patterns = {"v/*.csv"};
  const SeriesLoader loader(SeriesDataset::load(options), {.batch_size = 2, .sequence_len = 5, .seed = 1});
  ASSERT_EQ(loader.eval_batches(), 2);
  std::map<float, int> counted;
  for (int64_t i = 0; i < 2; ++i) {
    Batch batch;
    loader.fill_eval(i, batch);
    int64_t here = 0;
    for (const float target : batch.float_targets) {
      if (std::isnan(target)) continue;
      ++counted[target];
      ++here;
    }
    EXPECT_EQ(batch.target_count, here);
  }
  EXPECT_EQ(counted.size(), 13u);
  for (const auto& [target, times] : counted) EXPECT_EQ(times, 1) << target;
}

TEST(SeriesLoader, ClassesWithGaps) {
  const TempFolder folder;
  folder.write("a.csv", "x,y\n1,0\n2,\n3,2\n4,1\n");
  SeriesOptions options = options_in(folder);
  options.classification = true;
  const auto data = SeriesDataset::load(options);
  EXPECT_EQ(data->num_classes(), 3);
  const SeriesLoader loader(data, {.batch_size = 1, .sequence_len = 4, .seed = 1});
  Batch batch;
  loader.fill_train(0, batch);
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{0, kIgnoredTarget, 2, 1}));
  EXPECT_EQ(batch.target_count, 3);
  EXPECT_TRUE(batch.float_targets.empty());
}

TEST(SeriesLoader, WithoutShuffleEachEpochIsTheFilesInOrder) {
  const TempFolder folder;
  folder.write("a.csv", counting_csv(0, 11));
  folder.write("b.csv", counting_csv(100, 7));
  const SeriesLoader loader(SeriesDataset::load(counting_options(folder)),
                            {.batch_size = 1, .sequence_len = 5, .seed = 1, .shuffle = false});
  ASSERT_EQ(loader.samples_per_epoch(), 3);
  const std::vector<float> begins = {0, 5, 100};
  for (int64_t sample = 0; sample < 9; ++sample) {
    Batch batch;
    loader.fill_train(sample, batch);
    EXPECT_EQ(batch.features[0], begins[static_cast<size_t>(sample % 3)]);
  }
}

TEST(SeriesLoader, TooShortSeriesAreNamed) {
  const TempFolder folder;
  folder.write("a.csv", counting_csv(0, 10));
  SeriesOptions options = counting_options(folder);
  const auto error = [&](int64_t length) {
    return input_error([&] {
      SeriesLoader(SeriesDataset::load(options), {.batch_size = 1, .sequence_len = length, .seed = 1});
    });
  };
  EXPECT_EQ(
      error(11),
      "a.csv: 10 rows train, but a window needs 11 (train.sequence_len): give longer series, or a smaller "
      "train.sequence_len");
  options.val_fraction = 0.2;
  EXPECT_EQ(error(5),
            "a.csv: 2 rows validate, but a window needs 5 (train.sequence_len): write data.val_fraction: "
            "0.41 or more, "
            "or data.val_fraction: 0 to train without validation");
  options.val_fraction = 1.0;
  EXPECT_EQ(error(5), "no rows are left for training: write a smaller data.val_fraction");
}

}  // namespace
}  // namespace hydrac::runtime
