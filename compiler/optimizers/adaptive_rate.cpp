#include "optimizers/adaptive_rate.h"

#include <limits>

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::ExprType;
using ir::Node;
using ir::Term;
using ir::Use;

namespace {

// Mean of no loss yet: a float32 that no loss is, larger than all.
constexpr double kNone = std::numeric_limits<float>::max();

}  // namespace

std::optional<AdaptiveRate> adaptive_rate(ops::RegionBuilder& b, const spec::Spec& spec) {
  if (!(spec.train.lr_scheduler.name == spec::Schedule::adaptive)) return std::nullopt;
  const auto kept = [&](const char* name) {
    return b.fresh(std::string("learning_rate.") + name, {}, ir::DType::f32, ir::Role::optimizer_state);
  };
  return AdaptiveRate{kept("cut"), kept("mean"), kept("best")};
}

void follow_loss(ops::RegionBuilder& b, const spec::Spec& spec, const AdaptiveRate& rate, Use step,
                 Use loss) {
  const spec::LrScheduler& s = spec.train.lr_scheduler;
  b.enter("optimizer", "train.lr_scheduler");
  const Node node{.inputs = {step, loss, rate.cut, rate.mean, rate.best},
                  .outputs = {rate.cut, rate.mean, rate.best}};
  BodyBuilder k(b.graph(), node, {});
  const auto number = [&](const ir::Number& x, const char* name) {
    return k.constant(x, ExprType::f64, name);
  };
  const auto key = [&](const std::string& name, auto value) {
    return ir::spec_number(name, value, "train.lr_scheduler." + name);
  };
  const Term zero = k.constant(0, ExprType::f64), one = k.constant(1, ExprType::f64);
  const Term patience = number(key("patience", s.patience), "kPatience");
  const Term after_warmup =
      k.named("after_warmup", convert(k.scalar(0), ExprType::f64) -
                                  number(key("warmup_steps", s.warmup_steps), "kWarmupSteps"));
  const Term looks = k.named("looks", floor(after_warmup / patience));  // so many before
  const Term place = k.named("place", after_warmup - looks * patience);

  const Term is_warming_up = k.named("is_warming_up", after_warmup < zero);
  const Term none = number(kNone, "kNone");
  const auto kept = [&](int input, const char* name) {
    return k.named(name, convert(k.scalar(input), ExprType::f64));
  };
  const Term cut = kept(2, "cut");
  const Term mean = k.named("mean", select(place == zero, none, convert(k.scalar(3), ExprType::f64)));
  const Term best = k.named("best", select(after_warmup == zero, none, convert(k.scalar(4), ExprType::f64)));

  // A loss that does not count is as if it were the mean of the others.
  const Term now = convert(k.scalar(1), ExprType::f64);
  const Term with_now = select(mean == none, now, mean + (now - mean) / (place + one));
  const Term new_mean = k.named("new_mean", select(is_finite(k.scalar(1)), with_now, mean));

  const Term is_look = k.named("is_look", !is_warming_up && place + one == patience && !(new_mean == none));
  const Term wanted =
      k.named("wanted", best - abs(best) * number(key("threshold", s.threshold), "kThreshold"));
  const Term falls = k.named("falls", best == none || new_mean < wanted);
  const Term share = k.named("share", max(number(key("min_ratio", s.min_ratio), "kMinRatio"),
                                          (one - cut) * number(key("factor", s.factor), "kFactor")));
  k.store_row(0, convert(select(is_look && !falls, one - share, cut), ExprType::f32));
  k.store_row(1, convert(select(is_warming_up, zero, new_mean), ExprType::f32));
  k.store_row(2, convert(select(is_look, min(best, new_mean), best), ExprType::f32));
  b.emit_body(
      node, "follow_loss", k.take(),
      "Every kPatience steps: a mean loss that is not below the best by kThreshold of it cuts the rate");
}

}  // namespace hydrac::optimizers
