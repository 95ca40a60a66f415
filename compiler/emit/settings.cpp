#include "emit/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/number_text.h"
#include "emit/source_file.h"
#include "emit/writer.h"
#include "runtime/data/source_kind.h"
#include "targets/target.h"

namespace hydrac::emit {

using codegen::number_text;

std::string string_literal(const std::string& text) {
  std::string literal = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      literal += "\\n";
      if (i + 1 < text.size()) literal += "\"\n\"";
    } else if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (c < ' ' || c > '~') {
      literal += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

namespace {

std::string list_literal(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + string_literal(word);
  return "{" + list + "}";
}

// Settings as assignments; those that are as they start are left out.
class Assignments {
 public:
  Assignments(Writer& out, std::string object) : out_(out), object_(std::move(object)) {}

  void number(const std::string& member, double value, double start) {
    if (value != start) out_.line(fmt::format("{}.{} = {};", object_, member, number_text(value)));
  }
  void integer(const std::string& member, int64_t value, int64_t start) {
    if (value != start) out_.line(fmt::format("{}.{} = {};", object_, member, number_text(value)));
  }
  void boolean(const std::string& member, bool value, bool start) {
    if (value != start) out_.line(fmt::format("{}.{} = {};", object_, member, value));
  }
  void text(const std::string& member, const std::string& value, const std::string& start = "") {
    if (value != start) out_.line(fmt::format("{}.{} = {};", object_, member, string_literal(value)));
  }
  void list(const std::string& member, const std::vector<std::string>& words) {
    if (!words.empty()) out_.line(fmt::format("{}.{} = {};", object_, member, list_literal(words)));
  }

 private:
  Writer& out_;
  std::string object_;
};

// All but the seed.
void print_sampling(Assignments& set, const runtime::SampleOptions& sampling,
                    const runtime::SampleOptions& usual) {
  set.number("sampling.temperature", sampling.temperature, usual.temperature);
  set.integer("sampling.top_k", sampling.top_k, usual.top_k);
  set.number("sampling.top_p", sampling.top_p, usual.top_p);
  set.number("sampling.min_p", sampling.min_p, usual.min_p);
  set.number("sampling.repetition_penalty", sampling.repetition_penalty, usual.repetition_penalty);
}

void print_train(Writer& out, const runtime::TrainOptions& t) {
  const runtime::TrainOptions start;
  out.line("TrainOptions& train = settings.train;");
  Assignments set(out, "train");
  set.text("run_dir", t.run_dir.generic_string());
  set.text("weights", t.weights.generic_string());
  set.boolean("adapters", t.adapters, start.adapters);
  set.text("adapter_weights", t.adapter_weights.generic_string());
  set.integer("max_steps", t.max_steps, start.max_steps);
  set.integer("gradient_accumulation_steps", t.gradient_accumulation_steps,
              start.gradient_accumulation_steps);
  set.integer("eval_steps", t.eval_steps, start.eval_steps);
  set.integer("eval_batches", t.eval_batches, start.eval_batches);
  set.integer("save_steps", t.save_steps, start.save_steps);
  set.number("save_seconds", t.save_seconds, start.save_seconds);
  set.boolean("save_best", t.save_best, start.save_best);
  set.integer("save_total_limit", t.save_total_limit, start.save_total_limit);
  if (t.trace_steps > 0) {
    set.integer("trace_first", t.trace_first, start.trace_first);
    set.integer("trace_steps", t.trace_steps, start.trace_steps);
  }
  if (t.range_test.steps > 0) {
    set.number("range_test.lowest", t.range_test.lowest, start.range_test.lowest);
    set.number("range_test.highest", t.range_test.highest, start.range_test.highest);
    set.integer("range_test.steps", t.range_test.steps, start.range_test.steps);
  }
  set.integer("log_steps", t.log_steps, start.log_steps);
  set.integer("tokens_per_step", t.tokens_per_step, start.tokens_per_step);
  set.number("peak_flops", t.peak_flops, start.peak_flops);
  Assignments sample(out, "train.sample");
  sample.text("prompt", t.sample.prompt, start.sample.prompt);
  sample.integer("max_new_tokens", t.sample.max_new_tokens, start.sample.max_new_tokens);
  const auto &sampling = t.sample.sampling, &usual = start.sample.sampling;
  print_sampling(sample, sampling, usual);
  sample.list("stop", t.sample.stop);
  sample.integer("sampling.seed", static_cast<int64_t>(sampling.seed), static_cast<int64_t>(usual.seed));
  out.line("");
}

void print_objective(Writer& out, const runtime::ObjectiveSettings& o) {
  if (o.prompts == 0) return;
  const runtime::ObjectiveSettings start;
  out.line("// What is learned from replies that are sampled.");
  out.line("ObjectiveSettings& objective = train.objective;");
  Assignments set(out, "objective");
  set.integer("prompts", o.prompts, start.prompts);
  set.integer("replies", o.replies, start.replies);
  set.number("weight", o.weight, start.weight);
  set.number("kl", o.kl, start.kl);
  set.integer("prompt_tokens", o.prompt_tokens, start.prompt_tokens);
  set.integer("max_new_tokens", o.max_new_tokens, start.max_new_tokens);
  out.line("objective.sequence_len = T;");
  if (o.reward.timeout_seconds > 0) {
    out.line("// The command is the command line's to say.");
    set.number("reward.timeout_seconds", o.reward.timeout_seconds, start.reward.timeout_seconds);
  }
  const auto &sampling = o.sampling, &usual = start.sampling;
  print_sampling(set, sampling, usual);
  set.integer("sampling.seed", static_cast<int64_t>(sampling.seed), static_cast<int64_t>(usual.seed));
  out.line("");
}

// The encoder of replies: where a run looks for its folder, and what must be found there.
void print_encoder(Writer& out, const runtime::EncoderFolder& e) {
  if (e.folder.empty()) return;
  out.line("// The encoder that embeds replies. --embed names another folder with it.");
  out.line("EncoderFolder& encoder = settings.encoder;");
  Assignments set(out, "encoder");
  set.text("folder", e.folder.generic_string());
  set.integer("vocab_size", e.vocab_size, 0);
  set.boolean("first_token", e.first_token, false);
  set.text("shape", e.shape);
  out.line("// What its files must say, as JSON: the program was made for it.");
  out.open("encoder.facts = {");
  for (const runtime::EncoderFact& fact : e.facts)
    out.line(fmt::format("{{{}, {}, {}}},", string_literal(fact.file), string_literal(fact.key),
                         string_literal(fact.value)));
  out.close("};");
  out.line("");
}

void print_curriculum(Writer& out, const runtime::Curriculum& c) {
  if (c.steps == 0) return;
  const char* by = c.by == runtime::CurriculumOrder::file     ? "file"
                   : c.by == runtime::CurriculumOrder::length ? "length"
                                                              : "rarity";
  out.line("// Easier sequences first.");
  out.line(
      fmt::format("data.curriculum = {{.steps = {}, .start = {}, .by = CurriculumOrder::{}, "
                  ".samples_per_step = {}}};",
                  c.steps, number_text(c.start), by, c.samples_per_step));
}

void print_data(Writer& out, const runtime::DataSettings& d) {
  const runtime::DataSettings start;
  out.line("DataSettings& data = settings.data;");
  Assignments set(out, "data");
  set.list("path", d.path);
  set.list("val_path", d.val_path);
  for (const runtime::DataSource& source : d.mix)
    out.line(fmt::format("data.mix.push_back({{{}, {}, {}, {}}});", string_literal(source.name),
                         list_literal(source.path), number_text(source.weight), number_text(source.epochs)));
  for (const runtime::DataSet& val : d.val)
    out.line(
        fmt::format("data.val.push_back({{{}, {}}});", string_literal(val.name), list_literal(val.path)));
  set.number("val_fraction", d.val_fraction, start.val_fraction);
  set.text("tokenizer", d.tokenizer, start.tokenizer);
  set.text("text_key", d.text_key, start.text_key);
  if (d.raw_uint16) out.line("data.raw_uint16 = true;");
  set.boolean("items", d.items, start.items);
  set.text("chat_template", d.chat_template, start.chat_template);
  set.text("chat_template_jinja", d.chat_template_jinja, start.chat_template_jinja);
  set.text("plain_chat_template", d.plain_chat_template, start.plain_chat_template);
  set.text("chat_template_kwargs", d.chat_template_kwargs, start.chat_template_kwargs);
  set.text("chat_date", d.chat_date, start.chat_date);
  for (const auto& [field, name] : d.fields) set.text(fmt::format("fields[{}]", string_literal(field)), name);
  set.boolean("replies_only", d.replies_only, start.replies_only);
  set.boolean("last_only", d.last_only, start.last_only);
  set.integer("pairs", d.pairs, start.pairs);
  set.integer("most_prompt_tokens", d.most_prompt_tokens, start.most_prompt_tokens);
  set.boolean("cut_long_items", d.cut_long_items, start.cut_long_items);
  set.text("cache_dir", d.cache_dir, start.cache_dir);
  set.list("target", d.target);
  set.list("features", d.features);
  if (d.classification) out.line("data.classification = true;");
  if (!d.shuffle) out.line("data.shuffle = false;");
  print_curriculum(out, d.curriculum);
  if (d.document_mask) out.line("data.document_mask = true;");
  if (const auto& warmup = d.sequence_warmup; warmup.cuts_rows()) {
    out.line("// Rows are cut into shorter sequences at first.");
    out.line(
        fmt::format("data.sequence_warmup = {{.sequence_len = T, .start = {}, .steps = {}, "
                    ".samples_per_step = {}}};",
                    warmup.start, warmup.steps, warmup.samples_per_step));
  }
  set.integer("sizes.vocab_size", d.sizes.vocab_size, 0);
  if (d.sizes.has_weights) out.line("data.sizes.has_weights = true;");
  set.integer("sizes.num_features", d.sizes.num_features, 0);
  set.integer("sizes.num_labels", d.sizes.num_labels, 0);
  out.line("data.batch_size = B;");
  out.line("data.sequence_len = T;");
  set.integer("seed", static_cast<int64_t>(d.seed), 0);
  out.line("");
}

void print_files(Writer& out, const runtime::TrainOptions& t) {
  out.line("// What must be the same when a run is resumed.");
  out.line("train.identity = {");
  out.line("#include \"identity.inc\"");
  out.line("};");
  for (const auto& [name, text] : t.checkpoint_files) {
    out.line(fmt::format("train.checkpoint_files[{}] =", string_literal(name)));
    out.line(string_literal(text) + ";");
  }
  if (!t.zero_tensors.empty()) {
    out.line("// Of other readers of checkpoints: biases that this model lacks.");
    out.open("train.zero_tensors = {");
    for (const runtime::ZeroTensor& tensor : t.zero_tensors)
      out.line(fmt::format("{{{}, {{{}}}}},", string_literal(tensor.name), fmt::join(tensor.shape, ", ")));
    out.close("};");
  }
  if (!t.checkpoint_note.empty())
    out.line(fmt::format("train.checkpoint_note = {};", string_literal(t.checkpoint_note)));
  out.line("train.spec_text =");
  out.line("#include \"spec.inc\"");
  out.line(";");
}

void print_choices(Writer& out, const runtime::RecordedChoices& choices) {
  if (choices.empty()) return;
  out.line("// What `hydrac tune` measured, to be repeated where the libraries are the same.");
  for (const auto& [section, entries] : choices.sections()) {
    for (const auto& [key, value] : entries)
      out.line(fmt::format("settings.choices.set({}, {}, {});", string_literal(section), string_literal(key),
                           string_literal(value)));
  }
}

}  // namespace

std::string identity_table(const runtime::TrainSettings& settings) {
  std::string lines;
  for (const auto& [key, value] : settings.train.identity)
    lines += fmt::format("{{{}, {}}},\n", string_literal(key), string_literal(value));
  return lines;
}

std::string settings_source(const runtime::TrainSettings& settings) {
  Writer out;
  out.line("// The command line may change some of it.");
  out.open("TrainSettings train_settings() {");
  out.line("TrainSettings settings;");
  out.line(fmt::format("settings.name = {};", string_literal(settings.name)));
  Assignments(out, "settings").integer("ranks", settings.ranks, 1);
  if (!settings.cores.empty())
    out.line(fmt::format("settings.cores = {{{}}};", fmt::join(settings.cores, ", ")));
  out.line("");
  print_train(out, settings.train);
  print_objective(out, settings.train.objective);
  print_encoder(out, settings.encoder);
  print_data(out, settings.data);
  print_files(out, settings.train);
  print_choices(out, settings.choices);
  out.line("return settings;");
  out.close();
  return out.text();
}

DataKind data_kind(const runtime::DataSettings& data, const spec::Spec& spec) {
  if (spec.model.input == spec::Input::series) return DataKind::series;
  if (data.raw_uint16) return DataKind::shards;
  const auto is_shard = [](const std::string& pattern) {
    return runtime::source_kind(pattern) == runtime::SourceKind::tokens;
  };
  return std::ranges::all_of(runtime::all_paths(data), is_shard) ? DataKind::shards : DataKind::text;
}

std::string corpus_header(DataKind kind) {
  switch (kind) {
    case DataKind::shards:
      return "runtime/data/corpus.h";
    case DataKind::text:
      return "runtime/text/text_corpus.h";
    case DataKind::series:
      return "runtime/series/series_corpus.h";
  }
  throw std::logic_error("no such kind of data");
}

std::string library_source(const spec::Spec& spec) {
  return fmt::format(
      "\ntrain_program* train_create() {{\n"
      "  return hydrac::runtime::create_for_c(hydrac::{0}::train_settings(),\n"
      "                                     [](const hydrac::runtime::RecordedChoices& recorded) {{ return "
      "std::make_unique<hydrac::{0}::Program>(recorded); }});\n}}\n",
      namespace_of(spec));
}

std::string main_source(const spec::Spec& spec, DataKind kind) {
  const std::string name = namespace_of(spec);
  const std::string open = kind == DataKind::shards ? "open_shards"
                           : kind == DataKind::text ? "open_text"
                                                    : "open_series";
  // OpenMP's threads would spin while they wait, which slows the others down.
  const bool cpu = targets::find(spec.target)->is_cpu();
  const char* encoder = spec::encoder_of_replies(spec) ? ",\n hydrac::runtime::open_encoder" : "";
  return fmt::format(
      "\nint main(int argc, char** argv) {{\n{2}"
      "  return hydrac::runtime::train_main(argc, argv, hydrac::{0}::train_settings(), "
      "hydrac::runtime::{1},\n"
      "                                     [](const hydrac::runtime::RecordedChoices& recorded) {{ return "
      "std::make_unique<hydrac::{0}::Program>(recorded); }}{3});\n}}\n",
      name, open, cpu ? "  hydrac::runtime::let_idle_threads_sleep(argv);\n" : "", encoder);
}

}  // namespace hydrac::emit
