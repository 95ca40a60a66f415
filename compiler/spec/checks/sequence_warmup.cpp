// Sequence length warm-up: rows that are cut into shorter sequences during the first steps.
#include <fmt/format.h>

#include <algorithm>

#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr const char *kFirstLength = "train.sequence_warmup.start",
                     *kWarmupSteps = "train.sequence_warmup.steps", *kWholeLength = "train.sequence_len";

void check_start(Draft& draft) {
  const int64_t start = draft.spec.train.sequence_warmup.start, length = draft.spec.train.sequence_len;
  if (!draft.usable({kFirstLength, kWholeLength}) || start < length) return;
  draft.report(
      Kind::sequence_warmup_start, {kFirstLength, kWarmupSteps, kWholeLength},
      fmt::format("sequence_warmup.start ({}) is not below sequence_len ({}): sequences would not grow",
                  start, length),
      length > 1 ? fmt::format("write start: {}", std::max<int64_t>(1, length / 8))
                 : "remove sequence_warmup");
}

// Refuses data that is not one long text.
void check_data(Draft& draft) {
  const auto& spec = draft.spec;
  if (draft.usable({"model.input"}) && spec.model.input == Input::series)
    draft.report(Kind::sequence_warmup_unsupported, {kWarmupSteps, "model.input"},
                 "sequence_warmup cuts rows of tokens, and the input is series", "remove sequence_warmup");
  if (draft.usable({"data.format"}) && spec.data.format == DataFormat::chat)
    draft.report(
        Kind::sequence_warmup_unsupported, {kWarmupSteps, "data.format"},
        "sequence_warmup cuts rows anywhere, and with format: chat they hold items, each whole: a reply "
        "would lose its prompt",
        "remove sequence_warmup");
}

}  // namespace

void check_sequence_warmup(Draft& draft) {
  if (!draft.usable({kWarmupSteps}) || !warms_sequences_up(draft.spec)) return;
  check_start(draft);
  check_data(draft);
}

}  // namespace hydrac::spec
