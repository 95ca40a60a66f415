// `hydrac SPEC`: compile and train.
#include <fmt/format.h>

#include "cli/checkpoint_files.h"
#include "cli/program_memory.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "driver/compile.h"
#include "runtime/log/units.h"
#include "runtime/train/train.h"
#include "spec/print.h"
#include "targets/cpu/executor.h"

namespace hydrac::cli {

namespace {

runtime::TrainOptions train_options(const spec::Spec& spec, const Corpus& corpus,
                                    const Arguments& arguments) {
  runtime::TrainOptions options;
  const spec::Train& t = spec.train;
  options.run_dir = spec.output.dir;
  options.max_steps = t.max_steps;
  options.gradient_accumulation_steps = t.gradient_accumulation_steps;
  options.eval_steps = t.eval_steps;
  options.eval_batches = t.eval_batches;
  options.save_steps = t.save_steps;
  options.save_total_limit = t.save_total_limit;
  options.log_steps = t.log_steps;
  options.tokens_per_step = t.sequence_len * t.micro_batch_size * t.gradient_accumulation_steps;
  options.resume = arguments.has("--resume");
  options.quiet = arguments.has("--quiet");
  options.spec_text = spec::to_yaml(spec);
  options.identity = result_keys(spec);
  options.identity["data"] = corpus.fingerprint;
  options.checkpoint_files = corpus.files;
  options.checkpoint_files["config.json"] = config_json(spec);
  options.tokenizer = corpus.tokenizer.get();
  options.sample.prompt = spec.sample.prompt;
  options.sample.max_new_tokens = spec.sample.max_new_tokens;
  options.sample.sampling = sample_options(spec);
  return options;
}

void print_start(const targets::CpuProgram& program, const runtime::BatchLoader& loader) {
  const driver::Compiled& c = program.compiled();
  int64_t parameters = 0;
  for (const ir::Value& value : c.graph.values) {
    if (value.parameter) parameters += element_count(value.shape) * value.slots;
  }
  fmt::print(
      "{}: {} parameters, {} of tensor memory, {} kernels {} in {:.1f} s, products by {}, {} threads\n",
      c.spec.name, runtime::human_count(static_cast<double>(parameters)),
      runtime::human_bytes(static_cast<uint64_t>(program.arena_bytes())), c.program.kernels.size(),
      program.kernels().from_cache ? "from the cache" : "compiled", program.kernels().seconds,
      program.blas().name(), c.threads);
  for (const std::string& note : program.blas().notes()) fmt::print("note: {}\n", note);
  fmt::print("{} sequences of {} an epoch\n", loader.samples_per_epoch(), c.spec.train.sequence_len);
  std::fflush(stdout);
}

}  // namespace

int run_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  require_cpu(*spec);
  const bool quiet = arguments.has("--quiet");
  Corpus corpus = open_corpus(*spec, quiet);
  const runtime::TrainOptions options = train_options(*spec, corpus, arguments);
  runtime::check_run(options);
  const driver::CompileOptions compile_options{thread_count(*spec), arguments.value("--dump").value_or(""),
                                               memory_option(arguments)};
  driver::Compiled compiled = driver::compile(*spec, compile_options);
  require_fit(compiled, compile_options);
  targets::CpuProgram program(std::move(compiled), targets::default_cache_dir());
  if (!quiet) print_start(program, *corpus.loader);
  runtime::train(program, corpus.loader, options);
  return kFine;
}

}  // namespace hydrac::cli
