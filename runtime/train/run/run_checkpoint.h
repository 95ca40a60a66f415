// A training checkpoint: model.safetensors (for adapters adapter_model.safetensors, with PEFT's names) and
// optimizer.safetensors of a StepProgram. state.json has all other state that a resumed run continues from,
// choices.json the choices of the program on its machine (recorded_choices.h). The other files let other
// software use the model.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program/step_program.h"
#include "runtime/train/divergence.h"
#include "runtime/train/program_tensors.h"
#include "runtime/train/run/save_schedule.h"

namespace hydrac::runtime {

// Name -> value (UTF-8) of all that decides a run's results: the spec's keys, the data's fingerprint, ... A
// resumed run must have the same; differences are listed to the user by name. Names hold no line break and no
// " = ".
using Identity = std::map<std::string, std::string>;

// The name of an adapter's base there: WeightFiles::fingerprint().
inline constexpr const char* kBaseIdentity = "model.weights, the files";

// The state, besides tensors, that a run continues from.
struct RunPosition {
  Counters counters;
  int64_t samples_seen = 0;  // the loader's position
  SkippedSteps skipped;
  // Losses of the last step and the last evaluation so far, for reports.
  std::optional<double> loss, eval_loss;
  std::optional<BestEvaluation> best;  // with TrainOptions::save_best
};

struct CheckpointContents {
  Identity identity;
  RunPosition position;
  std::map<std::string, std::string> files;   // further ones: name -> contents
  std::vector<ZeroTensor> zero_tensors = {};  // of model.safetensors, beside the program's parameters
};

// Here and below `program` must be between steps (see StepProgram). Tensors pass through host memory one by
// one.

// Writes and publishes run_dir/checkpoint-<counters.step>; returns its folder. RunError if a parameter is not
// finite (nothing is left then) or a file cannot be written.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, StepProgram& program,
                                      const CheckpointContents& contents);

// InputError if state.json is unusable, or if its identity differs: then the message lists each difference
// and what can be done. Reads nothing else.
RunPosition read_position(const std::filesystem::path& checkpoint, const Identity& identity);

// The value of `name` in a checkpoint's identity; "" if it has none. InputError if state.json is unusable.
std::string read_identity(const std::filesystem::path& checkpoint, const std::string& name);

// Makes run_dir/checkpoint-best a link to the checkpoint of `step`, in place of an older link. RunError.
void link_best(const std::filesystem::path& run_dir, int64_t step);

// The choices of the program that wrote the checkpoint; nullopt: it was written before checkpoints recorded
// them. InputError if the file is unusable.
std::optional<RecordedChoices> read_choices(const std::filesystem::path& checkpoint);

// Fills parameters, optimizer state and counters of `program` from a complete checkpoint; not its
// ProgramTensors::base. InputError if its tensors are not exactly those of the program.
void restore_program(StepProgram& program, const std::filesystem::path& checkpoint,
                     const RunPosition& position);

// Fills the parameters alone, for sampling. InputError as above.
void load_parameters(StepProgram& program, const std::filesystem::path& checkpoint);

// Checks that a folder's adapter_model.safetensors, PEFT's or a checkpoint's, holds these adapters.
// InputError as above.
void check_adapter(const std::vector<NamedTensor>& adapters, const std::filesystem::path& folder);

// Fills them from it. InputError as above.
void load_adapter(StepProgram& program, const std::filesystem::path& folder);
std::filesystem::path adapter_path(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
