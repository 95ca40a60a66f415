#include "cli/spec_input.h"

#include <fmt/format.h>
#include <sched.h>

#include "diag/diagnostic.h"
#include "runtime/data/hash.h"
#include "runtime/data/series_loader.h"
#include "runtime/data/token_loader.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "spec/load.h"
#include "targets/cuda/machine.h"

namespace hydrac::cli {

using runtime::InputError;

std::optional<spec::Spec> load(const Arguments& arguments) {
  if (arguments.positional.empty()) throw InputError("which spec? Give the path of a YAML file");
  if (arguments.positional.size() > 1) {
    throw InputError(fmt::format("\"{}\" is one argument too many: overrides are written key=value",
                                 arguments.positional[1]));
  }
  std::vector<std::string> overrides = arguments.overrides;
  if (auto threads = arguments.value("--threads")) overrides.push_back("optimizations.threads=" + *threads);
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec(arguments.positional[0], overrides, diagnostics,
                                                   targets::detected_gpu().value_or("cpu"));
  const std::string text = diagnostics.render();
  if (!text.empty() && !(spec && arguments.has("--quiet"))) fmt::print(stderr, "{}", text);
  return spec;
}

namespace {

runtime::CorpusOptions corpus_options(const spec::Spec& spec, const spec::StringList& patterns, bool quiet) {
  runtime::CorpusOptions options;
  options.base = ".";
  options.patterns = patterns;
  options.text_key = spec.data.text_key;
  options.cache_dir = spec.data.cache_dir;
  if (!quiet) {
    options.notice = [](const std::string& line) { fmt::print("{}\n", line); };
    options.progress = [](const runtime::TokenizeProgress& p) {
      fmt::print("tokenizing: {} of {}, {} tokens\n", runtime::human_bytes(p.bytes_done),
                 runtime::human_bytes(p.bytes_total), runtime::human_count(static_cast<double>(p.tokens)));
      std::fflush(stdout);
    };
  }
  return options;
}

runtime::SeriesOptions series_options(const spec::Spec& spec) {
  runtime::SeriesOptions options;
  options.base = ".";
  options.patterns = spec.data.path;
  options.val_patterns = spec.data.val_path;
  options.val_fraction = spec.data.val_fraction;
  options.target_columns = spec.data.target;
  options.feature_columns = spec.data.features;
  options.classification = spec.model.head == spec::Head::classification;
  options.num_classes = options.classification ? spec.model.num_labels : 0;
  return options;
}

void complete_series(spec::Spec& spec, const runtime::SeriesDataset& data) {
  auto fill = [](int64_t& key, int64_t found, const char* name) {
    if (key == 0) key = found;
    if (key != found) throw InputError(fmt::format("{} is {}, the data has {}", name, key, found));
  };
  fill(spec.model.num_features, data.features(), "model.num_features");
  if (spec.model.head == spec::Head::regression)
    fill(spec.model.num_labels, data.target_values(), "model.num_labels");
  if (spec.model.head == spec::Head::classification && spec.model.num_labels == 0)
    spec.model.num_labels = data.num_classes();
}

}  // namespace

std::unique_ptr<runtime::Tokenizer> make_tokenizer(const spec::Spec& spec) {
  if (spec.data.tokenizer == "byte") return runtime::make_byte_tokenizer();
  if (spec.data.tokenizer == "char") {
    runtime::CorpusOptions options = corpus_options(spec, spec.data.path, true);
    options.patterns.insert(options.patterns.end(), spec.data.val_path.begin(), spec.data.val_path.end());
    return runtime::make_corpus_char_tokenizer(options);
  }
  return runtime::load_tokenizer(spec.data.tokenizer);
}

void complete_from_data(spec::Spec& spec, const runtime::Tokenizer* tokenizer) {
  if (!tokenizer) {
    if (spec.model.num_features == 0 || spec.model.num_labels == 0)
      complete_series(spec, *runtime::SeriesDataset::load(series_options(spec)));
    return;
  }
  if (spec.model.vocab_size == 0) spec.model.vocab_size = tokenizer->vocab_size();
  if (spec.model.vocab_size < tokenizer->vocab_size()) {
    throw InputError(fmt::format(
        "model.vocab_size is {}, but the tokenizer has {} tokens: leave vocab_size out, or make it larger",
        spec.model.vocab_size, tokenizer->vocab_size()));
  }
}

namespace {

// Size and some of the tokens: enough to notice that a corpus is another one.
std::string token_fingerprint(const runtime::TokenStore& store) {
  constexpr int64_t most = 1 << 20;
  std::vector<int32_t> ids(static_cast<size_t>(std::min(store.size(), most)));
  store.read(0, ids);
  runtime::Hash64 hash;
  auto add_ids = [&] { hash.add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]}); };
  add_ids();
  store.read(store.size() - static_cast<int64_t>(ids.size()), ids);
  add_ids();
  return fmt::format("{} tokens, {:016x}", store.size(), hash.value());
}

void open_tokens(spec::Spec& spec, Corpus& corpus, bool quiet) {
  corpus.tokenizer = make_tokenizer(spec);
  complete_from_data(spec, corpus.tokenizer.get());
  auto train = runtime::load_tokens(corpus_options(spec, spec.data.path, quiet), *corpus.tokenizer);
  corpus.fingerprint = corpus.tokenizer->fingerprint() + ", " + token_fingerprint(*train);
  runtime::TokenDataset dataset =
      spec.data.val_path.empty()
          ? runtime::TokenDataset::split(train, spec.data.val_fraction)
          : runtime::TokenDataset::separate(
                train,
                runtime::load_tokens(corpus_options(spec, spec.data.val_path, quiet), *corpus.tokenizer));
  const spec::Train& t = spec.train;
  corpus.loader = std::make_shared<runtime::TokenLoader>(
      dataset,
      runtime::TokenLoaderOptions{t.micro_batch_size, t.sequence_len, static_cast<uint64_t>(t.seed)});
  corpus.files["tokenizer.json"] = corpus.tokenizer->to_json();
}

void open_series(spec::Spec& spec, Corpus& corpus) {
  auto data = runtime::SeriesDataset::load(series_options(spec));
  complete_series(spec, *data);
  const spec::Train& t = spec.train;
  runtime::SeriesLoaderOptions options{t.micro_batch_size, t.sequence_len, static_cast<uint64_t>(t.seed)};
  corpus.loader = std::make_shared<runtime::SeriesLoader>(data, options);
  corpus.files["features.json"] = data->feature_stats().to_json();
  corpus.files["targets.json"] = data->target_stats().to_json();
  corpus.fingerprint = fmt::format("{} rows", data->rows());
}

}  // namespace

Corpus open_corpus(spec::Spec& spec, bool quiet) {
  Corpus corpus;
  if (spec.model.input == spec::Input::tokens)
    open_tokens(spec, corpus, quiet);
  else
    open_series(spec, corpus);
  return corpus;
}

runtime::SampleOptions sample_options(const spec::Spec& spec) {
  runtime::SampleOptions options;
  options.temperature = static_cast<decltype(options.temperature)>(spec.sample.temperature);
  options.top_k = static_cast<decltype(options.top_k)>(spec.sample.top_k);
  options.top_p = static_cast<decltype(options.top_p)>(spec.sample.top_p);
  options.seed = static_cast<uint64_t>(spec.sample.seed);
  return options;
}

void complete_for_planning(spec::Spec& spec) {
  if (spec.model.input == spec::Input::series)
    complete_from_data(spec, nullptr);
  else if (spec.model.vocab_size == 0)
    complete_from_data(spec, make_tokenizer(spec).get());
}

std::string yaml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else
      quoted += c;
  }
  return quoted + "\"";
}

int thread_count(const spec::Spec& spec) {
  if (spec.optimizations.threads > 0) return static_cast<int>(spec.optimizations.threads);
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace hydrac::cli
