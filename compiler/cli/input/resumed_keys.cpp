#include "cli/input/resumed_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "optimizers/optimizer.h"
#include "runtime/checkpoint/checkpoint_dirs.h"
#include "runtime/error.h"
#include "runtime/train/run/run_checkpoint.h"
#include "runtime/train/run/run_files.h"
#include "spec/batch.h"
#include "spec/fit_keys.h"
#include "spec/load.h"

namespace hydrac::cli {

namespace {

namespace fs = std::filesystem;

std::optional<fs::path> newest_checkpoint(const fs::path& run_dir) {
  for (const runtime::CheckpointDir& dir : runtime::list_checkpoint_dirs(run_dir))
    if (dir.kind == runtime::CheckpointDir::Kind::complete) return dir.dir;
  return std::nullopt;
}

template <class E>
std::optional<E> word_of(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  const auto words = spec::enum_values(E{});
  const auto found = std::ranges::find(words, value.get<std::string>(), &spec::EnumValue::spelling);
  return found == words.end() ? std::nullopt : std::optional(static_cast<E>(found - words.begin()));
}

class CheckpointKeys {
 public:
  CheckpointKeys(spec::Spec& spec, fs::path checkpoint) : spec_(spec), checkpoint_(std::move(checkpoint)) {}

  void take() {
    const spec::OpenKeys open = open_keys(spec_);
    auto& o = spec_.optimizations;
    if (open.micro_batch_size) micro_batch();
    if (open.loss) word("optimizations.loss", o.loss);
    if (open.optimizer_state) word("optimizations.optimizer_state", o.optimizer_state);
  }

 private:
  void micro_batch() {
    const std::string key = "train.micro_batch_size", text = runtime::read_identity(checkpoint_, key);
    int64_t size = 0;
    std::from_chars(text.data(), text.data() + text.size(), size);
    const std::vector<int64_t> sizes = micro_batch_sizes(spec_);
    if (std::ranges::find(sizes, size) == sizes.end()) return;
    set_micro_batch(spec_, size);
    now_written(key);
  }

  template <class E>
  void word(const std::string& key, E& field) {
    const auto value = word_of<E>(runtime::read_identity(checkpoint_, key));
    if (!value) return;
    field = *value;
    now_written(key);
  }

  void now_written(const std::string& key) {
    spec_.set_where(key, {(checkpoint_ / "state.json").string(), 1, 1});
  }

  spec::Spec& spec_;
  const fs::path checkpoint_;
};

}  // namespace

void keep_keys_of_checkpoint(spec::Spec& spec) {
  if (!open_keys(spec).any()) return;
  const std::optional<fs::path> checkpoint = newest_checkpoint(spec.output.dir);
  if (!checkpoint) return;
  try {
    CheckpointKeys(spec, *checkpoint).take();
  } catch (const runtime::InputError&) {
    return;  // a damaged checkpoint, which the run passes over or refuses with its reason
  }
}

void note_changed_rate(const spec::Spec& spec) {
  const auto checkpoints = runtime::list_checkpoint_dirs(spec.output.dir);
  const auto newest =
      std::ranges::find(checkpoints, runtime::CheckpointDir::Kind::complete, &runtime::CheckpointDir::kind);
  diag::Diagnostics ignored;  // of a spec that trained once
  const std::string file = runtime::spec_path(spec.output.dir).string();
  if (newest == checkpoints.end() || !fs::exists(file)) return;
  const std::optional<spec::Spec> before = spec::load_spec(file, {}, ignored, spec.target);
  const int64_t step = newest->step;
  if (!before || step >= spec.train.max_steps) return;
  const auto last = optimizers::learning_rate_at(*before, step),
             planned = optimizers::learning_rate_at(*before, step + 1),
             next = optimizers::learning_rate_at(spec, step + 1);
  constexpr double kSame = 1e-3;
  if (!last || !next || std::abs(*next - *planned) <= kSame * std::max(*next, *planned)) return;
  fmt::print(
      stderr,
      "note: the schedule is another one now: the learning rate was {:.3g} in step {}, and is {:.3g} in "
      "step {}\n",
      *last, step, *next, step + 1);
}

}  // namespace hydrac::cli
