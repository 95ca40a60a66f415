// Warnings: what works, but slower than it could.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "diag/render.h"
#include "spec/checks/check.h"
#include "spec/hugging_face/chat_template.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void advise_width(Draft& draft, std::string_view path, int64_t width) {
  constexpr int64_t kMultiple = 64;
  if (!draft.usable({path}) || width % kMultiple == 0) return;
  const int64_t above = round_up(width, kMultiple);
  draft.report(Kind::width_alignment, {path, "model.hidden_size"},
               fmt::format("{} ({}) is not a multiple of {}, which is slow", path, width, kMultiple),
               above > kMultiple ? fmt::format("{} or {} would be faster", above - kMultiple, above)
                                 : fmt::format("{} would be faster", above));
}

void advise_vocabulary(Draft& draft) {
  constexpr int64_t kMultiple = 64;
  constexpr double kBadly = 1.05;
  const int64_t vocab = draft.spec.model.vocab_size;
  if (!draft.usable({"target", "model.vocab_size"}) || targets::find(draft.spec.target)->is_cpu() ||
      vocab == 0)
    return;
  const int64_t padded = round_up(vocab, kMultiple);
  if (static_cast<double>(padded) > kBadly * static_cast<double>(vocab))
    draft.report(
        Kind::vocab_alignment, {"model.vocab_size"},
        fmt::format("vocab_size ({}) pads to {}, and {:.0f}% of the head's work is wasted", vocab, padded,
                    100.0 * static_cast<double>(padded - vocab) / static_cast<double>(padded)),
        fmt::format("a multiple of {} wastes nothing", kMultiple));
}

void advise_recompute(Draft& draft) {
  const std::string_view key = "optimizations.recompute";
  if (draft.usable({key, "model.qk_norm"}) && draft.spec.optimizations.recompute.qk_norm &&
      !draft.spec.model.qk_norm)
    draft.report(Kind::no_effect, {key},
                 fmt::format("qk_norm in {} has no effect: model.qk_norm is false", key),
                 "remove it from the list");
}

void advise_chat_template(Draft& draft) {
  const char* key = "data.chat_template";
  const auto& data = draft.spec.data;
  const bool is_ours = data.chat_template != ChatFormat::none && data.chat_template != ChatFormat::own;
  if (data.format != DataFormat::chat || !is_ours) return;
  const auto own = own_template(draft.spec);
  if (!own || format_like(*own) == data.chat_template) return;
  draft.report(Kind::chat_template_differs, {key},
               fmt::format("{} is not known to write as the model's own template in {} does",
                           to_string(data.chat_template), diag::printable(own->shown_as)),
               "leave it out: the model's own is run");
}

}  // namespace

void advise(Draft& draft) {
  if (!begins_with_weights(draft.spec)) {  // whose widths are no choice
    advise_width(draft, "model.hidden_size", draft.spec.model.hidden_size);
    advise_width(draft, "model.intermediate_size", draft.spec.model.intermediate_size);
  }
  advise_vocabulary(draft);
  // A key's effect depends on others: with any of them broken it would be a guess.
  if (!draft.broken.empty()) return;
  advise_recompute(draft);
  advise_chat_template(draft);
  advise_no_effect(draft);
}

}  // namespace hydrac::spec
