// Everything that a training run reads, whatever its data is. Each kind of data has one function that opens
// it: open_shards() here, open_text() in runtime/text, open_series() in runtime/series; a program links what
// it needs.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/curriculum.h"
#include "runtime/data/data_identity.h"
#include "runtime/data/sequence_warmup.h"
#include "runtime/data/token_store.h"
#include "runtime/data/tokenizer.h"

namespace hydrac::runtime {

// Sizes that a model's shape and its data must agree on. 0: as the data has it.
struct DataSizes {
  int64_t vocab_size = 0;    // tokens; may be larger than the tokenizer's
  int64_t num_features = 0;  // series
  int64_t num_labels = 0;    // series: target columns, or classes
  bool has_weights =
      false;  // vocab_size is that of weights in files, and may be smaller than the tokenizer's
};

// The fields of records that DataSettings::fields may give names to.
inline constexpr const char* kRecordFields[] = {"messages",    "conversations", "prompt", "completion",
                                                "instruction", "input",         "output", "system",
                                                "tools",       "documents",     "role",   "content"};

// A source of a mixture, and a set that validates.
struct DataSource {
  std::string name;
  std::vector<std::string> path;
  double weight = 1;
  double epochs = 0;  // passes at most; 0: any number
};
struct DataSet {
  std::string name;
  std::vector<std::string> path;
};

// Plain data; as the section `data` of a spec.
struct DataSettings {
  std::vector<std::string> path;      // patterns, relative to the working directory
  std::vector<std::string> val_path;  // empty: the last val_fraction of `path` validates
  double val_fraction = 0;
  std::vector<DataSource> mix = {};  // instead of `path`; val_fraction is of each source then
  std::vector<DataSet> val = {};     // instead of val_path

  std::string tokenizer;  // tokens: "byte", "char", or the path of a tokenizer.json
  std::string text_key = "text";
  bool raw_uint16 = false;  // all files are ids of 16 bits without a header: see open_raw_tokens()
  std::string cache_dir;
  int64_t enough_tokens = 0;  // above 0: text is tokenized until there are so many, and not kept

  // Tokens: records of JSONL and JSON as items, each packed whole (item_loader.h, text/item_encoder.h).
  bool items = false;
  std::string chat_template = "none";    // own: the template beside the tokenizer, run by jinja2
  std::string chat_template_jinja = "";  // for own: the name of one of several, or a file .jinja
  std::string plain_chat_template =
      "";  // for own: hydrac's that writes conversations without tools as it does
  std::string chat_template_kwargs = "{}";         // for own: variables, as JSON
  std::string chat_date = "2024-07-26";            // for own: today's
  std::map<std::string, std::string> fields = {};  // the data's names of kRecordFields
  bool replies_only = true;
  bool last_only = false;
  bool cut_long_items = false;  // false: they are dropped
  int64_t pairs = 0;            // P: items are pairs of texts, so many in a sequence at most; 0: single texts
  int64_t most_prompt_tokens = 0;  // above 0: every item begins with a prompt, of so many at most

  std::vector<std::string> target, features;  // series: columns
  bool classification = false;

  bool shuffle = true;  // false: the sequences of each epoch in the order of the files

  Curriculum curriculum;  // tokens: easier ones first

  bool document_mask = false;      // tokens: batches say where documents are
  SequenceWarmup sequence_warmup;  // tokens that are no items: rows are cut at first

  DataSizes sizes;
  int64_t batch_size = 0;    // B
  int64_t sequence_len = 0;  // T
  uint64_t seed = 0;
};

// The patterns of all that is read.
std::vector<std::string> all_paths(const DataSettings& settings);

struct Corpus {
  std::unique_ptr<Tokenizer> tokenizer;  // null for series, and where nothing is linked that reads it
  std::shared_ptr<const BatchLoader> loader;
  std::map<std::string, std::string> files;  // for checkpoints: tokenizer.json, standardizers
  DataIdentity identity;
  DataSizes sizes;      // none 0 that the data has
  bool is_cut = false;  // by DataSettings::enough_tokens: there is more of the data
};

// Opens a corpus; InputError says what is wrong with it, or where it contradicts the sizes. Says what takes
// long on stdout unless `quiet`.
using OpenCorpus = std::function<Corpus(const DataSettings& settings, bool quiet)>;

// Token shards (*.bin) that were made with `tokenizer`, "byte" or a tokenizer.json of byte-level BPE, which
// only goes into checkpoints: nothing here encodes or decodes with it. Text is an InputError.
Corpus open_shards(const DataSettings& settings, bool quiet);

// The loader and the identity of a corpus over the tokens that `load` gives for patterns. `end`: what ends a
// document.
using LoadTokens = std::function<std::shared_ptr<const TokenStore>(const std::vector<std::string>& patterns)>;
void fill_token_corpus(Corpus& corpus, const DataSettings& settings, const std::string& tokenizer_fingerprint,
                       std::optional<int32_t> end, const LoadTokens& load);

// Fills the loader and the identity of a corpus by `fill`, which opens settings with neither `mix` nor `val`:
// of each source and each set where there are some. Its loaders must be RowLoaders.
using FillCorpus = std::function<void(Corpus& corpus, const DataSettings& settings)>;
void fill_mixed_corpus(Corpus& corpus, const DataSettings& settings, const FillCorpus& fill);

// Sets sizes.vocab_size where it is 0. Where it is too small for the tokenizer, that is limited if weights
// say it, and an InputError otherwise.
void complete_vocabulary(DataSizes& sizes, Tokenizer& tokenizer);

}  // namespace hydrac::runtime
