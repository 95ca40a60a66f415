#include "evidence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/build_program.h"
#include "cli/generation/generation_plan.h"
#include "cli/input/spec_input.h"
#include "cli/input/train_settings.h"
#include "emit/emit.h"
#include "program/program.h"
#include "runtime/error.h"
#include "runtime/log/metrics.h"
#include "runtime/program/initialize.h"
#include "runtime/train/train.h"
#include "spec/load.h"
#include "spec/print.h"
#include "targets/executable/program_layout.h"
#include "tests/unit/support/temp_dir.h"
#include "tests/unit/train/fake_program.h"
#include "tune/candidate.h"

namespace hydrac::test {

namespace fs = std::filesystem;

namespace {

std::string numbers(size_t count, uint64_t seed) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{} ", runtime::mix64(seed * 1000 + i) % 997);
  return text;
}

std::string series() {
  std::string text = "a,b,y,up\n";
  for (uint64_t row = 0; row < 120; ++row) {
    const auto value = [&](uint64_t column) { return runtime::mix64(row * 8 + column) % 100; };
    text += fmt::format("{},{},{},{}\n", value(0), value(1), value(2), value(3) % 2);
  }
  return text;
}

std::string chats() {
  std::string lines;
  for (uint64_t i = 0; i < 40; ++i) {
    nlohmann::json messages;
    for (uint64_t turn = 0; turn < 4; ++turn)
      messages.push_back(
          {{"role", turn % 2 == 0 ? "user" : "assistant"}, {"content", numbers(2, 4 * i + turn)}});
    lines += nlohmann::json{{"messages", messages}}.dump() + "\n";
  }
  return lines;
}

spec::Spec loaded(const std::string& yaml, const std::vector<std::string>& overrides) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text("spec.yaml", yaml, overrides, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  return *spec;
}

std::string starting_values(const runtime::ProgramLayout& layout) {
  std::string text = fmt::format("seed {}\n", layout.seed);
  uint32_t stream = 0;
  for (const runtime::ParameterStart& start : layout.starts) {
    std::vector<float> values(static_cast<size_t>(std::min<int64_t>(start.place.elements, 8)));
    runtime::initialize_parameter(values, 0, start, layout.seed, stream++);
    text += fmt::format("{}\n", values);
  }
  if (!layout.rope) return text;
  const auto elements = static_cast<size_t>(layout.rope->cos.elements);
  std::vector<float> cos(elements), sin(elements);
  runtime::fill_rope_tables(*layout.rope, cos, sin);
  return text + fmt::format("{}\n{}\n", cos, sin);
}

std::string text_of(const driver::Compiled& compiled) {
  std::string text = fmt::format("{} threads\n", compiled.threads);
  for (const program::Dimension& d : compiled.program.dimensions)
    text += fmt::format("{} {}\n", d.symbol, d.size);
  for (const ir::SpecNumber& number : compiled.program.numbers)
    text += fmt::format("{} {}\n", number.name, number.value);
  for (const program::Kernel& kernel : compiled.program.kernels) text += program::definition_text(kernel);
  text += to_text(compiled.graph, compiled.program);
  text += to_text(compiled.graph, compiled.plan);
  const runtime::ProgramLayout layout = targets::layout_of(compiled);
  text += fmt::format("{} bytes, {} micro-batches\n", layout.arena_bytes, layout.gradient_accumulation_steps);
  return text + starting_values(layout);
}

std::string program_of(spec::Spec spec) {
  cli::complete_for_planning(spec);
  return text_of(cli::plan_program(spec, {.offline = true}).compiled);
}

std::string generation_of(spec::Spec spec) {
  cli::complete_for_planning(spec);
  cli::BuildOptions options{.offline = true};
  options.generation = cli::plan_generation(
      spec,
      {.sequences = 2, .longest_prompt = 40, .new_tokens = spec.sample.max_new_tokens, .context_limit = 64});
  return text_of(cli::plan_program(spec, options).compiled);
}

std::string emitted(spec::Spec spec) {
  cli::complete_for_planning(spec);
  const driver::Compiled compiled = cli::plan_program(spec, {.offline = true}).compiled;
  std::string text;
  for (const auto& [name, source] :
       emit::emit(compiled, cli::train_settings(compiled.spec), {"spec.yaml", {}}))
    if (name != "spec.inc" && name != "train.cpp") text += name + "\n" + source;
  return text;
}

std::string tuning_of(const spec::Spec& spec) {
  std::string text;
  for (const tune::Candidate& candidate : tune::numerics_of(spec)) text += candidate.text() + "\n";
  return text;
}

// Every file below the working folder but TensorBoard's, whose names have the time.
std::string files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(".")) {
    const std::string name = entry.path().generic_string();
    if (entry.is_regular_file() && name.find("tfevents") == std::string::npos) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}\n", fmt::join(names, "\n"));
}

std::string text_of(const runtime::Batch& batch) {
  return fmt::format("{} {} {} {} {} {}\n", batch.tokens, batch.targets, batch.documents, batch.positions,
                     batch.features, batch.float_targets);
}

std::string batches_of(spec::Spec spec) {
  const runtime::Corpus corpus = cli::open_corpus(spec, true);
  std::string text = corpus.tokenizer ? corpus.tokenizer->to_json() : "";
  runtime::Batch batch;
  for (int64_t sample = 0; sample < 2 * corpus.loader->samples_per_epoch();
       sample += corpus.loader->batch_size()) {
    corpus.loader->fill_train(sample, batch);
    text += text_of(batch);
  }
  for (int64_t index = 0; index < corpus.loader->eval_batches(); ++index) {
    corpus.loader->fill_eval(index, batch);
    text += "validation " + text_of(batch);
  }
  return text + files();
}

// metrics.jsonl without what depends on time.
std::string metrics(const fs::path& file) {
  std::string text;
  std::istringstream lines(slurp(file));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json record = nlohmann::json::parse(line);
    for (const runtime::MetricField& field : runtime::metric_fields()) {
      if (field.is_timing) record.erase(field.key);
    }
    text += record.dump() + "\n";
  }
  return text;
}

std::string run_of(spec::Spec spec) {
  const runtime::Corpus corpus = cli::open_corpus(spec, true);
  runtime::TrainOptions options = cli::train_settings(spec).train;
  options.tokenizer = corpus.tokenizer.get();
  options.terminal = false;
  std::FILE* out = std::tmpfile();
  options.out = out;
  runtime::FakeProgram program;
  if (spec::samples_replies(spec)) program.replies = static_cast<size_t>(spec.objective.replies);
  const runtime::TrainReport report = runtime::train(program, corpus.loader, options);
  std::string printed(static_cast<size_t>(std::ftell(out)), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(printed.data(), 1, printed.size(), out), printed.size());
  std::fclose(out);
  const std::string saved = report.checkpoint.string();  // what follows its name is the sample
  for (const auto& [timed, steps] : program.timed) printed += fmt::format(" {} after {}", timed, steps);
  return files() + metrics(options.run_dir / "metrics.jsonl") +
         slurp(report.checkpoint / (options.adapters ? "adapter_config.json" : "config.json")) +
         printed.substr(printed.rfind(saved) + saved.size());
}

// The kinds of the spec's errors; "data" where it is the data that is refused.
std::string refusal_of(const std::string& yaml, const std::vector<std::string>& overrides) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text("spec.yaml", yaml, overrides, diagnostics);
  try {
    if (spec) cli::open_corpus(*spec, true);
  } catch (const runtime::InputError&) {
    return "data ";
  }
  std::string kinds;
  for (const diag::Diagnostic& diagnostic : diagnostics.all())
    if (severity(diagnostic.kind) == diag::Severity::error) kinds += id(diagnostic.kind) + " ";
  return kinds;
}

}  // namespace

Bench::Bench() : before_(fs::current_path().string()) {
  std::string pattern = (fs::temp_directory_path() / "hydrac-keys-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed for " + pattern);
  folder_ = pattern;
  fs::current_path(folder_);
  spill("a.txt", numbers(400, 1));
  spill("b.txt", numbers(200, 2));
  std::string lines;
  for (int line = 0; line < 20; ++line) {
    const auto seed = static_cast<uint64_t>(line);
    lines += nlohmann::json{{"text", numbers(20, seed)}, {"other", numbers(20, seed + 50)}}.dump() + "\n";
  }
  spill("c.jsonl", lines);
  lines.clear();
  for (uint64_t line = 0; line < 20; ++line) {
    const size_t length = line % 3 == 0 ? 40 : 4;  // some are longer than a sequence
    lines +=
        nlohmann::json{{"prompt", numbers(1, line)}, {"completion", std::string(length, 'x')}}.dump() + "\n";
  }
  spill("pairs.jsonl", lines);
  spill("chat.jsonl", chats());
  const std::string own =
      "{{ strftime_now('%d %b') }}{{ name }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor "
      "%}"
      "{% if add_generation_prompt %}assistant: {% endif %}";
  spill("own.jinja", own);
  spill("other.jinja", "Hello" + own);
  lines.clear();
  for (uint64_t line = 0; line < 20; ++line)
    lines += nlohmann::json{{"prompt", numbers(1, line)},
                            {"chosen", std::string(2 + line % 3, 'x')},
                            {"rejected", std::string(4, 'y')}}
                 .dump() +
             "\n";
  spill("preferences.jsonl", lines);
  spill("series.csv", series());
  std::string ids;
  for (uint64_t id = 0; id < 400; ++id) ids += {static_cast<char>(runtime::mix64(id) % 256), '\0'};
  spill("raw.bin", ids);
  // Zeros for the parameters of FakeProgram.
  const std::string header =
      R"({"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"weight":{"dtype":"F32","shape":[4,3],"data_offsets":[8,56]}})";
  std::string zeros(8 + header.size() + 56, '\0');
  zeros[0] = static_cast<char>(header.size());
  zeros.replace(8, header.size(), header);
  spill("zeros.safetensors", zeros);
  fs::create_directory("peft");
  spill("peft/adapter_model.safetensors", zeros);
  spill("peft/adapter_config.json",
        R"({"peft_type": "LORA", "r": 4, "lora_alpha": 3, "bias": "none", "target_modules": ["q_proj"]})");
  fs::create_directory("encoder");
  spill("encoder/config.json",
        R"({"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 16, "vocab_size": 30, "max_position_embeddings": 16})");
  spill("below.yaml", "train: {seed: 5}\n");
  spill("config.json",
        R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 0.001, "hidden_act": "silu"})");
}

Bench::~Bench() {
  fs::current_path(before_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string evidence(Shows shows, const std::string& yaml, const std::vector<std::string>& overrides) {
  const Bench bench;
  switch (shows) {
    case Shows::program:
      return program_of(loaded(yaml, overrides));
    case Shows::batches:
      return batches_of(loaded(yaml, overrides));
    case Shows::emitted:
      return emitted(loaded(yaml, overrides));
    case Shows::run:
      return run_of(loaded(yaml, overrides));
    case Shows::generation:
      return generation_of(loaded(yaml, overrides));
    case Shows::tuning:
      return tuning_of(loaded(yaml, overrides));
    case Shows::refusal:
      return refusal_of(yaml, overrides);
  }
  throw std::logic_error("no such evidence");
}

std::pair<std::string, std::string> printed(const std::string& yaml,
                                            const std::vector<std::string>& overrides) {
  const Bench bench;
  const std::string once = spec::to_yaml(loaded(yaml, overrides));
  return {once, spec::to_yaml(loaded(once, {}))};
}

}  // namespace hydrac::test
