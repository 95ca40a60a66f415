#include "cli/spec_input.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cli/choose_keys.h"
#include "cli/verb.h"
#include "diag/diagnostic.h"
#include "models/adapter.h"
#include "models/freeze.h"
#include "runtime/app/run_ranks.h"
#include "runtime/data/input_files.h"
#include "runtime/error.h"
#include "runtime/parallel/cores.h"
#include "runtime/parallel/world.h"
#include "runtime/series/series_corpus.h"
#include "runtime/text/text_corpus.h"
#include "spec/chat_template.h"
#include "spec/divisors.h"
#include "spec/load.h"
#include "spec/overrides.h"
#include "spec/with_data.h"
#include "targets/cuda/machine.h"

namespace hydrac::cli {

using runtime::InputError;

namespace {

// The overrides as one line, as load_over() read them: what print_found_late() shows of them.
std::string& command_line() {
  static std::string line;
  return line;
}

}  // namespace

std::optional<spec::Spec> load(const Arguments& arguments) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = load_over(arguments, nullptr, diagnostics);
  print_diagnostics(arguments, diagnostics, spec.has_value());
  return spec;
}

std::optional<spec::Spec> load_of_run(const Arguments& arguments) {
  diag::Diagnostics diagnostics, of_overrides;
  std::optional<spec::Spec> spec = load_over(arguments, nullptr, diagnostics);
  if (!spec) {
    print_diagnostics(arguments, diagnostics, false);
    return spec;
  }
  of_overrides.add_source(diag::kCommandLine, command_line());
  for (const diag::Diagnostic& d : diagnostics.all())
    if (d.where.on_command_line()) of_overrides.report(d.kind, d.where, d.message, d.suggestion);
  print_diagnostics(arguments, of_overrides, true);
  return spec;
}

void print_diagnostics(const Arguments& arguments, const diag::Diagnostics& diagnostics, bool good) {
  const std::string text = diagnostics.render();
  if (!text.empty() && !(good && arguments.has("--quiet"))) fmt::print(stderr, "{}", text);
}

namespace {

// What attention's kernels take, on every target.
bool head_dim_fits(int64_t head_dim) {
  constexpr int64_t kStep = 8, kMost = 256;
  return head_dim % kStep == 0 && head_dim <= kMost;
}

// What to write instead: where head_dim follows from the number of heads, the nearest other number.
std::string fitting_heads(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  if (spec.is_set("model.head_dim") || m.attention_kind != spec::AttentionKind::gqa)
    return "write head_dim: 64, 128 or another multiple of 8";
  int64_t best = 0;
  for (const int64_t heads : spec::divisors(m.hidden_size)) {
    if (!head_dim_fits(m.hidden_size / heads)) continue;
    if (best == 0 || std::abs(heads - m.num_attention_heads) < std::abs(best - m.num_attention_heads))
      best = heads;
  }
  return best > 0 ? fmt::format("num_attention_heads: {} would fit; or write head_dim", best)
                  : "write head_dim: 64, or a hidden_size that is a multiple of 64";
}

void check_head_dim(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  const int64_t head_dim = spec.model.head_dim;
  if (head_dim_fits(head_dim)) return;
  diag::Location place;
  for (const char* key : {"model.head_dim", "model.num_attention_heads", "model.hidden_size"})
    if (!place.known()) place = spec.where(key);
  diagnostics.report(
      diag::Kind::option_unsupported, place,
      fmt::format("head_dim is {}, and attention's kernels take multiples of 8 up to 256", head_dim),
      fitting_heads(spec));
}

}  // namespace

std::optional<spec::Spec> load_over(const Arguments& arguments, const spec::Node* laid_over,
                                    diag::Diagnostics& diagnostics) {
  if (arguments.positional.empty() || arguments.positional[0].empty())
    throw InputError("which spec? Give the path of a YAML file");
  if (arguments.positional.size() > 1) {
    throw InputError(fmt::format("\"{}\" is one argument too many: overrides are written key=value",
                                 arguments.positional[1]));
  }
  std::vector<std::string> overrides = arguments.overrides;
  if (auto threads = arguments.value("--threads")) {
    require_option("--threads", "optimizations.threads", *threads);
    overrides.push_back("optimizations.threads=" + *threads);
  }
  if (arguments.has("--numerics")) overrides.emplace_back("tune.numerics=true");
  std::optional<spec::Spec> spec = spec::load_spec(arguments.positional[0], overrides, diagnostics,
                                                   targets::detected_gpu().value_or("cpu"), laid_over);
  command_line() = diagnostics.source_line({diag::kCommandLine, 1, 1});
  if (spec) models::check_freeze(*spec, diagnostics);
  if (spec) models::check_adapter(*spec, diagnostics);
  if (spec) check_head_dim(*spec, diagnostics);
  return diagnostics.has_errors() ? std::nullopt : std::move(spec);
}

void require_option(const std::string& option, const std::string& key, const std::string& value) {
  const std::string problem = spec::option_problem(key, value, option);
  if (!problem.empty()) throw InputError(problem);
}

namespace {

runtime::CurriculumOrder runtime_order(spec::CurriculumOrder order) {
  switch (order) {
    case spec::CurriculumOrder::file:
      return runtime::CurriculumOrder::file;
    case spec::CurriculumOrder::length:
      return runtime::CurriculumOrder::length;
    case spec::CurriculumOrder::rarity:
      return runtime::CurriculumOrder::rarity;
  }
  throw std::logic_error("an order of a curriculum without a name");
}

// What an error about messages without a template says of the model's own.
std::string template_hint(const spec::Spec& spec) {
  if (spec.data.format != spec::DataFormat::chat || spec.data.chat_template != spec::ChatFormat::none)
    return "";
  const auto own = spec::OwnChatTemplate::beside(spec.data.tokenizer);
  if (!own) return "";
  const spec::ChatFormat nearest = own->nearest();
  if (nearest == spec::ChatFormat::none) return fmt::format("none of them is like {}", own->file());
  return fmt::format("{} is the nearest to {}, but {}", to_string(nearest), own->file(),
                     own->difference_from(nearest));
}

}  // namespace

runtime::DataSettings data_settings(const spec::Spec& spec) {
  runtime::DataSettings settings;
  settings.path = spec.data.path;
  settings.val_path = spec.data.val_path;
  settings.val_fraction = spec.data.val_fraction;
  settings.tokenizer = spec.data.tokenizer;
  settings.text_key = spec.data.text_key;
  settings.raw_uint16 = spec.data.format == spec::DataFormat::uint16;
  settings.items = spec.data.format == spec::DataFormat::chat;
  settings.chat_template = to_string(spec.data.chat_template);
  settings.template_hint = template_hint(spec);
  settings.replies_only = spec.data.train_on == spec::TrainOn::replies;
  settings.cut_long_items = spec.data.too_long == spec::TooLong::cut;
  if (spec::has_objective(spec)) settings.most_prompt_tokens = spec.objective.prompt_tokens;
  settings.cache_dir = spec.data.cache_dir;
  settings.target = spec.data.target;
  settings.features = spec.data.features;
  settings.shuffle = spec.data.shuffle;
  if (const auto& c = spec.data.curriculum; c.steps > 0)
    settings.curriculum = {c.steps, c.start, runtime_order(c.by), spec.train.global_batch_size};
  settings.document_mask = spec.data.document_mask;
  if (spec::warms_sequences_up(spec))
    settings.sequence_warmup = {spec.train.sequence_len, spec.train.sequence_warmup.start,
                                spec.train.sequence_warmup.steps, spec.train.global_batch_size};
  settings.classification = spec.model.head == spec::Head::classification;
  settings.sizes = {spec.model.vocab_size, spec.model.num_features, spec.model.num_labels,
                    spec::begins_with_weights(spec)};
  settings.batch_size = spec.train.micro_batch_size;
  settings.sequence_len = spec.train.sequence_len;
  settings.seed = static_cast<uint64_t>(spec.train.seed);
  return settings;
}

namespace {

void set_sizes(spec::Spec& spec, const runtime::DataSizes& sizes) {
  spec.model.vocab_size = sizes.vocab_size;
  spec.model.num_features = sizes.num_features;
  spec.model.num_labels = sizes.num_labels;
}

}  // namespace

void complete_from_data(spec::Spec& spec, runtime::Tokenizer* tokenizer) {
  const runtime::DataSettings settings = data_settings(spec);
  runtime::DataSizes sizes = settings.sizes;
  if (tokenizer)
    complete_vocabulary(sizes, *tokenizer);
  else if (sizes.num_features == 0 || sizes.num_labels == 0)
    complete_from_series(sizes, settings);
  set_sizes(spec, sizes);
}

namespace {

void find_missing_tokenizer(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  const std::string& tokenizer = spec.data.tokenizer;
  const bool is_file = spec.model.input == spec::Input::tokens && tokenizer != "byte" && tokenizer != "char";
  if (is_file && !std::filesystem::exists(tokenizer))
    diagnostics.report(diag::Kind::unreadable_file, spec.where("data.tokenizer"),
                       fmt::format("{}: there is no such file", tokenizer),
                       "a tokenizer is byte, char, or the path of a Hugging Face tokenizer.json");
}

// Where data cannot be opened: what the spec names and is not there is an error at its key.
void require_data_files(const spec::Spec& spec) {
  diag::Diagnostics diagnostics;
  const auto report = [&](const char* key, const std::string& message) {
    diagnostics.report(diag::Kind::unreadable_file, spec.where(key), message);
  };
  const auto require = [&](const char* key, const std::vector<std::string>& patterns) {
    try {
      runtime::expand_patterns(patterns, ".");
    } catch (const runtime::InputError& error) {
      report(key, error.what());
    }
  };
  require("data.path", spec.data.path);
  if (!spec.data.val_path.empty()) require("data.val_path", spec.data.val_path);
  find_missing_tokenizer(spec, diagnostics);
  if (!diagnostics.has_errors()) return;
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

// The same where sizes alone are wanted, for which data is not read but of series and characters.
void require_sources_of_sizes(const spec::Spec& spec) {
  if (spec.model.input == spec::Input::series || spec.data.tokenizer == "char")
    return require_data_files(spec);
  diag::Diagnostics diagnostics;
  find_missing_tokenizer(spec, diagnostics);
  if (!diagnostics.has_errors()) return;
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

runtime::Corpus opened(const spec::Spec& spec, bool quiet) {
  const runtime::DataSettings settings = data_settings(spec);
  try {
    return spec.model.input == spec::Input::tokens ? open_text(settings, quiet)
                                                   : open_series(settings, quiet);
  } catch (const runtime::InputError&) {
    require_data_files(spec);
    throw;
  }
}

}  // namespace

runtime::Corpus open_corpus(spec::Spec& spec, bool quiet, int64_t memory_bytes) {
  for (const passes::Decision& decision : choose_keys(spec, memory_bytes))
    if (!quiet) fmt::print(stderr, "note: {}: {}\n", decision.pass, decision.text);
  if (!quiet && spec.data.chat_template != spec::ChatFormat::none && !spec.is_set("data.chat_template"))
    fmt::print(stderr, "note: data.chat_template is {}, which writes as the model's own template does\n",
               to_string(spec.data.chat_template));
  runtime::Corpus corpus = opened(spec, quiet);
  set_sizes(spec, corpus.sizes);
  diag::Diagnostics diagnostics;
  const bool good = complete_with_data(
      spec, {corpus.loader->samples_per_epoch(), corpus.loader->eval_batches()}, diagnostics);
  if (!good || !quiet) print_found_late(diagnostics);
  if (!good) throw Reported{kBadInput};
  return corpus;
}

runtime::SampleOptions sample_options(const spec::Spec& spec) {
  runtime::SampleOptions options;
  options.temperature = static_cast<decltype(options.temperature)>(spec.sample.temperature);
  options.top_k = static_cast<decltype(options.top_k)>(spec.sample.top_k);
  options.top_p = static_cast<decltype(options.top_p)>(spec.sample.top_p);
  options.min_p = spec.sample.min_p;
  options.repetition_penalty = spec.sample.repetition_penalty;
  options.seed = static_cast<uint64_t>(spec.sample.seed);
  return options;
}

void require_one_process(const spec::Spec& spec, const std::string& verb) {
  if (spec::rank_count(spec) == 1) return;
  diag::Diagnostics diagnostics;
  const auto refuse = [&](const char* key, int64_t ranks) {
    if (ranks > 1)
      diagnostics.report(diag::Kind::option_unsupported, spec.where(key),
                         fmt::format("hydrac {} is about one process, and {} is {}", verb, key, ranks),
                         fmt::format("write {}=1 behind the spec's name", key));
  };
  refuse("parallel.data", spec.parallel.data);
  refuse("parallel.tensor", spec.parallel.tensor);
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void require_no_objective(const spec::Spec& spec, const std::string& verb, const std::string& why) {
  if (!spec::has_objective(spec)) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(
      diag::Kind::objective_unsupported, spec.where("objective.name"),
      fmt::format("hydrac {} {}, and objective.name is {}", verb, why, to_string(spec.objective.name)),
      "write objective.name=none behind the spec's name");
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void note_found_rate(const spec::Spec& spec, const std::string& verb) {
  const spec::LearningRate& rate = spec.train.optimizer.learning_rate;
  if (!rate.automatic) return;
  fmt::print(
      stderr,
      "note: train.optimizer.learning_rate is auto, which a run finds by a range test; hydrac {} takes {}, "
      "{}'s default\n",
      verb, rate.value, to_string(spec.train.optimizer.name));
}

void note_unsampled_replies(const spec::Spec& spec, const std::string& verb) {
  if (!spec::has_objective(spec)) return;
  fmt::print(stderr,
             "note: hydrac {} samples no replies: it times the part of a step that trains, in which {} of {} "
             "micro-batches are those of replies\n",
             verb, spec::sampled_micro_batches(spec), spec::micro_batches_of_step(spec));
}

void print_found_late(diag::Diagnostics& diagnostics) {
  for (const diag::Diagnostic& diagnostic : diagnostics.all()) {
    std::ostringstream source;
    if (diagnostic.where.file == diag::kCommandLine)
      source << command_line();
    else if (std::ifstream file(diagnostic.where.file); file)
      source << file.rdbuf();
    diagnostics.add_source(diagnostic.where.file, source.str());
  }
  fmt::print(stderr, "{}", diagnostics.render());
}

passes::Log complete_for_planning(spec::Spec& spec, int64_t memory_bytes) {
  passes::Log decisions = choose_keys(spec, memory_bytes);
  if (spec::waits_for_data(spec))
    open_corpus(spec, true, memory_bytes);
  else
    complete_sizes(spec);
  return decisions;
}

void complete_sizes(spec::Spec& spec) {
  try {
    if (spec.model.input == spec::Input::series)
      complete_from_data(spec, nullptr);
    else if (spec.model.vocab_size == 0)
      complete_from_data(spec, runtime::open_tokenizer(data_settings(spec)).get());
  } catch (const InputError&) {
    require_sources_of_sizes(spec);
    throw;
  }
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
  const std::vector<int>& cores = spec.train.cpu_affinity.numbers;
  const int count = cores.empty() ? runtime::usable_cores() : static_cast<int>(cores.size());
  return std::max(1, count / runtime::ranks_of_this_host(static_cast<int>(spec::rank_count(spec))));
}

void require_cores(const spec::Spec& spec) {
  const std::string problem = runtime::problem_with_cores(
      runtime::cores_to_check(spec.train.cpu_affinity.numbers, static_cast<int>(spec::rank_count(spec))));
  if (problem.empty()) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(diag::Kind::core_missing, spec.where("train.cpu_affinity"), problem,
                     "name other cores, or write cpu_affinity: none");
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void run_on_its_cores(const spec::Spec& spec) {
  require_cores(spec);
  runtime::use_cores(spec.train.cpu_affinity.numbers);
}

}  // namespace hydrac::cli
