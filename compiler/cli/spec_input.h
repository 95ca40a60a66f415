// From a verb's arguments to a spec that can be compiled, with the data's part of it filled in.
#pragma once
#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "runtime/data/batch.h"
#include "runtime/data/tokenizer.h"
#include "runtime/sample/sample.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Loads the spec that the first positional argument names, with overrides. Prints diagnostics to stderr;
// nothing when there was an error. More than one positional argument is an InputError.
std::optional<spec::Spec> load(const Arguments& arguments);

// The tokenizer of a spec over tokens; builds a character vocabulary from the corpus when it has to.
std::unique_ptr<runtime::Tokenizer> make_tokenizer(const spec::Spec& spec);

// Fills vocab_size from the tokenizer, num_features and num_labels from the CSV's columns, where they are not
// given. InputError when the given ones are too small for the data. `tokenizer` may be null for series.
void complete_from_data(spec::Spec& spec, const runtime::Tokenizer* tokenizer);

// The same for verbs that only plan: reads the tokenizer or the data only where the spec leaves a size open.
void complete_for_planning(spec::Spec& spec);

// Everything a run reads: batches, what must go into its checkpoints, and a fingerprint of the data.
struct Corpus {
  std::unique_ptr<runtime::Tokenizer> tokenizer;  // null for series
  std::shared_ptr<const runtime::BatchLoader> loader;
  std::map<std::string, std::string> files;  // checkpoint files: tokenizer.json, standardizers
  std::string fingerprint;
};
// Completes the spec too.
Corpus open_corpus(spec::Spec& spec, bool quiet);

runtime::SampleOptions sample_options(const spec::Spec& spec);

// `text` as a YAML scalar, for overrides that are made from options.
std::string yaml_quoted(const std::string& text);

int thread_count(const spec::Spec& spec);  // optimizations.threads, or this machine's cores

}  // namespace hydrac::cli
