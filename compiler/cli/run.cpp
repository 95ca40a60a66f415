// `hydrac SPEC`: compile and train.
#include <fmt/format.h>

#include "cli/build_program.h"
#include "cli/checkpoint_files.h"
#include "cli/program_memory.h"
#include "cli/spec_input.h"
#include "cli/verb.h"
#include "runtime/log/units.h"
#include "runtime/train/train.h"
#include "spec/print.h"

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

void print_start(targets::Executable& program, const runtime::BatchLoader& loader) {
  const driver::Compiled& c = program.compiled();
  int64_t parameters = 0;
  for (const ir::Value& value : c.graph.values) {
    if (value.parameter) parameters += element_count(value.shape) * value.slots;
  }
  fmt::print("{}: {} parameters, {} of tensor memory, {}\n", c.spec.name,
             runtime::human_count(static_cast<double>(parameters)),
             runtime::human_bytes(static_cast<uint64_t>(program.steps().arena_bytes())),
             program.description());
  fmt::print("{} sequences of {} an epoch\n", loader.samples_per_epoch(), c.spec.train.sequence_len);
  std::fflush(stdout);
}

}  // namespace

int run_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  const bool quiet = arguments.has("--quiet");
  Corpus corpus = open_corpus(*spec, quiet);
  runtime::TrainOptions options = train_options(*spec, corpus, arguments);
  runtime::check_run(options);
  const BuiltProgram built = build_program(*spec, build_options(arguments));
  targets::Executable& program = *built.program;
  if (arguments.has("--check-kernels")) program.check_kernels();
  if (!quiet) print_start(program, *corpus.loader);
  if (built.machine) options.peak_flops = program.peak_flops();  // a cpu's would have to be measured first
  runtime::train(program.steps(), corpus.loader, options);
  return kFine;
}

}  // namespace hydrac::cli
