// Learning-rate schedules, as torchtitan has them. Step n = 1, 2, ..., max_steps has learning_rate times one
// of:
//   n / warmup_steps                          while n <= warmup_steps, then
//   min + (1 - min) (1 - t)                   linear, wsd
//   min + (1 - min) (1 + cos(pi t)) / 2       cosine
// Here t = (n - start) / decay_steps, between 0 and 1; start is the end of the warmup, for wsd the step
// decay_steps before the end. So no warmup step has rate 0, and the last step of the decay has exactly min.
#include <numbers>

#include "functions/expressions.h"
#include "ir/evaluate.h"
#include "ops/user_function.h"
#include "optimizers/optimizer.h"

namespace hydrac::optimizers {

namespace {

using ir::BodyBuilder;
using ir::ExprType;
using ir::Term;

Term f64(BodyBuilder& k, double number) {
  return k.constant(number, ExprType::f64);
}

Term f64(BodyBuilder& k, const ir::Number& number, const char* name) {
  return k.constant(number, ExprType::f64, name);
}

// Numbers that schedules are made of.
struct ScheduleNumbers {
  explicit ScheduleNumbers(const spec::Spec& spec)
      : low(ir::spec_number("min_ratio", spec.train.lr_scheduler.min_ratio, "train.lr_scheduler.min_ratio")),
        steps(ir::spec_number("decay_steps", spec.train.lr_scheduler.decay_steps,
                              "train.lr_scheduler.decay_steps")),
        warmup(ir::spec_number("warmup_steps", spec.train.lr_scheduler.warmup_steps,
                               "train.lr_scheduler.warmup_steps")),
        end(ir::spec_number("max_steps", spec.train.max_steps, "train.max_steps")) {}

  ir::Number low, steps, warmup, end;
};

// The number of a step that counts from 0.
Term number_of(BodyBuilder& k, Term step) {
  return k.named("n", step + 1);
}

// t
Term progress(BodyBuilder& k, Term step, const ir::Number& start, const ir::Number& steps,
              const char* start_name) {
  if (steps.value == 0) return f64(k, 1);
  const Term over = (number_of(k, step) - f64(k, start, start_name)) / f64(k, steps, "kDecaySteps");
  return k.named("progress", max(f64(k, 0), min(f64(k, 1), over)));
}

// A user's function of (step, max_steps), in the type that it is written in.
Term function_factor(BodyBuilder& k, const functions::Function& function, Term step, double max_steps) {
  const ExprType type = function.number == functions::Number::f32 ? ExprType::f32 : ExprType::f64;
  const Term at = type == ExprType::f64 ? step : convert(step, type);
  const Term factor = ops::call(k, functions::bound(function, 1, max_steps), {at});
  return type == ExprType::f64 ? factor : convert(factor, ExprType::f64);
}

Term decay_factor(BodyBuilder& k, const spec::Spec& spec, Term step) {
  const spec::LrScheduler& s = spec.train.lr_scheduler;
  const auto [low, steps, warmup, end] = ScheduleNumbers(spec);
  if (s.name.function) return function_factor(k, s.name.function->lifted, step, end.value);
  const bool ends_at_0 = low.value == 0;
  const auto plus_low = [&](Term factor) { return ends_at_0 ? factor : factor + f64(k, low, "kLow"); };
  const auto above_low = [&](Term share) {
    return plus_low(ends_at_0 ? share : share * f64(k, 1 - low, "kAboveLow"));
  };
  switch (s.name.word) {
    case spec::Schedule::constant:
    case spec::Schedule::adaptive:
      return f64(k, 1);
    case spec::Schedule::linear:
      return above_low(1 - progress(k, step, warmup, steps, "kWarmupSteps"));
    case spec::Schedule::cosine:
      return plus_low((cos(progress(k, step, warmup, steps, "kWarmupSteps") * std::numbers::pi) + 1) *
                      f64(k, (1 - low) / 2, "kHalfAboveLow"));
    case spec::Schedule::wsd:
      if (steps.value == 0) return f64(k, 1);
      return above_low(1 - progress(k, step, end - steps, steps, "kDecayStart"));
  }
  return f64(k, 1);
}

}  // namespace

Term scheduled_learning_rate(BodyBuilder& k, const spec::Spec& spec, Term step, const RateInputs& inputs) {
  const ir::Number warmup = ScheduleNumbers(spec).warmup;
  Term factor = k.named("decay_factor", inputs.cut ? 1 - *inputs.cut : decay_factor(k, spec, step));
  if (warmup.value > 0) {
    const Term steps = f64(k, warmup, "kWarmupSteps"), n = number_of(k, step);
    factor = select(n <= steps, n / steps, factor);
  }
  if (inputs.whole) return select(*inputs.trial == f64(k, 0), factor, f64(k, 1)) * *inputs.whole;
  const ir::Number rate = ir::spec_number("learning_rate", spec.train.optimizer.learning_rate.value,
                                          "train.optimizer.learning_rate");
  return factor * f64(k, rate, "kLearningRate");
}

std::optional<double> learning_rate_at(const spec::Spec& spec, int64_t step) {
  const auto& word = spec.train.lr_scheduler.name;
  const bool is_adaptive = !word.function && word.word == spec::Schedule::adaptive;
  if (is_adaptive || spec.train.optimizer.learning_rate.automatic) return std::nullopt;
  ir::Graph graph;
  const auto scalar = [&](const char* name) {
    ir::Value value;
    value.name = name;
    return ir::Use{graph.add(value), {}};
  };
  const ir::Node node{.inputs = {scalar("step")}, .outputs = {scalar("rate")}};
  BodyBuilder k(graph, node, {});
  const Term from_0 = convert(k.scalar(0), ExprType::f64) - 1;
  k.store_row(0, convert(scheduled_learning_rate(k, spec, from_0, {}), ExprType::f32));
  std::vector<double> number = {static_cast<double>(step)}, rate = {0};
  ir::evaluate(k.take(), {&number, &rate}, 0);
  return rate[0];
}

}  // namespace hydrac::optimizers
