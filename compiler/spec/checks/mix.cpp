// Several sources of data, and several sets that validate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/data/mix_order.h"
#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

void check_twice(Draft& draft, const char* one, const char* other, bool both) {
  if (both)
    draft.report(Kind::mix_and_path, {one, other}, fmt::format("{} and {} both name the data", one, other),
                 "remove one of them");
}

void check_weights(Draft& draft) {
  double sum = 0;
  for (const Source& source : draft.spec.data.mix) sum += source.weight;
  for (const Source& source : draft.spec.data.mix) {
    const double least = (sum - source.weight) / (runtime::MixOrder::kBlock - 1);
    if (source.weight < least)
      draft.report(
          Kind::mix_weight, {"data.mix"},
          fmt::format("the weight of {} is {:g}, and all weights together are {:g}: a source must have 1/{} "
                      "of them",
                      source.name, source.weight, sum, runtime::MixOrder::kBlock),
          fmt::format("write weight: {:g} or more", std::ceil(least * 1e3) / 1e3));
  }
}

}  // namespace

void check_mix(Draft& draft) {
  const auto& spec = draft.spec;
  const bool mixes = !spec.data.mix.empty(), has_sets = !spec.data.val.empty();
  check_twice(draft, "data.mix", "data.path", mixes && !spec.data.path.empty());
  check_twice(draft, "data.val", "data.val_path", has_sets && !spec.data.val_path.empty());
  if (!draft.usable({"data.mix", "data.val", "model.input"}) || (!mixes && !has_sets)) return;
  const char* key = mixes ? "data.mix" : "data.val";
  if (spec.model.input == Input::series)
    return draft.report(Kind::mix_unsupported, {key, "model.input"},
                        fmt::format("{} is for tokens, and the input is series", key),
                        fmt::format("write {}", mixes ? "data.path" : "data.val_path"));
  if (!mixes) return;
  if (spec.data.curriculum.steps > 0)
    draft.report(Kind::mix_unsupported, {"data.mix", "data.curriculum.steps"},
                 "a curriculum draws from one order of all data, and the sources of a mixture have none",
                 "remove data.curriculum");
  if (warms_sequences_up(spec))
    draft.report(Kind::mix_unsupported, {"data.mix", "train.sequence_warmup.steps"},
                 "sequence_warmup is for data.path, and not for the sources of a mixture",
                 "remove train.sequence_warmup");
  check_weights(draft);
}

}  // namespace hydrac::spec
