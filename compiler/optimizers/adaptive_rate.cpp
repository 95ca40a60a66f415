#include "optimizers/adaptive_rate.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::ExprType;
using ir::Node;
using ir::Term;
using ir::Use;

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
  const auto number = [&](double x, const char* name) { return k.constant(x, ExprType::f64, name); };
  const Term zero = k.constant(0, ExprType::f64), one = k.constant(1, ExprType::f64);
  const Term patience = number(static_cast<double>(s.patience), "kPatience");
  const Term after_warmup =
      k.named("after_warmup", convert(k.scalar(0), ExprType::f64) -
                                  number(static_cast<double>(s.warmup_steps), "kWarmupSteps"));
  const Term looks = k.named("looks", floor(after_warmup / patience));  // so many before
  const Term place = k.named("place", after_warmup - looks * patience);

  const Term is_warming_up = k.named("is_warming_up", after_warmup < zero);
  const Term begins = k.named("begins", place == zero), is_first = k.named("is_first", looks == zero);

  const auto kept = [&](int input, const char* name) {
    return k.named(name, convert(k.scalar(input), ExprType::f64));
  };
  const Term cut = kept(2, "cut"), mean = kept(3, "mean"), best = kept(4, "best");
  const Term before = k.named("before", select(begins, best, mean));
  const Term is_usable = k.named("is_usable", is_finite(k.scalar(1)));
  const Term now = k.named("now", select(is_usable, convert(k.scalar(1), ExprType::f64), before));
  const Term new_mean = k.named("new_mean", select(begins, now, before + (now - before) / (place + one)));

  const Term none = k.constant(0, ExprType::i32), yes = k.constant(1, ExprType::i32);
  const Term is_last = k.named("is_last", place + one == patience);
  const Term is_look = k.named("is_look", select(is_warming_up, none, select(is_last, yes, none)) == yes);
  const Term wanted = k.named("wanted", best - abs(best) * number(s.threshold, "kThreshold"));
  const Term is_lower = k.named("is_lower", new_mean < wanted);
  const Term falls = k.named("falls", select(is_first, yes, select(is_lower, yes, none)) == yes);
  const Term share =
      k.named("share", max(number(s.min_ratio, "kMinRatio"), (one - cut) * number(s.factor, "kFactor")));
  const Term lowest = k.named("lowest", select(is_first, new_mean, min(best, new_mean)));
  k.store_row(0, convert(select(is_look, select(falls, cut, one - share), cut), ExprType::f32));
  k.store_row(1, convert(select(is_warming_up, zero, new_mean), ExprType::f32));
  k.store_row(2, convert(select(is_look, lowest, best), ExprType::f32));
  b.emit_body(
      node, "follow_loss", k.take(),
      "Every kPatience steps: a mean loss that is not below the best by kThreshold of it cuts the rate");
}

}  // namespace hydrac::optimizers
