#include "runtime/train/run/run_checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/state.h"
#include "runtime/error.h"
#include "runtime/train/run/run_files.h"

namespace hydrac::runtime {

namespace {

constexpr const char* model_file = "model.safetensors";
constexpr const char* adapter_file = "adapter_model.safetensors";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr const char* state_file = "state.json";
constexpr const char* choices_file = "choices.json";

const char* parameter_file(StepProgram& program) {
  return program.tensors().base.empty() ? model_file : adapter_file;
}

// One line an entry, "name = value".
std::string identity_text(const Identity& identity) {
  std::string text;
  for (const auto& [name, value] : identity) {
    text += name + " = ";
    for (const char c : value) {
      if (c == '\n') {
        text += "\\n";
      } else if (c == '\\') {
        text += "\\\\";
      } else {
        text += c;
      }
    }
    text += '\n';
  }
  return text;
}

// The values as they are written, which is also how they are shown and compared.
std::map<std::string, std::string> written_values(std::string_view text) {
  std::map<std::string, std::string> values;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t sign = line.find(" = ");
    if (sign == std::string_view::npos) continue;
    values.emplace(line.substr(0, sign), line.substr(sign + 3));
  }
  return values;
}

// A spec's value is JSON and readable as it is; anything else in a file is escaped.
std::string shown_value(const std::string& value) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(value, nullptr, false);
  constexpr bool ascii = true;
  return json.is_discarded() ? in_quotes(value) : json.dump(-1, ' ', ascii);
}

// "" or a line for each difference.
std::string differences(std::string_view then_text, std::string_view now_text) {
  const auto then = written_values(then_text), now = written_values(now_text);
  std::set<std::string> names;
  for (const auto& [name, value] : then) names.insert(name);
  for (const auto& [name, value] : now) names.insert(name);
  const auto find = [](const std::map<std::string, std::string>& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  const auto shown = [](const std::optional<std::string>& value) {
    return value ? shown_value(*value) : std::string("nothing");
  };
  std::string lines;
  for (const std::string& name : names) {
    const auto before = find(then, name), after = find(now, name);
    if (before == after) continue;
    lines +=
        fmt::format("  {}: {} in the checkpoint, {} now\n", printable(name), shown(before), shown(after));
  }
  return lines;
}

RunState to_state(const CheckpointContents& contents) {
  const RunPosition& position = contents.position;
  RunState state;
  state.set("step", position.counters.step);
  state.set("rng_step", position.counters.rng_step);
  state.set("samples_seen", position.samples_seen);
  if (position.skipped.total > 0) {
    state.set("skipped_steps", position.skipped.total);
    state.set("skipped_in_a_row", position.skipped.in_a_row);
  }
  state.set("identity", identity_text(contents.identity));
  if (position.loss) state.set("loss", *position.loss);
  if (position.eval_loss) state.set("eval_loss", *position.eval_loss);
  if (position.best) {
    state.set("best_step", position.best->step);
    state.set("best_eval_loss", position.best->loss);
  }
  return state;
}

void check_finite(const NamedTensor& tensor, std::span<const std::byte> data, int64_t step) {
  if (!first_non_finite(tensor.dtype, data)) return;
  throw RunError(
      fmt::format("after step {}: the parameter {} holds NaN or infinite values, so the training diverged "
                  "and nothing is saved; lower train.optimizer.learning_rate or raise "
                  "train.lr_scheduler.warmup_steps",
                  step, in_quotes(tensor.name)));
}

int64_t count_in(const RunState& state, const char* key, const std::filesystem::path& file) {
  const int64_t count = state.integer(key);
  if (count < 0) throw InputError(fmt::format("{}: {} is {}, below 0", file.string(), key, count));
  return count;
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, StepProgram& program,
                                      const CheckpointContents& contents) {
  const int64_t step = contents.position.counters.step;
  CheckpointWriter writer(run_dir, step);
  for (const auto& [name, text] : contents.files) writer.add_file(name, text);
  writer.add_file(state_file, to_state(contents).to_json());
  writer.add_file(choices_file, program.choices().to_json());
  // Saving parameters that are no numbers would let save_total_limit remove the last good checkpoint.
  writer.add_file(parameter_file(program), [&](FileWriter& file) {
    write_tensors(
        file, program, program.tensors().parameters,
        [&](const NamedTensor& tensor, std::span<const std::byte> data) { check_finite(tensor, data, step); },
        contents.zero_tensors);
  });
  writer.add_file(optimizer_file,
                  [&](FileWriter& file) { write_tensors(file, program, program.tensors().optimizer_state); });
  writer.commit();
  return checkpoint_path(run_dir, step);
}

RunPosition read_position(const std::filesystem::path& checkpoint, const Identity& identity) {
  const std::filesystem::path file = checkpoint / state_file;
  const RunState state = RunState::from_json(read_file(file), file.string());
  const std::string changed = differences(state.text("identity"), identity_text(identity));
  if (!changed.empty()) {
    throw InputError(fmt::format(
        "{} cannot be resumed, because what decides the results has changed:\n{}change it back to continue "
        "this run, or start a new one without --resume (this one is then moved aside, not overwritten)",
        checkpoint.string(), changed));
  }
  RunPosition position;
  position.counters = {count_in(state, "step", file), count_in(state, "rng_step", file)};
  position.samples_seen = count_in(state, "samples_seen", file);
  if (state.has("skipped_steps")) {
    position.skipped.total = count_in(state, "skipped_steps", file);
    position.skipped.in_a_row = count_in(state, "skipped_in_a_row", file);
  }
  if (state.has("loss")) position.loss = state.number("loss");
  if (state.has("eval_loss")) position.eval_loss = state.number("eval_loss");
  if (state.has("best_step"))
    position.best = BestEvaluation{count_in(state, "best_step", file), state.number("best_eval_loss")};
  return position;
}

std::string read_identity(const std::filesystem::path& checkpoint, const std::string& name) {
  const std::filesystem::path file = checkpoint / state_file;
  return written_values(RunState::from_json(read_file(file), file.string()).text("identity"))[name];
}

void link_best(const std::filesystem::path& run_dir, int64_t step) {
  const std::filesystem::path link = best_path(run_dir);
  std::filesystem::path temporary = link;
  temporary += ".tmp";
  ::unlink(temporary.c_str());  // left by a killed run
  const std::string target = checkpoint_path(run_dir, step).filename();
  if (::symlink(target.c_str(), temporary.c_str()) != 0) throw_run_error("create the link", temporary, errno);
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw_run_error("replace", link, error);
  }
  sync_folder(run_dir);
}

std::optional<RecordedChoices> read_choices(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / choices_file;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return RecordedChoices::from_json(read_file(file), file.string());
}

void restore_program(StepProgram& program, const std::filesystem::path& checkpoint,
                     const RunPosition& position) {
  load_parameters(program, checkpoint);
  read_tensors(checkpoint / optimizer_file, program, program.tensors().optimizer_state);
  program.set_counters(position.counters);
}

void check_adapter(const std::vector<NamedTensor>& adapters, const std::filesystem::path& folder) {
  check_tensors(SafetensorsReader(adapter_path(folder)), adapters);
}

void load_adapter(StepProgram& program, const std::filesystem::path& folder) {
  read_tensors(adapter_path(folder), program, program.tensors().parameters);
}

std::filesystem::path adapter_path(const std::filesystem::path& folder) {
  return folder / adapter_file;
}

void load_parameters(StepProgram& program, const std::filesystem::path& checkpoint) {
  read_tensors(checkpoint / parameter_file(program), program, program.tensors().parameters);
}

}  // namespace hydrac::runtime
