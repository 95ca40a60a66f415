#include "spec/with_data.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "spec/checks/check.h"
#include "spec/keys/key_table.h"
#include "spec/resolve.h"

namespace hydrac::spec {
namespace {

void settle_epochs(Draft& draft, int64_t sequences) {
  Train& train = draft.spec.train;
  const auto batch = static_cast<double>(train.global_batch_size);
  const double steps = std::ceil(train.epochs * static_cast<double>(sequences) / batch);
  const double most = find_key("train.max_steps")->rule.high;
  if (steps > most)
    return draft.report(
        diag::Kind::out_of_range, {"train.epochs"},
        fmt::format("{} epochs of {} sequences are {:.0f} steps, and a run has {:.0f} at most", train.epochs,
                    sequences, steps, most),
        fmt::format("write epochs: {:.0f}", std::floor(most * batch / static_cast<double>(sequences))));
  train.max_steps = static_cast<int64_t>(steps);
  train.epochs = 0;
  resolve_scheduler(draft);
  check_schedule(draft);
  check_curriculum_steps(draft);
}

void advise_validation(Draft& draft, int64_t batches) {
  const int64_t wanted = draft.spec.train.eval_batches;
  if (!draft.spec.is_set("train.eval_batches") || batches == 0 || wanted <= batches) return;
  draft.report(
      diag::Kind::no_effect, {"train.eval_batches"},
      fmt::format("eval_batches is {}, and the validation data has {}: each validation takes all of them",
                  wanted, batches),
      fmt::format("write {}", batches));
}

// A mixture whose sources may be read so many times lasts so long.
void check_mixture(Draft& draft, int64_t most) {
  const Train& train = draft.spec.train;
  const int64_t steps = most / train.global_batch_size;
  if (train.max_steps <= steps) return;
  draft.report(
      diag::Kind::mix_too_short, {"data.mix", "train.max_steps"},
      fmt::format("max_steps is {}, and the epochs of data.mix allow {} sequences, which are {} steps",
                  train.max_steps, most, steps),
      fmt::format("write max_steps: {}, or more epochs for a source (0 = any number)", steps));
}

}  // namespace

bool complete_with_data(Spec& spec, const DataFacts& facts, diag::Diagnostics& diagnostics) {
  Draft draft{.spec = std::move(spec), .diagnostics = diagnostics, .top = {}, .broken = {}, .usual = {}};
  if (waits_for_data(draft.spec)) settle_epochs(draft, facts.sequences);
  check_mixture(draft, facts.most_sequences);
  advise_validation(draft, facts.validation_batches);
  spec = std::move(draft.spec);
  return !diagnostics.has_errors();
}

}  // namespace hydrac::spec
