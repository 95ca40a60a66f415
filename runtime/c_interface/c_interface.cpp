#include "runtime/c_interface/c_interface.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/app/run_ranks.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/program_tensors.h"
#include "runtime/train/run/run_checkpoint.h"

using namespace hydrac::runtime;

struct train_program {
  TrainSettings settings;
  std::unique_ptr<Ranks> ranks;  // null: this process trains alone
  std::unique_ptr<LaidOutProgram> program;
  std::vector<NamedTensor> parameters;
  bool has_gradients = false;  // between train_backward() and train_update()
  bool failed = false;         // in what all ranks do together

  int rank() const { return ranks ? ranks->rank() : 0; }
  // Micro-batches of data: the caller has no replies.
  int64_t micro_batches() const {
    const ProgramLayout& layout = program->layout();
    return layout.gradient_accumulation_steps - layout.reply_micro_batches;
  }
};

namespace {

thread_local std::string last_error;

// No C++ exception may reach a caller in C.
template <class Work>
auto guarded(Work&& work, decltype(work()) failed) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    last_error = error.what();
    return failed;
  }
}

template <class Work>
int guarded(Work&& work) {
  return guarded([&] { return work(), 0; }, 1);
}

// Runs what all ranks do together. After a failure this rank does not reach the end that they share.
template <class Work>
void together(train_program& program, Work&& work) {
  program.failed = true;
  work();
  program.failed = false;
}

train_program& checked(train_program* program) {
  if (program == nullptr) throw InputError("there is no program: train_create() failed");
  return *program;
}

train_program& between_steps(train_program* program) {
  if (checked(program).has_gradients)
    throw InputError("train_update() must end the step that train_backward() began");
  return *program;
}

train_program& within_step(train_program* program) {
  if (!checked(program).has_gradients)
    throw InputError("there are no gradients: train_backward() makes them");
  return *program;
}

train_sizes sizes_of(const train_program& program) {
  const ProgramLayout& layout = program.program->layout();
  const int64_t sequences = program.settings.data.batch_size, positions = program.settings.data.sequence_len,
                all = sequences * positions;
  return {sequences,
          positions,
          program.micro_batches(),
          program.settings.data.sizes.vocab_size,
          layout.inputs.features.elements / all,
          layout.inputs.float_targets.elements / all,
          program.settings.ranks,
          program.rank()};
}

// Random bits are a function of the micro-batch's number in the whole run.
void skip_earlier_ranks(train_program& program) {
  Counters counters = program.program->counters();
  counters.rng_step += program.rank() * program.micro_batches();
  program.program->set_counters(counters);
}

int64_t of_all_ranks(const train_program& program, int64_t count) {
  if (!program.ranks) return count;
  int64_t sum = 0;
  for (const std::string& text : program.ranks->gather(std::to_string(count))) sum += std::stoll(text);
  return sum;
}

// The part of `from` that micro-batch `index` is, where the program has a place for it.
template <typename T>
void take(const char* name, const T* from, Place place, int64_t index, std::vector<T>& to) {
  if (!place) return;
  if (from == nullptr) throw InputError(fmt::format("the batch has no {}, which the program reads", name));
  to.assign(from + index * place.elements, from + (index + 1) * place.elements);
}

void require_ids(const std::vector<int32_t>& tokens, int64_t count) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= count)
      throw InputError(fmt::format("the batch has the token {}; tokens are 0 to {}", token, count - 1));
  }
}

Batch micro_batch(const train_program& program, const train_batch& given, int64_t index) {
  if (program.settings.data.pairs > 0)
    throw InputError(
        "this program learns from pairs, which build/train reads and a batch of tokens does not say");
  const InputPlaces& inputs = program.program->layout().inputs;
  Batch batch;
  take("tokens", given.tokens, inputs.tokens, index, batch.tokens);
  take("targets", given.targets, inputs.targets, index, batch.targets);
  take("features", given.features, inputs.features, index, batch.features);
  take("float_targets", given.float_targets, inputs.float_targets, index, batch.float_targets);
  take("documents", given.documents, inputs.documents, index, batch.documents);
  take("positions", given.positions, inputs.positions, index, batch.positions);
  if (const int64_t ids = program.settings.data.sizes.vocab_size; ids > 0) {
    require_ids(batch.tokens, ids);
    for (const int32_t target : batch.targets) {
      if (target != kIgnoredTarget) require_ids({target}, ids);
    }
  }
  batch.target_count = std::ranges::count_if(batch.targets, [](int32_t t) { return t != kIgnoredTarget; }) +
                       std::ranges::count_if(batch.float_targets, [](float t) { return !std::isnan(t); });
  return batch;
}

void backward(train_program& program, const train_batch& given) {
  std::vector<Batch> batches;
  int64_t targets = 0;
  for (int64_t i = 0; i < program.micro_batches(); ++i) {
    batches.push_back(micro_batch(program, given, i));
    targets += batches.back().target_count;
  }
  targets = of_all_ranks(program, targets);
  if (targets == 0) throw InputError("no target of the step counts");
  const auto inv_count = static_cast<float>(1.0 / static_cast<double>(targets));
  for (const Batch& batch : batches) program.program->micro_step(batch, inv_count);
  program.has_gradients = true;
}

train_result update(train_program& program) {
  program.has_gradients = false;
  program.program->update();
  const StepResult result = program.program->finish_step();
  return {result.loss, result.grad_norm, result.learning_rate, result.skipped ? 1 : 0};
}

void save(train_program& program, const char* folder) {
  const TrainOptions& options = program.settings.train;
  CheckpointContents contents{options.identity, {}, options.checkpoint_files, options.zero_tensors};
  contents.identity["data"] = "the caller's";
  contents.position.counters = program.program->counters();
  const train_sizes sizes = sizes_of(program);
  contents.position.samples_seen =
      contents.position.counters.step * sizes.ranks * sizes.micro_batches * sizes.sequences;
  save_checkpoint(folder, *program.program, contents);
}

const NamedTensor& parameter(const train_program& program, const char* name) {
  const auto found = std::ranges::find(program.parameters, std::string(name), &NamedTensor::name);
  if (found == program.parameters.end()) throw InputError(fmt::format("the program has no tensor {}", name));
  return *found;
}

int64_t elements_of(const NamedTensor& tensor) {
  return tensor.bytes() / dtype_bytes(tensor.dtype);
}

void require_elements(const NamedTensor& tensor, int64_t given) {
  if (given == elements_of(tensor)) return;
  throw InputError(fmt::format("tensor {} has {} elements, not {}", tensor.name, elements_of(tensor), given));
}

}  // namespace

const char* train_error(void) {
  return last_error.c_str();
}

namespace hydrac::runtime {

namespace {

void fill(train_program& program, const MakeProgram& make_program) {
  TrainSettings& settings = program.settings;
  if (program.rank() > 0) settings.choices = choices_of_rank_0(*program.ranks);
  program.program = make_program(settings.choices);
  program.parameters = program.program->tensors().parameters;
  if (program.ranks) join_ranks(*program.ranks, settings, *program.program);
  program.program->initialize();
  if (const auto& weights = settings.train.weights; !weights.empty())
    WeightFiles(weights).fill(*program.program);
  if (const auto& adapter = settings.train.adapter_weights; !adapter.empty())
    load_adapter(*program.program, adapter);
  skip_earlier_ranks(program);
}

}  // namespace

train_program* create_for_c(const TrainSettings& settings, const MakeProgram& make_program) {
  return guarded(
      [&] {
        if (settings.train.range_test.steps > 0)
          throw InputError(
              "train.optimizer.learning_rate is auto, which is found by the program that trains by itself; "
              "write a number into the spec, and emit it again");
        auto program = std::make_unique<train_program>(settings);
        program->ranks = ranks_of_run(settings.ranks, settings.cores, Starts::launcher, /*quiet=*/true);
        try {
          fill(*program, make_program);
        } catch (const std::exception& error) {
          if (program->ranks) program->ranks->fail(error);
          throw;
        }
        return program.release();
      },
      static_cast<train_program*>(nullptr));
}

}  // namespace hydrac::runtime

void train_destroy(train_program* program) {
  if (program && program->ranks) {
    guarded([&] { program->failed ? program->ranks->fail(RunError(last_error)) : program->ranks->finish(); });
  }
  delete program;
}

int train_get_sizes(train_program* program, train_sizes* sizes) {
  return guarded([&] { *sizes = sizes_of(checked(program)); });
}

int train_step(train_program* program, const train_batch* batch, train_result* result) {
  return guarded([&] {
    together(between_steps(program), [&] {
      backward(*program, *batch);
      *result = update(*program);
    });
  });
}

int train_backward(train_program* program, const train_batch* batch) {
  return guarded([&] { together(between_steps(program), [&] { backward(*program, *batch); }); });
}

int train_update(train_program* program, train_result* result) {
  return guarded([&] { together(within_step(program), [&] { *result = update(*program); }); });
}

int train_evaluate(train_program* program, const train_batch* batch, float* loss) {
  return guarded([&] {
    const Batch one = micro_batch(between_steps(program), *batch, 0);
    if (one.target_count == 0) throw InputError("no target of the batch counts");
    *loss = static_cast<float>(program->program->evaluate(one) / static_cast<double>(one.target_count));
  });
}

int64_t train_tensor_count(train_program* program) {
  return guarded([&] { return static_cast<int64_t>(checked(program).parameters.size()); }, int64_t{-1});
}

const char* train_tensor_name(train_program* program, int64_t index) {
  return guarded(
      [&] {
        const std::vector<NamedTensor>& all = checked(program).parameters;
        if (index < 0 || index >= static_cast<int64_t>(all.size()))
          throw InputError(fmt::format("the program has {} tensors", all.size()));
        return all[static_cast<size_t>(index)].name.c_str();
      },
      static_cast<const char*>(nullptr));
}

int64_t train_tensor_elements(train_program* program, const char* name) {
  return guarded([&] { return elements_of(parameter(checked(program), name)); }, int64_t{-1});
}

int train_read_tensor(train_program* program, const char* name, float* to, int64_t elements) {
  return guarded([&] {
    const NamedTensor& tensor = parameter(checked(program), name);
    require_elements(tensor, elements);
    decode_floats(tensor_bytes(*program->program, tensor).data(), tensor.dtype,
                  {to, static_cast<size_t>(elements)});
  });
}

int train_read_gradient(train_program* program, const char* name, float* to, int64_t elements) {
  return guarded([&] {
    LaidOutProgram& running = *within_step(program).program;
    const NamedTensor& of = parameter(*program, name);
    if (!of.pieces.empty())
      throw InputError(fmt::format("no rank has the gradient of tensor {} whole (parallel.tensor)", name));
    const auto gradient = gradient_of(running.layout(), of);
    if (!gradient && running.layout().gradients.empty())
      throw InputError(fmt::format("no rank has the gradient of tensor {} whole (parallel.zero)", name));
    if (!gradient) throw InputError(fmt::format("tensor {} does not train", name));
    require_elements(*gradient, elements);
    const std::span values(to, static_cast<size_t>(elements));
    decode_floats(tensor_bytes(running, *gradient).data(), gradient->dtype, values);
    const Place scale = running.layout().state.loss_scale;
    if (!scale) return;
    float factor = 0;
    running.copy_out(scale.offset, std::as_writable_bytes(std::span(&factor, 1)));
    for (float& value : values) value /= factor;
  });
}

int train_write_tensor(train_program* program, const char* name, const float* from, int64_t elements) {
  return guarded([&] {
    const NamedTensor& tensor = parameter(between_steps(program), name);
    require_elements(tensor, elements);
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    encode_floats({from, static_cast<size_t>(elements)}, tensor.dtype, bytes.data());
    upload_bytes(*program->program, tensor, bytes);
  });
}

int train_save(train_program* program, const char* folder) {
  return guarded([&] {
    if (!between_steps(program).ranks) return save(*program, folder);
    std::string problem;
    const auto save_by_rank_0 = [&] {
      if (program->rank() > 0) return;
      try {
        save(*program, folder);
      } catch (const std::exception& error) {
        problem = error.what();
      }
    };
    together(*program, [&] {
      program->program->with_whole_state(save_by_rank_0);
      problem = program->ranks->share(problem);
    });
    if (!problem.empty()) throw RunError(problem);
  });
}

int train_load(train_program* program, const char* checkpoint) {
  return guarded([&] {
    Identity identity = between_steps(program).settings.train.identity;
    identity["data"] = "the caller's";
    if (const std::string damage = checkpoint_damage(checkpoint); !damage.empty())
      throw InputError(fmt::format("{} is no complete checkpoint: {}", checkpoint, damage));
    restore_program(*program->program, checkpoint, read_position(checkpoint, identity));
    skip_earlier_ranks(*program);
  });
}
