// The training loop: optimizer steps, evaluation, metrics, checkpoints, resuming and stopping, for any
// StepProgram. Everything a run leaves behind lies in its folder (see run_folder.h).
#pragma once
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/tokenizer.h"
#include "runtime/program/step_program.h"
#include "runtime/train/generation/generate.h"
#include "runtime/train/objective.h"
#include "runtime/train/range_test.h"
#include "runtime/train/run/run_checkpoint.h"

namespace hydrac::runtime {

class Ranks;

// Continue the run in run_dir, or begin a new one there.
enum class Resume {
  never,
  required,
  if_possible,  // continue where there is a run, begin where there is none
};

struct TrainOptions {
  std::filesystem::path run_dir;
  std::filesystem::path weights;  // that a new run begins with, see WeightFiles; empty: the program's
  // It trains adapters: checkpoints hold these alone, and a resumed run reads `weights` again.
  bool adapters = false;
  std::filesystem::path adapter_weights;    // that a new run begins with, see load_adapter(); empty: none
  int64_t max_steps = 0;                    // optimizer steps of the whole run, skipped ones too, >= 1
  int64_t gradient_accumulation_steps = 1;  // micro-batches a step, of each rank
  int64_t eval_steps = 0;                   // every so many steps and at the end; 0 = never
  int64_t eval_batches = 20;                // the first so many of the loader's, or all when it has fewer
  int64_t save_steps = 0;                   // every so many steps and at the end; 0 = not by steps
  double save_seconds = 0;                  // as soon as the newest is so old; 0 = not by the clock
  int64_t save_total_limit = 0;             // newest checkpoints that are kept; 0 = all
  bool save_best = false;  // also after evaluations with the least loss so far; the last such
                           // checkpoint is kept beside save_total_limit's
  int64_t trace_first = 0,
          trace_steps = 0;      // steps whose calls trace.json shows, see StepTrace; 0 steps = none
  RangeTestOptions range_test;  // of a new run, before its first step: finds the program's learning rate
  int64_t log_steps = 10;       // a record every so many steps, at evaluations and at the end

  Resume resume = Resume::never;
  // Refuses to resume, instead of a warning, if the program's choices differ from the checkpoint's and
  // results would differ in their last bits from those of a run that was never stopped.
  bool exact = false;
  std::string spec_text;                                // written to spec.yaml
  Identity identity;                                    // what must be as it was when a run is resumed
  std::map<std::string, std::string> checkpoint_files;  // name -> contents: config.json, tokenizer.json, ...
  std::vector<ZeroTensor> zero_tensors;                 // of model.safetensors, see CheckpointContents
  std::string checkpoint_note;  // what to say of checkpoints when the first is saved; may be empty

  int64_t tokens_per_step = 0;  // for tokens/s; 0: the step's targets
  double peak_flops = 0;        // of the device in the run's precision, a second, for mfu; 0: unknown

  // The text generated when training is complete; none unless the program can generate, there is a tokenizer
  // (which must outlive train()), and max_new_tokens > 0.
  const Tokenizer* tokenizer = nullptr;
  GenerateOptions sample;

  // Trained in addition to the loss on the data; needs the tokenizer, and a program with an objective.
  ObjectiveSettings objective;

  // The assembled processes that train together; null: this one alone. Each computes
  // gradient_accumulation_steps micro-batches of a step. Rank 0 writes the run's files, except for the other
  // ranks' logs.
  Ranks* ranks = nullptr;

  bool quiet = false;            // prints nothing
  std::FILE* out = stdout;       // where progress and the sample go
  std::optional<bool> terminal;  // default: whether `out` is one
};

struct TrainReport {
  int64_t first_step = 0;  // step the run continued from; 0 for a new one
  int64_t last_step = 0;   // steps done in all
  // Losses of the last step that was not skipped, and of the last evaluation. A resumed run takes them from
  // its checkpoint.
  std::optional<double> loss, eval_loss;
  double tokens_per_second = 0;  // median of this session's steps, without evaluating and saving; 0: no steps
  double seconds = 0;            // of this session, everything included
  bool already_finished = false;     // resumed at max_steps or later: nothing was done
  bool stopped = false;              // by a signal, before max_steps; saved all the same
  std::filesystem::path checkpoint;  // the newest
};

// Runs to max_steps, or until a signal asks it to stop: the steps that are begun (with their evaluation) are
// completed and saved. Installs the handlers of runtime/log/signal.h. A folder that is moved meanwhile stops
// the run too: it is saved there, and the RunError says where. When checkpoints are written by the clock only
// their steps depend on it. The result is a function of program, data and options alone, bit for bit, however
// often the run was stopped, killed and resumed. A run that was complete goes on when max_steps has grown;
// then the result is that of the schedules it was trained with.
//
// InputError: nothing to resume, a checkpoint of another identity, or with `exact` of other choices, no
// intact checkpoint, a folder another process trains in, batches without targets. RunError: a folder or file
// that cannot be written, or was removed meanwhile; a loss, gradient norm, evaluation or parameter that is
// not finite, or 50 skipped steps in a row. Earlier checkpoints then stay, and none is written. Errors of the
// program pass through.
//
// Skipped steps (StepResult::skipped) are steps: they count, move the learning rate's schedule and use up
// their batches, as a scheduler stepped beside PyTorch's GradScaler does. Only the optimizer does not see
// them.
TrainReport train(StepProgram& program, std::shared_ptr<const BatchLoader> loader,
                  const TrainOptions& options);

}  // namespace hydrac::runtime
