// From a verb's arguments to a spec that can be compiled, with the data's part of it filled in.
#pragma once
#include <optional>

#include "cli/input/arguments.h"
#include "diag/diagnostic.h"
#include "passes/log.h"
#include "runtime/data/corpus.h"
#include "runtime/sample/sample.h"
#include "spec/reader/tree.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Loads the spec that the first positional argument names, with overrides. Prints diagnostics to stderr;
// nullopt after an error. More than one positional argument is an InputError.
std::optional<spec::Spec> load(const Arguments& arguments);

// The same for the spec that a run saved. Prints only warnings about overrides: the others were printed when
// the run began.
std::optional<spec::Spec> load_of_run(const Arguments& arguments);

// The same as load() with `laid_over` as spec::load_spec() takes it, and nothing printed.
std::optional<spec::Spec> load_over(const Arguments& arguments, const spec::Node* laid_over,
                                    diag::Diagnostics& diagnostics);

// To stderr; warnings of a `good` spec not with --quiet.
void print_diagnostics(const Arguments& arguments, const diag::Diagnostics& diagnostics, bool good);

// InputError, in the option's name, when the key that it stands for does not take `value`.
void require_option(const std::string& option, const std::string& key, const std::string& value);

runtime::DataSettings data_settings(const spec::Spec& spec);

// Fills in vocab_size from the tokenizer, num_features and num_labels from the CSV's columns, unless they are
// given. InputError if the given ones are too small for the data. `tokenizer` may be null for series.
void complete_from_data(spec::Spec& spec, runtime::Tokenizer* tokenizer);

// The same, reading the tokenizer or the data only where the spec leaves a size open.
void complete_sizes(spec::Spec& spec);

// Completes the spec for a plan: sizes, the keys that planning chooses (cli/input/choose_keys.h), and the
// length of a run that is given in train.epochs. Returns planning's decisions.
passes::Log complete_for_planning(spec::Spec& spec, int64_t memory_bytes = 0);

// Prints what was found after the spec was loaded: its lines are read again.
void print_found_late(diag::Diagnostics& diagnostics);

// Opens everything that a run reads, and completes the spec; Reported if that is an error. `quiet`: warnings
// and planning's decisions are not printed. `memory_bytes`: as for choose_keys().
runtime::Corpus open_corpus(spec::Spec& spec, bool quiet, int64_t memory_bytes = 0);

// Refuses what open_corpus() refuses, with the same messages, but tokenizes only enough to show that there is
// enough data (Corpus::is_cut). The spec must be complete.
runtime::Corpus look_at_corpus(const spec::Spec& spec);

// All files that data.path and data.val_path name are there.
bool has_data_files(const spec::Spec& spec);

runtime::SampleOptions sample_options(const spec::Spec& spec);

// Prints and throws Reported where the spec asks for several ranks, of which `verb` knows nothing.
void require_one_process(const spec::Spec& spec, const std::string& verb);

// For a spec with an objective: reports it and throws Reported: "hydrac VERB WHY, and objective.name is ...".
void require_no_objective(const spec::Spec& spec, const std::string& verb, const std::string& why);
// Says on stderr with which learning rate `verb` takes its steps where a run would find one first.
void note_found_rate(const spec::Spec& spec, const std::string& verb);
// Says on stderr where `verb` times the part of a step alone that trains, and an objective samples replies.
void note_unsampled_replies(const spec::Spec& spec, const std::string& verb);

// `text` as a YAML scalar, for overrides that are made from options.
std::string yaml_quoted(const std::string& text);

int thread_count(const spec::Spec& spec);  // of a rank: optimizations.threads, or its share of the cores

// Prints and throws Reported where train.cpu_affinity names cores that this process cannot use.
void require_cores(const spec::Spec& spec);

// The same, and this process, which is one alone, runs on them from here on.
void run_on_its_cores(const spec::Spec& spec);

}  // namespace hydrac::cli
