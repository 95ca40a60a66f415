// Token shards, read with the part of the runtime that needs no library.
#include <cstdio>

#include "runtime/data/corpus.h"

int main(int, char** argv) {
  hydrac::runtime::DataSettings settings;
  settings.path = {argv[1]};
  settings.tokenizer = "byte";
  settings.batch_size = 1;
  settings.sequence_len = 8;
  const hydrac::runtime::Corpus corpus = hydrac::runtime::open_shards(settings, true);
  hydrac::runtime::Batch batch;
  corpus.loader->fill_train(0, batch);
  std::printf("%d sequences of 8, the first begins with %c\n",
              static_cast<int>(corpus.loader->samples_per_epoch()), batch.tokens[0]);
}
