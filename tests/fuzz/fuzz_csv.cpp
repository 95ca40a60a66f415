// Any bytes as a CSV file of series: read, with rows that fit the header, or refused with an InputError.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/series/csv.h"
#include "runtime/series/series_loader.h"
#include "tests/fuzz/good_message.h"

namespace {

using namespace hydrac::runtime;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_records(std::string_view text) {
  CsvReader reader(text, "fuzz.csv");
  std::vector<std::string> fields;
  int64_t line = 0;
  while (reader.next(fields)) {
    require(!fields.empty() && reader.line() > line);
    line = reader.line();
  }
}

void read_series(std::string_view text, bool classification) {
  SeriesOptions options;
  options.target_columns = {"y"};
  options.val_fraction = 0.25;
  options.classification = classification;
  const auto data = SeriesDataset::parse(options, "fuzz.csv", text);
  require(data->rows() > 0 && data->features() > 0);
  for (int64_t row = 0; row < data->rows(); ++row) {
    for (int64_t column = 0; column < data->features(); ++column)
      require(std::isfinite(data->feature_row(row)[column]));
    if (classification) require(data->target_class(row) < data->num_classes());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    read_records(text);
  } catch (const InputError& error) {
    hydrac::fuzz::require_good_message(error);
  }
  for (const bool classification : {false, true}) {
    try {
      read_series(text, classification);
    } catch (const InputError& error) {
      hydrac::fuzz::require_good_message(error);
    }
  }
  return 0;
}
