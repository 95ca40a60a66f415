#include "runtime/series/series_corpus.h"

#include <fmt/core.h>

#include "runtime/error.h"
#include "runtime/series/series_loader.h"

namespace hydrac::runtime {

namespace {

SeriesOptions series_options(const DataSettings& settings) {
  SeriesOptions options;
  options.base = ".";
  options.patterns = settings.path;
  options.val_patterns = settings.val_path;
  options.val_fraction = settings.val_fraction;
  options.target_columns = settings.target;
  options.feature_columns = settings.features;
  options.classification = settings.classification;
  options.num_classes = options.classification ? settings.sizes.num_labels : 0;
  return options;
}

void complete(DataSizes& sizes, const SeriesDataset& data, bool classification) {
  auto fill = [](int64_t& key, int64_t found, const char* name) {
    if (key == 0) key = found;
    if (key != found) throw InputError(fmt::format("{} is {}, the data has {}", name, key, found));
  };
  fill(sizes.num_features, data.features(), "model.num_features");
  if (!classification) fill(sizes.num_labels, data.target_values(), "model.num_labels");
  if (classification && sizes.num_labels == 0) sizes.num_labels = data.num_classes();
}

}  // namespace

void complete_from_series(DataSizes& sizes, const DataSettings& settings) {
  complete(sizes, *SeriesDataset::load(series_options(settings)), settings.classification);
}

Corpus open_series(const DataSettings& settings, bool) {
  const auto data = SeriesDataset::load(series_options(settings));
  Corpus corpus;
  corpus.sizes = settings.sizes;
  complete(corpus.sizes, *data, settings.classification);
  SeriesLoaderOptions options{settings.batch_size, settings.sequence_len, settings.seed};
  options.shuffle = settings.shuffle;
  corpus.loader = std::make_shared<SeriesLoader>(data, options);
  corpus.files["features.json"] = data->feature_stats().to_json();
  corpus.files["targets.json"] = data->target_stats().to_json();
  corpus.identity.train = data->content();
  return corpus;
}

}  // namespace hydrac::runtime
