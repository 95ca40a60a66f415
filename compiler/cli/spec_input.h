// From a verb's arguments to a spec that can be compiled, with the data's part of it filled in.
#pragma once
#include <optional>

#include "cli/arguments.h"
#include "diag/diagnostic.h"
#include "runtime/data/corpus.h"
#include "runtime/sample/sample.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Loads the spec that the first positional argument names, with overrides. Prints diagnostics to stderr;
// nothing when there was an error. More than one positional argument is an InputError.
std::optional<spec::Spec> load(const Arguments& arguments);

// InputError, in the option's name, when the key that it stands for does not take `value`.
void require_option(const std::string& option, const std::string& key, const std::string& value);

runtime::DataSettings data_settings(const spec::Spec& spec);

// Fills vocab_size from the tokenizer, num_features and num_labels from the CSV's columns, where they are not
// given. InputError when the given ones are too small for the data. `tokenizer` may be null for series.
void complete_from_data(spec::Spec& spec, const runtime::Tokenizer* tokenizer);

// The same for verbs that only plan: reads the tokenizer or the data only where the spec leaves a size open,
// or gives train.epochs.
void complete_for_planning(spec::Spec& spec);

// Prints what was found after the spec was loaded: its lines are read again.
void print_found_late(diag::Diagnostics& diagnostics);

// Everything a run reads. Completes the spec too; Reported where that is an error. Warnings are not printed
// if `quiet`.
runtime::Corpus open_corpus(spec::Spec& spec, bool quiet);

runtime::SampleOptions sample_options(const spec::Spec& spec);

// `text` as a YAML scalar, for overrides that are made from options.
std::string yaml_quoted(const std::string& text);

int thread_count(const spec::Spec& spec);  // optimizations.threads, or this machine's cores

}  // namespace hydrac::cli
