// The data of a spec, as a run opens it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/input/choose_keys.h"
#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "runtime/data/input_files.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/series/series_corpus.h"
#include "runtime/text/text_corpus.h"
#include "spec/hugging_face/chat_template.h"
#include "spec/with_data.h"

namespace hydrac::cli {

using runtime::InputError;

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

// A map of names to texts.
std::map<std::string, std::string> texts_of(const spec::NamedValues& values) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, json] : values) texts[name] = nlohmann::json::parse(json).get<std::string>();
  return texts;
}

std::string object_of(const spec::NamedValues& values) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, json] : values) object[name] = nlohmann::ordered_json::parse(json);
  return object.dump();
}

void set_chat(const spec::Spec& spec, runtime::DataSettings& settings) {
  settings.items = true;
  settings.chat_template = to_string(spec.data.chat_template);
  settings.fields = texts_of(spec.data.fields);
  settings.replies_only = spec.data.train_on != spec::TrainOn::all;
  settings.last_only = spec.data.train_on == spec::TrainOn::last;
  settings.cut_long_items = spec.data.too_long == spec::TooLong::cut;
  if (spec.data.chat_template != spec::ChatFormat::own) return;
  settings.chat_template_jinja = spec.data.chat_template_jinja;
  settings.chat_template_kwargs = object_of(spec.data.chat_template_kwargs);
  settings.chat_date = spec.data.chat_date;
  const auto own = spec::own_template(spec);
  const spec::ChatFormat like = own ? spec::format_like(*own) : spec::ChatFormat::none;
  if (like != spec::ChatFormat::none) settings.plain_chat_template = to_string(like);
}

}  // namespace

runtime::DataSettings data_settings(const spec::Spec& spec) {
  runtime::DataSettings settings;
  settings.path = spec.data.path;
  settings.val_path = spec.data.val_path;
  settings.val_fraction = spec.data.val_fraction;
  for (const spec::Source& source : spec.data.mix)
    settings.mix.push_back({source.name, source.path, source.weight, source.epochs});
  for (const spec::Source& set : spec.data.val) settings.val.push_back({set.name, set.path});
  settings.tokenizer = spec.data.tokenizer;
  settings.text_key = spec.data.text_key;
  settings.raw_uint16 = spec.data.format == spec::DataFormat::uint16;
  if (spec.data.format == spec::DataFormat::chat) set_chat(spec, settings);
  if (spec::learns_preferences(spec)) settings.pairs = spec::pairs_of_sequence(spec);
  if (spec::samples_replies(spec)) settings.most_prompt_tokens = spec.objective.prompt_tokens;
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

void refuse_where_wrong(diag::Diagnostics& diagnostics) {
  if (!diagnostics.has_errors()) return;
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void find_missing_tokenizer(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  const std::string& tokenizer = spec.data.tokenizer;
  const bool is_file = spec.model.input == spec::Input::tokens && tokenizer != "byte" && tokenizer != "char";
  if (is_file && !std::filesystem::exists(tokenizer))
    diagnostics.report(diag::Kind::unreadable_file, spec.where("data.tokenizer"),
                       fmt::format("{}: there is no such file", tokenizer),
                       "a tokenizer is byte, char, or the path of a Hugging Face tokenizer.json");
}

// "owner/name", as data sets are called elsewhere.
bool looks_like_a_name(const std::string& path) {
  std::error_code ignored;
  return path.find_first_of("*?[{") == std::string::npos && !std::filesystem::path(path).has_extension() &&
         !std::filesystem::exists(path, ignored);
}

void find_missing_data(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  const auto find = [&](const char* key, const std::vector<std::string>& patterns) {
    try {
      runtime::expand_patterns(patterns, ".");
    } catch (const InputError& error) {
      const bool is_name = std::ranges::any_of(patterns, looks_like_a_name);
      diagnostics.report(diag::Kind::unreadable_file, spec.where(key), error.what(),
                         is_name ? "a dataset of Hugging Face's hub is written hf:OWNER/NAME" : "");
    }
  };
  if (spec.data.mix.empty()) find("data.path", spec.data.path);
  if (!spec.data.val_path.empty()) find("data.val_path", spec.data.val_path);
  for (const spec::Source& source : spec.data.mix) find("data.mix", source.path);
  for (const spec::Source& set : spec.data.val) find("data.val", set.path);
}

// A model with weights may have fewer rows. A tokenizer that cannot be opened is refused elsewhere.
void find_small_vocabulary(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  if (spec.model.input != spec::Input::tokens || spec.model.vocab_size == 0 ||
      spec::begins_with_weights(spec))
    return;
  try {
    const int64_t tokens = runtime::open_tokenizer(data_settings(spec))->vocab_size();
    if (spec.model.vocab_size < tokens)
      diagnostics.report(diag::Kind::vocab_too_small, spec.where("model.vocab_size"),
                         fmt::format("vocab_size is {}, and the tokenizer {} has {} tokens",
                                     spec.model.vocab_size, spec.data.tokenizer, tokens),
                         fmt::format("remove it, or write {} or more", tokens));
  } catch (const InputError&) {
  }
}

// After data could not be opened: a file that is not there, or a vocabulary that is too small, is an error at
// its key.
void require_data(const spec::Spec& spec) {
  diag::Diagnostics diagnostics;
  find_missing_data(spec, diagnostics);
  find_missing_tokenizer(spec, diagnostics);
  refuse_where_wrong(diagnostics);
  find_small_vocabulary(spec, diagnostics);
  refuse_where_wrong(diagnostics);
}

// The same where sizes alone are wanted, for which data is not read but of series and characters.
void require_sources_of_sizes(const spec::Spec& spec) {
  if (spec.model.input == spec::Input::series || spec.data.tokenizer == "char") return require_data(spec);
  diag::Diagnostics diagnostics;
  find_missing_tokenizer(spec, diagnostics);
  refuse_where_wrong(diagnostics);
}

runtime::Corpus open_data(const spec::Spec& spec, const runtime::DataSettings& settings, bool quiet) {
  return spec.model.input == spec::Input::tokens ? open_text(settings, quiet) : open_series(settings, quiet);
}

runtime::Corpus opened_or_refused(const spec::Spec& spec, bool quiet) {
  try {
    return open_data(spec, data_settings(spec), quiet);
  } catch (const InputError&) {
    require_data(spec);
    throw;
  }
}

// So many tokens that both parts of the data have a sequence.
int64_t enough_tokens(const spec::Spec& spec) {
  constexpr double kLeast = 1 << 16;
  const auto sequence = static_cast<double>(spec.train.sequence_len + 1);
  const double val = spec.data.val_path.empty() && spec.data.val.empty() ? spec.data.val_fraction : 0;
  const double tokens = (val > 0 ? sequence / val : 0) + sequence / (1 - val) + 2;
  return static_cast<int64_t>(std::ceil(std::max(tokens, kLeast)));
}

}  // namespace

namespace {

int64_t largest_set(const runtime::BatchLoader& loader) {
  int64_t batches = 0;
  for (const runtime::EvalSet& set : loader.eval_sets()) batches = std::max(batches, set.batches);
  return batches;
}

}  // namespace

runtime::Corpus open_corpus(spec::Spec& spec, bool quiet, int64_t memory_bytes) {
  for (const passes::Decision& decision : choose_keys(spec, memory_bytes))
    if (!quiet) runtime::print_error(fmt::format("note: {}: {}\n", decision.pass, decision.text));
  if (!quiet && spec.data.chat_template == spec::ChatFormat::own)
    if (const auto own = spec::own_template(spec))
      runtime::print_error(fmt::format("note: data.chat_template is own: {}\n", own->shown_as));
  runtime::Corpus corpus = opened_or_refused(spec, quiet);
  set_sizes(spec, corpus.sizes);
  diag::Diagnostics diagnostics;
  const bool good = complete_with_data(
      spec, {corpus.loader->samples_per_epoch(), largest_set(*corpus.loader), corpus.loader->most_samples()},
      diagnostics);
  if (!good || !quiet) print_found_late(diagnostics);
  if (!good) throw Reported{kBadInput};
  return corpus;
}

runtime::Corpus look_at_corpus(const spec::Spec& spec) {
  runtime::DataSettings settings = data_settings(spec);
  settings.enough_tokens = enough_tokens(spec);
  try {
    return open_data(spec, settings, true);
  } catch (const InputError&) {
    return opened_or_refused(spec, true);  // only all of the data shows what it lacks
  }
}

bool has_data_files(const spec::Spec& spec) {
  diag::Diagnostics missing;
  find_missing_data(spec, missing);
  return !missing.has_errors();
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

}  // namespace hydrac::cli
