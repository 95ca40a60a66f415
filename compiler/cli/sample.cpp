// `hydrac sample RUN`: text from a run's newest checkpoint, from a named one, or from a model folder in
// Hugging Face's format; one text as it is generated, or many as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/build_program.h"
#include "cli/generation/generation_plan.h"
#include "cli/generation/inference.h"
#include "cli/generation/sample_texts.h"
#include "cli/input/checkpoint_source.h"
#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/log/signal.h"
#include "runtime/text/text_corpus.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "runtime/train/generation/generate.h"
#include "runtime/train/generation/next_logits.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"
#include "runtime/train/run/run_folder.h"
#include "spec/load.h"
#include "targets/cuda/machine.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;
using runtime::RunError;

namespace {

// Options of the verb are overrides of the spec's section `sample`.
std::vector<std::string> overrides_of(const Arguments& arguments) {
  static const std::pair<const char*, const char*> keys[] = {{"--prompt", "prompt"},
                                                             {"--max-new-tokens", "max_new_tokens"},
                                                             {"--temperature", "temperature"},
                                                             {"--top-k", "top_k"},
                                                             {"--top-p", "top_p"},
                                                             {"--min-p", "min_p"},
                                                             {"--repetition-penalty", "repetition_penalty"},
                                                             {"--stop", "stop"},
                                                             {"--seed", "seed"},
                                                             {"--cache-memory", "cache_memory"}};
  std::vector<std::string> overrides = arguments.overrides;
  for (const auto& [option, key] : keys) {
    const std::optional<std::string> value = arguments.value(option);
    if (!value) continue;
    const bool is_text = std::string(key) == "prompt" || std::string(key) == "stop";
    if (!is_text) require_option(option, fmt::format("sample.{}", key), *value);
    overrides.push_back(fmt::format("sample.{}={}", key, is_text ? yaml_quoted(*value) : *value));
  }
  return overrides;
}

// The spec that the run saved. The folder that was asked for replaces its output.dir, which may be out of
// date, and its cores are dropped, because they are those of the machine that trained.
std::optional<spec::Spec> spec_of_run(Arguments arguments, const fs::path& run) {
  arguments.overrides = overrides_of(arguments);
  arguments.overrides.push_back("output.dir=" + yaml_quoted(run.string()));
  arguments.overrides.emplace_back("train.cpu_affinity=none");
  // Sampling embeds nothing, and the encoder's folder may be gone.
  arguments.overrides.emplace_back("objective.embed=model");
  arguments.positional[0] = runtime::spec_path(run).string();
  return load_of_run(arguments);
}

// True if the folder is no run's and no checkpoint, but a model's, as model.from takes it.
bool is_model(const fs::path& folder) {
  return fs::exists(folder / "config.json") && !fs::exists(runtime::metrics_path(folder)) &&
         !fs::exists(folder / runtime::manifest_name);
}

// As config.json has it. 1 if it does not say it as a number: whoever reads all of config.json reports
// errors.
int64_t max_position_embeddings(const fs::path& folder) {
  const auto config = nlohmann::json::parse(runtime::read_file(folder / "config.json"), nullptr, false);
  const auto length = config.is_object() ? config.find("max_position_embeddings") : config.end();
  return length != config.end() && length->is_number_integer() ? length->get<int64_t>() : 1;
}

std::optional<spec::Spec> spec_of_model(const Arguments& arguments, const fs::path& folder) {
  std::vector<std::string> overrides = overrides_of(arguments);
  overrides.push_back("model.from=" + yaml_quoted(folder.string()));
  if (const auto threads = arguments.value("--threads")) {
    require_option("--threads", "optimizations.threads", *threads);
    overrides.push_back("optimizations.threads=" + *threads);
  }
  diag::Diagnostics diagnostics;
  const auto load = [&](int64_t sequence_len) {
    diagnostics = {};
    return spec::load_spec_text("sample.yaml",
                                fmt::format("name: sample\ndata: {{path: none}}\ntrain: {{sequence_len: {}, "
                                            "micro_batch_size: 1, max_steps: 1}}\n",
                                            sequence_len),
                                overrides, diagnostics, targets::detected_gpu().value_or("cpu"));
  };
  // The longest sequence the model sees, of which routed layers (model.mod) choose a share. Some families
  // have another name for it.
  const int64_t written = max_position_embeddings(folder);
  std::optional<spec::Spec> spec = load(written);
  if (spec && spec->model.max_position_embeddings != written)
    spec = load(spec->model.max_position_embeddings);
  if (!spec) print_diagnostics(arguments, diagnostics, false);
  return spec;
}

// The command line's request, with its prompts.
struct Task {
  runtime::GenerateOptions options;
  std::vector<SamplePrompt> prompts;
  size_t replies = 1;  // of each prompt
  int64_t batch = 1;
  bool logits = false;  // of the token behind the prompt, instead of text
  bool streams = true;  // the one text, as it comes

  size_t texts() const { return prompts.size() * replies; }
};

int64_t count_option(const Arguments& arguments, const std::string& option, int64_t fallback) {
  constexpr int64_t most = 1 << 20;
  const int64_t count = arguments.number(option, fallback);
  if (count < 1 || count > most)
    throw InputError(fmt::format("{} is {}; it must be between 1 and {}", option, count, most));
  return count;
}

// The chat template of the spec, or of a tokenizer that no spec of conversations was made for. `tokenizer`:
// the path of the one beside which it lies.
runtime::DataSettings chat_settings(const spec::Spec& spec, const std::string& tokenizer) {
  runtime::DataSettings settings = data_settings(spec);
  settings.tokenizer = tokenizer;
  settings.chat_template_jinja.clear();  // which a checkpoint has as its own
  if (settings.chat_template == "none") settings.chat_template = "own";
  return settings;
}

Task task_of(const Arguments& arguments, const spec::Spec& spec, const runtime::Tokenizer& tokenizer,
             const std::string& tokenizer_path) {
  constexpr size_t usual_batch = 16;
  Task task;
  task.options.prompt = spec.sample.prompt;
  task.options.max_new_tokens = spec.sample.max_new_tokens;
  task.options.stop = spec.sample.stop;
  task.options.sampling = sample_options(spec);
  task.prompts = sample_prompts(arguments, tokenizer, task.options, chat_settings(spec, tokenizer_path));
  task.replies = static_cast<size_t>(count_option(arguments, "--replies", 1));
  task.logits = arguments.has("--logits");
  task.streams = task.texts() == 1 && !arguments.has("--file") && !arguments.has("--output");
  if (task.logits && !task.streams)
    throw InputError("--logits is for one prompt: leave --file, --replies and --output out");
  const auto texts = static_cast<int64_t>(task.texts());
  task.batch = std::min(texts, count_option(arguments, "--batch", usual_batch));
  return task;
}

// Makes the spec that of a program for the task. `context_limit`: what the model sees at most.
models::Generation plan_task(spec::Spec& spec, const Task& task, int64_t context_limit) {
  require_within_context(task.prompts, context_limit);
  GenerationNeeds needs{.sequences = task.batch,
                        .new_tokens = std::max<int64_t>(task.options.max_new_tokens, 1),
                        .context_limit = context_limit};
  if (task.logits) needs.new_tokens = 0;
  for (const SamplePrompt& prompt : task.prompts)
    needs.longest_prompt = std::max(needs.longest_prompt, static_cast<int64_t>(prompt.ids.size()));
  return plan_generation(spec, needs);
}

// {"tokens": [ids of the prompt], "logits": [of each id as the next token]}, with enough digits for a float.
// JSON has no infinity and no NaN.
int print_logits(runtime::StepProgram& program, const std::vector<int32_t>& ids) {
  runtime::NextLogits next(program);
  const std::span<const float> logits = next.next_logits(ids, static_cast<int64_t>(ids.size()) - 1);
  const auto broken = std::ranges::find_if_not(logits, [](float logit) { return std::isfinite(logit); });
  if (broken != logits.end())
    throw RunError(fmt::format(
        "the logit of token {} is {}: numbers of this model leave the range of optimizations.precision",
        broken - logits.begin(), *broken));
  fmt::print("{{\"tokens\": [{}], \"logits\": [{}]}}\n", fmt::join(ids, ", "), fmt::join(logits, ", "));
  return kFine;
}

int ended() {
  return runtime::stop_requested() ? runtime::kExitInterrupted : kFine;
}

// With --chat the reply alone.
int print_text(runtime::StepProgram& program, const runtime::Tokenizer& tokenizer, const Task& task,
               bool chats) {
  if (!chats) fmt::print("{}", runtime::printable(task.options.prompt));
  const runtime::TextRequest request{task.prompts[0].ids, task.options.sampling.seed};
  runtime::TextEvents events;
  events.on_text = [](size_t, std::string_view text) {
    fmt::print("{}", runtime::printable(text));
    std::fflush(stdout);
  };
  generate_batch(program, tokenizer, {&request, 1}, task.options, events);
  fmt::print("\n");
  return ended();
}

// Reply r of a prompt is seeded with the seed + r, whatever the other prompts are.
int write_replies(const Arguments& arguments, runtime::StepProgram& program,
                  const runtime::Tokenizer& tokenizer, const Task& task) {
  std::vector<runtime::TextRequest> requests;
  for (const SamplePrompt& prompt : task.prompts) {
    for (size_t reply = 0; reply < task.replies; ++reply)
      requests.push_back({prompt.ids, task.options.sampling.seed + reply});
  }
  ReplyWriter writer(arguments.value("--output").value_or(""), task.prompts, task.replies);
  runtime::TextEvents events;
  events.on_end = [&](size_t request, const runtime::Reply& reply) {
    writer.add(request / task.replies, request % task.replies, reply);
  };
  const runtime::GenerateCounts counts = generate_batch(program, tokenizer, requests, task.options, events);
  if (!arguments.has("--quiet")) runtime::print_error(speed_text(counts) + "\n");
  return ended();
}

int do_task(const Arguments& arguments, runtime::StepProgram& program, const runtime::Tokenizer& tokenizer,
            const Task& task) {
  if (task.logits) return print_logits(program, task.prompts[0].ids);
  runtime::install_stop_handlers();
  return task.streams ? print_text(program, tokenizer, task, arguments.has("--chat"))
                      : write_replies(arguments, program, tokenizer, task);
}

int sample_run(const Arguments& arguments) {
  const auto [run, dir] = checkpoint_source(arguments.positional[0]);
  std::optional<spec::Spec> spec = spec_of_run(arguments, run);
  if (!spec) return kBadInput;
  if (!fs::exists(dir / "tokenizer.json"))
    throw InputError(arguments.positional[0] + " is no language model: there is no text to sample");
  const auto tokenizer = runtime::load_tokenizer(dir / "tokenizer.json");
  complete_from_data(*spec, tokenizer.get());
  const Task task = task_of(arguments, *spec, *tokenizer, (dir / "tokenizer.json").string());
  BuildOptions build;
  build.recorded = runtime::read_choices(dir).value_or(runtime::RecordedChoices());
  build.generation = plan_task(*spec, task, spec->train.sequence_len);
  const BuiltProgram built = build_program(*spec, build);
  runtime::StepProgram& program = built.program->steps();
  fill_from_checkpoint(program, *spec, dir);
  return do_task(arguments, program, *tokenizer, task);
}

int sample_model(const Arguments& arguments, const fs::path& folder) {
  std::optional<spec::Spec> spec = spec_of_model(arguments, folder);
  if (!spec) return kBadInput;
  if (spec->model.head != spec::Head::language_model)
    throw InputError(folder.string() + " is no language model: there is no text to sample");
  const runtime::WeightFiles weights(spec->model.weights);  // what is damaged is said before time is spent
  const auto tokenizer = runtime::open_tokenizer(data_settings(*spec));
  complete_from_data(*spec, tokenizer.get());
  const Task task = task_of(arguments, *spec, *tokenizer, spec->data.tokenizer);
  BuildOptions build;
  build.generation = plan_task(*spec, task, spec->model.max_position_embeddings);
  freeze_for_inference(*spec);
  const BuiltProgram built = build_program(*spec, build);
  runtime::StepProgram& program = built.program->steps();
  weights.start(program);
  return do_task(arguments, program, *tokenizer, task);
}

}  // namespace

int sample_verb(const Arguments& arguments) {
  if (arguments.positional.empty()) throw InputError("which run? Give its folder");
  const fs::path folder = arguments.positional[0];
  return is_model(folder) ? sample_model(arguments, folder) : sample_run(arguments);
}

}  // namespace hydrac::cli
