// The "update" function of the graph: gradient norm, clipping, learning rate, the optimizer, and the step
// counter, all as fused kernels on device-side values, so that a step needs nothing from the host.
#pragma once
#include <optional>

#include "ir/body_builder.h"
#include "models/pack.h"
#include "models/transformer.h"
#include "optimizers/loss_scale.h"

namespace hydrac::optimizers {

// Inputs from which one optimizer writes its kernels: one for each of its groups, by GroupKernel.
struct Update {
  ops::RegionBuilder& builder;  // of the region that its kernels go to
  const spec::Spec& spec;
  const models::Pack& pack;
  std::vector<const models::ParameterGroup*> groups;  // the optimizer's, neighbours in the pack
  // Scalars: f32, f32, i32. `clip` is the factor for gradients, the loss scale's inverse included; `step` is
  // 0 in the first step.
  ir::Use learning_rate, clip, step;
  ir::Use skipped;       // i32 []: see SkipGuard
  ir::Use rounding_key;  // u32 []: of this step's noise; absent where nothing is rounded stochastically
  // The index of each of the pack's rows in the group as one process has it, i32 [own rows]: for ranks that
  // share the update when something is rounded stochastically.
  std::vector<ir::Use> places;
  bool goes_on = false;         // after a skipped step: with loss scaling
  bool zero_gradients = false;  // the next micro-batch adds to them
};

// Numbers of the spec that kernels name.
struct Betas {
  explicit Betas(const spec::Spec& spec);
  ir::Number beta1, beta2;
};
ir::Number momentum_of(const spec::Spec& spec);

// One file each. They update the rank's part of their groups' parameters (ParameterGroup::own_parameters) in
// place.
void adamw(Update&);
void lion(Update&);
void sgd(Update&);

// Muon needs regions between its first and its last kernels: adds them to `regions` and the rest of the last
// matrices to `last`, and returns the inputs of the last kernels, by group.
struct Orthogonalized {
  const models::ParameterGroup* group = nullptr;
  ir::Use update;  // packed as the group
};
std::vector<Orthogonalized> orthogonalize(Update&, std::vector<ir::Region>& regions, ir::Region& last);
void muon(Update&, const std::vector<Orthogonalized>&);

// Inputs of the learning rate beside the step, f64.
struct RateInputs {
  std::optional<ir::Term> cut;           // of an adaptive schedule: its curve is 1 - cut
  std::optional<ir::Term> whole, trial;  // of a rate that a range test finds, see found_rate.h
};

// The learning rate of step `step` (f64) as a body expression: warmup, then the schedule's curve.
ir::Term scheduled_learning_rate(ir::BodyBuilder&, const spec::Spec&, ir::Term step,
                                 const RateInputs& inputs);

// The rate of step 1, 2, ... that the spec alone decides; none where losses or a range test do.
std::optional<double> learning_rate_at(const spec::Spec&, int64_t step);

// Sets the ports and metrics of "update" for the host. A step whose gradients or loss are not finite changes
// neither parameters nor moments. With the port loss_scale later steps may succeed (loss_scale.h); without
// it, no later step changes them.
void build_update(models::Model& model, const models::Pack& pack, const LossScaling& scaling = {});

}  // namespace hydrac::optimizers
