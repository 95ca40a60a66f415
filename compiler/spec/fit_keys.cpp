#include "spec/fit_keys.h"

#include "targets/target.h"

namespace hydrac::spec {

OpenKeys open_keys(const Spec& spec) {
  OpenKeys open{.micro_batch_size = waits_for_plan(spec)};
  if (!waits_for_fit(spec)) return open;
  const auto& o = spec.optimizations;
  open.recompute = !spec.is_set("optimizations.recompute") || o.recompute.mode == Recompute::Mode::automatic;
  open.recompute_layers =
      o.recompute_layers == 0 && (open.recompute || o.recompute.mode != Recompute::Mode::none);
  open.loss = !spec.is_set("optimizations.loss") && can_divide_head(spec);
  open.offload =
      !spec.is_set("optimizations.offload.optimizer_state") && !targets::find(spec.target)->is_cpu();
  open.optimizer_state = o.fit == Fit::numerics && !spec.is_set("optimizations.optimizer_state");
  return open;
}

void take_chosen_keys(Spec& spec, const SpecKeys& chosen) {
  const OpenKeys open = open_keys(spec);
  auto& o = spec.optimizations;
  const auto& from = chosen.optimizations;
  if (open.micro_batch_size) {
    spec.train.micro_batch_size = chosen.train.micro_batch_size;
    spec.train.gradient_accumulation_steps = chosen.train.gradient_accumulation_steps;
  }
  if (open.recompute) o.recompute = from.recompute;
  if (open.recompute_layers) o.recompute_layers = from.recompute_layers;
  if (open.loss) o.loss = from.loss;
  if (open.offload) o.offload.optimizer_state = from.offload.optimizer_state;
  if (open.optimizer_state) o.optimizer_state = from.optimizer_state;
  o.fit = Fit::none;
}

}  // namespace hydrac::spec
