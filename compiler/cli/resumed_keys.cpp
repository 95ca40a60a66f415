#include "cli/resumed_keys.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "runtime/checkpoint/checkpoint_dirs.h"
#include "runtime/error.h"
#include "runtime/train/run_checkpoint.h"
#include "spec/batch.h"
#include "spec/fit_keys.h"

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

}  // namespace hydrac::cli
