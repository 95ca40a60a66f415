#include "runtime/train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "runtime/cache/sealed_file.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "runtime/parallel/ranks.h"
#include "runtime/train/console.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/program_start.h"
#include "runtime/train/rank_exchange.h"
#include "runtime/train/reference.h"
#include "runtime/train/run/run_files.h"
#include "runtime/train/run/run_output.h"
#include "runtime/train/run/run_start.h"
#include "runtime/train/run/save_schedule.h"
#include "runtime/train/step_pipeline.h"
#include "runtime/train/step_records.h"
#include "runtime/train/step_trace.h"

namespace hydrac::runtime {

namespace {

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

void check_options(const TrainOptions& options) {
  if (options.max_steps < 1 || options.gradient_accumulation_steps < 1 || options.log_steps < 1) {
    throw std::invalid_argument("TrainOptions: a number of steps is below 1");
  }
}

ProgressOptions progress_options(const TrainOptions& options) {
  return {options.max_steps, options.log_steps, options.quiet, options.terminal};
}

class Trainer {
 public:
  Trainer(StepProgram& program, std::shared_ptr<const BatchLoader> loader, const TrainOptions& options);
  TrainReport run();

 private:
  void begin();
  bool find_reference(bool continues);
  void find_learning_rate();
  bool leads() const { return !options_.ranks || options_.ranks->leads(); }
  // True if this rank saves, or sends what it has of the state to the one that does.
  bool takes_part_in_saving() const { return leads() || program_.facts().shares_state; }
  int ranks() const { return options_.ranks ? options_.ranks->size() : 1; }
  // The ranks that share a step's micro-batches, and the index of this rank, or of its group, among them.
  int data_ranks() const { return options_.ranks ? options_.ranks->size(RankGroup::data) : 1; }
  bool all_go_on();
  std::string explain_divergence();
  void adopt(const Checkpoint& checkpoint, const RunPosition& position);
  void train_to_end();
  void begin_step();
  void finish_steps(int64_t unfinished);
  void finish_step();
  void validate(MetricsRecord& record);
  void require_sound(const FinishedStep& step, const MetricsRecord& record);
  bool evaluation_due(int64_t step) const;
  bool is_stopping_place() const;
  void keep(MetricsRecord record);
  void save();
  void save_alone();
  bool wants_sample() const {
    return options_.tokenizer && options_.sample.max_new_tokens > 0 && program_.facts().generates;
  }
  void write_sample();
  TrainReport report() const;
  bool is_last(int64_t step) const { return step >= options_.max_steps; }
  bool finished() const { return is_last(step_); }

  StepProgram& program_;
  std::shared_ptr<const BatchLoader> loader_;
  const TrainOptions& options_;
  const double start_ = monotonic_seconds();
  Console console_;
  RunOutput output_;
  std::unique_ptr<BatchSource> source_;
  std::optional<ReplyObjective> objective_;
  std::optional<StepPipeline> pipeline_;
  StepRecords records_;
  StepTrace trace_;
  int64_t first_step_ = 0;  // where this session began
  int64_t step_ = 0;        // steps done
  double evaluating_seconds_ = 0, saving_seconds_ = 0;
  SkippedSteps skipped_;
  std::optional<double> loss_, eval_loss_;
  SaveSchedule saving_;
  std::optional<int64_t> saved_step_;  // of the newest checkpoint
  std::string new_reference_;          // to be written into the run's folder
  const char* stopped_in_ = nullptr;   // what comes before the first step
};

Trainer::Trainer(StepProgram& program, std::shared_ptr<const BatchLoader> loader, const TrainOptions& options)
    : program_(program),
      loader_(std::move(loader)),
      options_(options),
      console_(options.out, progress_options(options)),
      output_(program, options, console_),
      records_(program,
               {options.log_steps, options.tokens_per_step, options.peak_flops, options.ranks != nullptr}),
      trace_(program, options.trace_first, leads() ? options.trace_steps : 0),
      saving_(options.save_steps, options.save_seconds, options.save_best) {
  check_options(options);
  if (wants_sample()) prompt_ids(*options_.tokenizer, options_.sample);  // an error now, not after the run
}

TrainReport Trainer::run() {
  install_stop_handlers();
  begin();
  if (finished()) {
    console_.message(fmt::format("{} is complete: step {} of {}; nothing to resume",
                                 options_.run_dir.string(), step_, options_.max_steps));
    return report();
  }
  if (stopped_in_) {
    console_.message(fmt::format("stopped during {}: nothing is saved, start the run again", stopped_in_));
    return report();
  }
  try {
    train_to_end();
  } catch (const RunError& error) {
    std::error_code ignored;
    const std::filesystem::path& newest = output_.checkpoint();
    if (newest.empty() || !std::filesystem::exists(newest, ignored)) throw;
    throw RunError(fmt::format("{}\nthe newest checkpoint is {}", error.what(), newest.string()));
  }
  const std::string paused = pauses(monotonic_seconds() - start_, evaluating_seconds_, saving_seconds_);
  if (!paused.empty()) console_.message("note: " + paused);
  if (const std::string uneven = records_.explain_unevenness(); !uneven.empty())
    console_.message("note: " + uneven);
  if (output_.was_moved() && !finished()) {
    throw RunError(fmt::format(
        "{0} was moved to {1} while it was trained in; {2} is saved, --resume output.dir={1} continues it",
        options_.run_dir.string(), output_.place().string(), output_.checkpoint().string()));
  }
  if (output_.was_moved())
    console_.message(fmt::format("{} is {} now", options_.run_dir.string(), output_.place().string()));
  if (finished()) {
    write_sample();
  } else {
    console_.message(
        fmt::format("stopped at step {} of {}; --resume continues it", step_, options_.max_steps));
  }
  return report();
}

void Trainer::begin() {
  const std::optional<Checkpoint> checkpoint = agree_on_start(program_, options_, console_, output_);
  std::optional<RunPosition> position;
  if (checkpoint) {
    position = read_position(checkpoint->dir, options_.identity);
    adopt(*checkpoint, *position);
    // A run killed between saving and removing may have left too many, or no link.
    if (leads()) {
      if (saving_.best_step() == step_) link_best(options_.run_dir, step_);
      remove_old_checkpoints(options_.run_dir, options_.save_total_limit, saving_.best_step());
    }
    if (finished()) return;
    if (leads()) compare_choices(*checkpoint, program_, options_.exact);
  }
  const bool is_started = program_.ports().inputs.chosen_reference && find_reference(checkpoint.has_value());
  if (stopped_in_) return;
  source_ = make_batch_source(loader_, options_.gradient_accumulation_steps * data_ranks());
  if (checkpoint || !is_started) start_program(program_, options_, checkpoint.has_value());
  if (!options_.weights.empty() && (!checkpoint || options_.adapters))
    console_.message(fmt::format("weights of {}", WeightFiles(options_.weights).description()));
  if (!options_.adapter_weights.empty() && !checkpoint)
    console_.message(fmt::format("adapter of {}", options_.adapter_weights.string()));
  if (checkpoint) {
    restore_program(program_, checkpoint->dir, *position);
    source_->seek_samples(position->samples_seen);
    console_.message(fmt::format("continuing from {}", checkpoint->dir.string()));
  }
  number_micro_batches(program_, options_);
  if (options_.ranks)
    options_.ranks->any(false);  // nobody reads the checkpoint any more when rank 0 may remove it
  if (leads()) output_.open_logs(saved_step_.value_or(-1));
  if (!new_reference_.empty() && !write_sealed(reference_path(options_.run_dir), new_reference_))
    throw RunError(fmt::format("cannot write {}", reference_path(options_.run_dir).string()));
  if (options_.range_test.steps > 0) {
    if (!checkpoint) find_learning_rate();
    if (!stopped_in_)
      console_.message(fmt::format("learning rate {}, found by the range test of this run",
                                   learning_rate(program_).value()));
  }
  if (options_.objective.prompts > 0)
    objective_.emplace(program_, *options_.tokenizer, options_.objective, options_.ranks);
  pipeline_.emplace(program_, *source_, step_, options_.ranks, objective_ ? &*objective_ : nullptr);
  saving_.saved();
}

// Gives batches the scores of their pairs, those of the run's folder as far as these are there. True if the
// program was started for the others, with the weights that the run began with.
bool Trainer::find_reference(bool continues) {
  const int64_t micro_batches = options_.max_steps * options_.gradient_accumulation_steps * data_ranks();
  const int64_t rows = loader_->batch_size();
  const ScoredBatches batches{
      std::min(micro_batches, (loader_->samples_per_epoch() + rows - 1) / rows),
      options_.eval_steps == 0 ? 0 : std::min(options_.eval_batches, loader_->eval_batches())};
  const auto kept = leads() && continues ? read_sealed(reference_path(options_.run_dir)) : std::nullopt;
  PairScores scores = PairScores::from_bytes(joined(options_.ranks, kept.value_or("")));
  const bool is_new = lacks_scores(*loader_, batches, scores);
  if (is_new) {
    const double began = monotonic_seconds();
    start_program(program_, options_, false);
    if (!score_pairs(
            program_, *loader_, batches, options_.ranks, [&] { return all_go_on(); }, scores)) {
      stopped_in_ = "the scoring of the reference";
      return true;
    }
    console_.message(fmt::format("reference: {} pairs scored by the weights of the start in {:.1f} s",
                                 scores.count(), monotonic_seconds() - began));
    if (leads()) new_reference_ = scores.to_bytes();
  }
  loader_ = with_reference(std::move(loader_), std::move(scores));
  return is_new;
}

// Afterwards program and batches are where they were, because starting them again gives the same bits.
void Trainer::find_learning_rate() {
  const RangeTestOptions& options = options_.range_test;
  const double began = monotonic_seconds();
  console_.message(fmt::format("range test: up to {} steps with learning rates from {:.3g} to {:.3g}",
                               options.steps, options.lowest, options.highest));
  StepPipeline steps(program_, *source_, 0, options_.ranks);
  const RangeTest test = [&] {
    try {
      return range_test(program_, steps, options, [&] { return all_go_on(); });
    } catch (const RunError& error) {
      throw RunError(fmt::format("range test: {}", error.what()));
    }
  }();
  if (leads()) replace_file(range_test_path(options_.run_dir), range_test_json(test));
  if (test.stopped) stopped_in_ = "the range test";
  if (test.stopped) return;
  console_.message(fmt::format("range test: {} in {:.1f} s", describe(test), monotonic_seconds() - began));
  if (!test.chosen)
    throw RunError(
        "the range test found no learning rate with which the loss falls; write a number as "
        "train.optimizer.learning_rate");
  start_program(program_, options_, false);
  number_micro_batches(program_, options_);
  source_->seek(0);
  set_learning_rate(program_, *test.chosen, true);
}

// Before a step: true unless somebody asked to stop, or the folder was moved. The ranks agree, because a step
// needs them all.
bool Trainer::all_go_on() {
  const bool stop = stop_requested() || output_.was_moved();
  if (!options_.ranks) return !stop;
  try {
    return !options_.ranks->any(stop);
  } catch (const RunError&) {
    if (stop_requested()) save_alone();
    throw;
  }
}

// Saves a run that has lost one of its ranks: between two steps rank 0 may have all of its state.
void Trainer::save_alone() {
  const bool is_between_steps = pipeline_ && pipeline_->begun() == step_;
  if (leads() && is_between_steps && !program_.facts().shares_state && saved_step_.value_or(0) != step_)
    save();
}

void Trainer::adopt(const Checkpoint& checkpoint, const RunPosition& position) {
  step_ = first_step_ = position.counters.step;
  loss_ = position.loss;
  eval_loss_ = position.eval_loss;
  skipped_ = position.skipped;
  saving_.adopt(position.best);
  output_.continue_from(checkpoint.dir);
  saved_step_ = step_;
}

// Steps are begun ahead of the oldest result, except where something needs the program to stand still.
void Trainer::train_to_end() {
  while (!is_last(pipeline_->begun()) && all_go_on()) {
    const bool is_too_old = saving_.look_at_clock();
    if (program_.facts().shares_state) saving_.decide(options_.ranks->any(leads() && is_too_old));
    if (trace_.begins_after(step_)) trace_.begin();
    begin_step();
    finish_steps(is_stopping_place() ? 0 : pipeline_->steps_in_flight() - 1);
    if (trace_.ends_after(step_)) output_.end_trace(trace_);
    if (takes_part_in_saving() && step_ == pipeline_->begun() && saving_.due(step_)) save();
  }
  finish_steps(0);
  if (trace_.recording()) output_.end_trace(trace_);
  if (takes_part_in_saving() && saved_step_ != step_) save();
}

// If the reward command fails, the state from before the step is saved. All ranks learn of it, and wait until
// rank 0 has saved and ends them: a rank that ended by itself would end rank 0 too early.
void Trainer::begin_step() {
  try {
    pipeline_->begin();
  } catch (const RewardError&) {
    if (takes_part_in_saving() && step_ > 0 && saved_step_ != step_) save();
    if (!leads()) options_.ranks->any(false);
    throw;
  }
}

// True if something is to be done after the step begun last that needs it finished.
bool Trainer::is_stopping_place() const {
  const int64_t step = pipeline_->begun();
  return evaluation_due(step) || saving_.due(step) || is_last(step) || stop_requested() ||
         trace_.begins_after(step) || trace_.recording();
}

void Trainer::finish_steps(int64_t unfinished) {
  while (pipeline_->unfinished() > unfinished) finish_step();
}

void Trainer::finish_step() {
  const FinishedStep step = pipeline_->finish();
  step_ = step.step;
  records_.add(step);
  if (trace_.recording()) trace_.add(step);
  skipped_.count(step.result.skipped);
  MetricsRecord record = records_.of(step, skipped_);
  require_sound(step, record);
  if (evaluation_due(step_)) validate(record);
  require_sound(step, record);
  if (!step.result.skipped) loss_ = record.loss;
  if (record.eval_loss) eval_loss_ = record.eval_loss;
  if (record.eval_loss) saving_.evaluated(step_, *record.eval_loss);
  console_.progress(record, monotonic_seconds());
  if (const std::string stall = records_.data_stall(); !stall.empty()) console_.message("note: " + stall);
  if (due(step_, options_.log_steps) || record.eval_loss || finished()) keep(record);
}

void Trainer::validate(MetricsRecord& record) {
  const double began = monotonic_seconds();
  try {
    const std::optional<Evaluation> held_out =
        evaluate(program_, *loader_, options_.eval_batches, options_.ranks);
    evaluating_seconds_ += monotonic_seconds() - began;
    records_.pause();
    if (!held_out) return;
    record.eval_loss = held_out->loss;
    record.eval_accuracy = held_out->accuracy;
    for (const auto& [name, loss] : held_out->losses)
      record.metrics.push_back({{.name = "eval_loss_" + name, .group = "eval"}, loss});
    if (program_.facts().generates && !held_out->accuracy)
      record.eval_perplexity = std::exp(held_out->loss);  // it is a language model that learns its data
  } catch (const RunError& error) {
    throw RunError(fmt::format("validation after step {}: {}", step_, error.what()));
  }
}

bool Trainer::evaluation_due(int64_t step) const {
  return options_.eval_steps != 0 && (due(step, options_.eval_steps) || is_last(step));
}

// From the first bad value on, nothing may be saved: it would push the last good checkpoint out.
void Trainer::require_sound(const FinishedStep& step, const MetricsRecord& record) {
  const std::optional<std::string> problem = divergence(record, step.result.skipped, skipped_);
  if (!problem) return;
  keep(record);
  const std::string where = explain_divergence();
  throw RunError(where.empty() ? *problem : fmt::format("{}\n{}", *problem, where));
}

// With several ranks, each looks at its own micro-batches: the first that finds something decides.
std::string Trainer::explain_divergence() {
  const std::string own = program_.explain_divergence();
  if (!options_.ranks) return own;
  const std::vector<std::string> all = options_.ranks->gather(own);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      return fmt::format("on {}, {}", options_.ranks->name(static_cast<int>(rank)), all[rank]);
  return "";
}

void Trainer::keep(MetricsRecord record) {
  if (!leads()) return;
  // Batches of later steps may have been taken already.
  const int64_t ahead = (pipeline_->begun() - step_) * options_.gradient_accumulation_steps * data_ranks();
  for (const SourceUse& use : loader_->uses(source_->samples_seen() - ahead * loader_->batch_size())) {
    record.metrics.push_back(
        {{.name = "tokens_" + use.name, .group = "data"}, static_cast<double>(use.tokens)});
    record.metrics.push_back({{.name = "epochs_" + use.name, .group = "data"}, use.epochs});
  }
  records_.complete(record);
  output_.append(record);
}

void Trainer::save() {
  const double began = monotonic_seconds();
  saved_step_ = step_;
  records_.pause();
  if (!leads()) return program_.with_whole_state({});
  CheckpointContents contents{options_.identity, {}, options_.checkpoint_files, options_.zero_tensors};
  contents.position = {program_.counters(), source_->samples_seen(), skipped_, loss_,
                       eval_loss_,          saving_.best()};
  if (contents.position.counters.step != step_) {
    throw std::logic_error(
        fmt::format("the program counts {} steps after {}", contents.position.counters.step, step_));
  }
  output_.save(contents, saving_.best_step());
  saving_.saved();
  saving_seconds_ += monotonic_seconds() - began;
}

void Trainer::write_sample() {
  const bool together = options_.ranks && program_.facts().computes_together;  // and one writes
  if ((!leads() && !together) || !wants_sample() || options_.quiet) return;
  if (together ? options_.ranks->any(stop_requested()) : stop_requested()) return;
  const auto write = [this](std::string_view text) {
    if (leads()) console_.text(text);
  };
  write("\n" + options_.sample.prompt);
  generate(program_, *options_.tokenizer, options_.sample, write);
  write("\n");
}

TrainReport Trainer::report() const {
  TrainReport report;
  report.first_step = first_step_;
  report.last_step = step_;
  report.loss = loss_;
  report.eval_loss = eval_loss_;
  report.tokens_per_second = records_.tokens_per_second();
  report.seconds = monotonic_seconds() - start_;
  report.already_finished = finished() && first_step_ == step_;
  report.stopped = !finished();
  report.checkpoint = output_.checkpoint();
  return report;
}

}  // namespace

TrainReport train(StepProgram& program, std::shared_ptr<const BatchLoader> loader,
                  const TrainOptions& options) {
  return Trainer(program, std::move(loader), options).run();
}

}  // namespace hydrac::runtime
