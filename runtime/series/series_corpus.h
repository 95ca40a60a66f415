// A corpus of numeric series: CSV files.
#pragma once
#include "runtime/data/corpus.h"

namespace hydrac::runtime {

// Sets num_features and num_labels where they are 0, from the columns; InputError where the data has others.
void complete_from_series(DataSizes& sizes, const DataSettings& settings);

// An OpenCorpus.
Corpus open_series(const DataSettings& settings, bool quiet);

}  // namespace hydrac::runtime
