#include "driver/fit_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "driver/prediction.h"
#include "spec/batch.h"

namespace hydrac::driver {

namespace {

// Moments that lie on the host are shared in thousandths.
constexpr double kShares = 1000;

// A combination, by the places of its values in the lists of a FitSpace.
struct FitPlace {
  size_t moments = 0, loss = 0, recompute = 0, micro_batch = 0;
  int layers = 0;  // that recompute; 0: nothing is computed again, whatever `recompute` is
  auto operator<=>(const FitPlace&) const = default;
};

class FitSearch {
 public:
  FitSearch(const spec::Spec& spec, CompileOptions options, const FitSpace& space, int64_t limit,
            const FitProgress& progress)
      : spec_(spec), options_(std::move(options)), space_(space), limit_(limit), progress_(progress) {
    options_.dump_dir.clear();
    options_.memory_bytes = 1;  // plans without spare room (plan::roomy_plan)
  }

  FitFound run() {
    const FitPlace first = with_fewest_layers({.micro_batch = largest_batch()});
    if (fits(first)) {
      found_.best = plan_of(first);
      found_.fastest_seconds = found_.best->seconds;
      return std::move(found_);
    }
    for (const Bound& bound : bounds()) {
      if (found_.runner_up && bound.seconds >= found_.runner_up->seconds) break;
      if (is_of_best(bound.place) && bound.seconds >= found_.best->seconds) continue;
      if (const std::optional<FitPlan> plan = fastest_from(bound.place)) take(bound.place, *plan);
    }
    if (!found_.best) found_.leanest = leanest();
    found_.fastest_seconds = std::ranges::min(found_.planned, {}, &FitPlan::seconds).seconds;
    return std::move(found_);
  }

 private:
  // Sizes of a program with all movable moments on the host.
  struct Sizes {
    int64_t bytes = 0, host_bytes = 0;
    int64_t fixed_bytes = 0;  // which no micro-batch changes
    int64_t saved_bytes = 0;  // that the layers keep for the backward pass
    double seconds = 0;
    int64_t movable_bytes = 0;   // of moments, of which as many as there is room for stay on the GPU,
    double movable_seconds = 0;  // and what the update takes for all of them
  };
  // Each layer that recomputes adds these seconds to a step, and saves at most these bytes of the largest
  // micro-batch.
  struct Layer {
    double seconds = 0;
    double bytes = 0;
  };
  // No number of layers takes less time with these values; the place's is the likeliest to be the fastest.
  struct Bound {
    double seconds = 0;
    FitPlace place;
  };

  size_t largest_batch() const { return space_.micro_batch_sizes.size() - 1; }
  bool recomputes(const FitPlace& place) const { return space_.recompute[place.recompute].any(); }
  int fewest_layers(const FitPlace& place) const { return recomputes(place) ? space_.fewest_layers : 0; }
  int most_layers(const FitPlace& place) const { return recomputes(place) ? space_.most_layers : 0; }
  FitPlace with_fewest_layers(const FitPlace& place) const {
    return with_layers(place, fewest_layers(place));
  }
  FitPlace with_most_layers(const FitPlace& place) const { return with_layers(place, most_layers(place)); }
  static FitPlace with_layers(FitPlace place, int layers) {
    place.layers = layers;
    return place;
  }
  FitPlace keeping_everything(size_t loss, size_t micro_batch) const {
    return {.loss = loss, .micro_batch = micro_batch};
  }

  bool keeps_moments(const FitPlace& place) const {
    return space_.keeps_moments && space_.moments[place.moments].on_host.any();
  }

  FitChoice choice_at(const FitPlace& place) const {
    FitChoice choice{.micro_batch_size = space_.micro_batch_sizes[place.micro_batch],
                     .loss = space_.losses[place.loss],
                     .moments = space_.moments[place.moments]};
    if (place.layers > 0) choice.recompute = space_.recompute[place.recompute];
    if (place.layers < spec_.model.num_hidden_layers) choice.recompute.layers = place.layers;
    return choice;
  }

  // With as many moments on the GPU as fit.
  FitPlan plan_of(const FitPlace& place) {
    const Sizes& sizes = sizes_at(place);
    FitPlan plan{choice_at(place), sizes.bytes, sizes.host_bytes, sizes.seconds};
    if (sizes.movable_bytes == 0) return plan;
    const auto movable = static_cast<double>(sizes.movable_bytes);
    const auto room = static_cast<double>(std::max<int64_t>(limit_ - sizes.bytes, 0));
    const double share = std::ceil(kShares * std::max(1 - room / movable, 0.0)) / kShares;
    plan.choice.moments.on_host = std::clamp(share, 1 / kShares, 1.0);
    const auto kept =
        static_cast<int64_t>((1 - plan.choice.moments.on_host) * movable) / plan::kPage * plan::kPage;
    plan.bytes += kept;
    plan.host_bytes -= kept;
    plan.seconds -= static_cast<double>(kept) / movable * sizes.movable_seconds;
    return plan;
  }

  const Sizes& sizes_at(FitPlace place) {
    if (place.layers == 0) place.recompute = 0;  // one program
    const auto [entry, is_new] = sizes_.try_emplace(place);
    if (!is_new) return entry->second;
    if (progress_) progress_(std::ssize(found_.planned));
    const FitChoice choice = choice_at(place);
    const Compiled c = compile(with_choice(spec_, choice), choice.recompute, options_);
    Sizes& sizes = entry->second;
    sizes = {.bytes = c.plan.device_bytes(),
             .host_bytes = c.plan.host_bytes,
             .fixed_bytes = c.plan.persistent_bytes - c.plan.input_bytes,
             .saved_bytes = saved_bytes(c),
             .seconds = predicted_seconds(c)};
    if (keeps_moments(place)) {
      sizes.movable_bytes = bytes_on_host(c, ir::Role::optimizer_state);
      sizes.movable_seconds = seconds_over_bus(c, sizes.movable_bytes);
    }
    found_.planned.push_back(plan_of(place));
    return entry->second;
  }

  bool fits(const FitPlace& place) { return sizes_at(place).bytes <= limit_; }

  // Estimates what a recomputing layer costs and saves, from two programs: one in which no layer recomputes,
  // and one in which most layers do. They differ only in what these layers do not keep.
  Layer layer_of(size_t recompute) {
    const FitPlace most = with_most_layers({.recompute = recompute, .micro_batch = largest_batch()});
    if (most.layers == 0) return {};
    const Sizes &none = sizes_at(keeping_everything(0, largest_batch())), &all = sizes_at(most);
    return {(all.seconds - none.seconds) / most.layers,
            static_cast<double>(none.saved_bytes - all.saved_bytes) / most.layers};
  }

  // The fastest first.
  std::vector<Bound> bounds() {
    std::vector<Layer> layers;
    for (size_t recompute = 0; recompute < space_.recompute.size(); ++recompute)
      layers.push_back(layer_of(recompute));
    std::vector<Bound> list;
    for (size_t moments = 0; moments < space_.moments.size(); ++moments) {
      for (size_t loss = 0; loss < space_.losses.size(); ++loss) {
        for (size_t recompute = 0; recompute < space_.recompute.size(); ++recompute) {
          for (size_t size = largest_batch() + 1; size-- > 0;) {
            const auto bound = bound_of({moments, loss, recompute, size}, layers[recompute]);
            if (bound) list.push_back(*bound);
            if (fits(keeping_everything(loss, size))) break;  // smaller ones take longer, and keep no more
          }
        }
      }
    }
    std::ranges::stable_sort(list, {}, &Bound::seconds);
    return list;
  }

  // A lower bound without compiling; nullopt if the combination surely does not fit. It starts from the
  // program that keeps everything, subtracts what recomputing layers save, and adds the moments of the
  // largest micro-batch. Alignment of tensors and the host's pages make such differences inexact.
  std::optional<Bound> bound_of(const FitPlace& place, const Layer& layer) {
    constexpr double kInexact = 8 << 20;
    const Sizes& base = sizes_at(keeping_everything(place.loss, place.micro_batch));
    const Sizes& first = sizes_at(keeping_everything(0, largest_batch()));
    const Sizes& moments = sizes_at({.moments = place.moments, .micro_batch = largest_batch()});
    const double part = static_cast<double>(space_.micro_batch_sizes[place.micro_batch]) /
                        static_cast<double>(space_.micro_batch_sizes.back());
    std::optional<Bound> least;
    for (int layers = fewest_layers(place); layers <= most_layers(place); ++layers) {
      const double bytes = static_cast<double>(base.bytes - first.fixed_bytes + moments.fixed_bytes) -
                           layers * part * layer.bytes;
      const double room = static_cast<double>(limit_) + kInexact - bytes;
      if (room < 0) continue;
      double seconds = base.seconds - first.seconds + moments.seconds + layers * layer.seconds;
      if (moments.movable_bytes > 0)
        seconds -= std::min(room / static_cast<double>(moments.movable_bytes), 1.0) * moments.movable_seconds;
      if (!least || seconds < least->seconds) least = Bound{seconds, with_layers(place, layers)};
    }
    return least;
  }

  // True if moments that may move need not: the same combination with none on the host is better.
  bool moves_in_vain(const FitPlace& place) {
    const Sizes& sizes = sizes_at(place);
    return sizes.movable_bytes > 0 && sizes.bytes + sizes.movable_bytes <= limit_;
  }

  // Searches around the number of layers that is likely to be best. More recomputing layers need less memory
  // and more time. The exception is where they make room for moments on the GPU: up to some number the step
  // then gets faster.
  std::optional<FitPlan> fastest_from(FitPlace place) {
    while (place.layers > fewest_layers(place) && moves_in_vain(place)) --place.layers;
    const int most = most_layers(place);
    for (int step = 1; !fits(place); step *= 2) {
      if (place.layers == most) return std::nullopt;
      // The last layer of all may save nothing: it recomputes while all that is kept is there.
      place.layers = std::min(place.layers + step, place.layers < most - 1 ? most - 1 : most);
    }
    if (moves_in_vain(place)) return std::nullopt;
    FitPlan fastest = plan_of(place);
    for (const int step : {-1, 1}) {
      for (FitPlace next = place;;) {
        next.layers += step;
        if (next.layers < fewest_layers(place) || next.layers > most_layers(place)) break;
        if (!fits(next) || moves_in_vain(next)) break;
        const FitPlan plan = plan_of(next);
        if (step < 0 ? plan.seconds > fastest.seconds : plan.seconds >= fastest.seconds) break;
        fastest = plan;
      }
    }
    return fastest;
  }

  // Other values of keys may make the same program, as parts of a head that is one part: no runner-up.
  static bool are_alike(const FitPlan& a, const FitPlan& b) {
    return a.bytes == b.bytes && a.host_bytes == b.host_bytes && a.seconds == b.seconds;
  }

  // True if it differs from the best one in the micro-batch and the number of layers alone.
  bool is_of_best(const FitPlace& place) const {
    return found_.best && place.moments == best_place_.moments && place.loss == best_place_.loss &&
           place.recompute == best_place_.recompute;
  }

  void take(const FitPlace& place, const FitPlan& plan) {
    if (found_.best && are_alike(plan, *found_.best)) return;
    if (!found_.best || plan.seconds < found_.best->seconds) {
      if (found_.best && !is_of_best(place)) found_.runner_up = found_.best;
      found_.best = plan;
      best_place_ = place;
    } else if (!is_of_best(place) && (!found_.runner_up || plan.seconds < found_.runner_up->seconds)) {
      found_.runner_up = plan;
    }
  }

  FitPlan leanest() {
    size_t moments = 0;
    for (size_t i = 1; i < space_.moments.size(); ++i) {
      if (sizes_at({.moments = i, .micro_batch = largest_batch()}).fixed_bytes <
          sizes_at({.moments = moments, .micro_batch = largest_batch()}).fixed_bytes)
        moments = i;
    }
    std::optional<FitPlan> least;
    for (size_t loss = 0; loss < space_.losses.size(); ++loss) {
      for (size_t recompute = 0; recompute < space_.recompute.size(); ++recompute) {
        const FitPlan plan =
            plan_of(with_most_layers({.moments = moments, .loss = loss, .recompute = recompute}));
        if (!least || plan.bytes < least->bytes) least = plan;
      }
    }
    return *least;
  }

  const spec::Spec& spec_;
  CompileOptions options_;
  const FitSpace& space_;
  const int64_t limit_;
  const FitProgress& progress_;
  std::map<FitPlace, Sizes> sizes_;
  FitPlace best_place_;
  FitFound found_;
};

}  // namespace

spec::Spec with_choice(const spec::Spec& spec, const FitChoice& choice) {
  spec::Spec chosen = spec;
  if (waits_for_plan(spec)) set_micro_batch(chosen, choice.micro_batch_size);
  if (waits_for_data(chosen)) chosen.train.max_steps = 1;  // only numbers in kernels depend on it
  auto& o = chosen.optimizations;
  o.fit = spec::Fit::none;
  o.loss = choice.loss;
  o.offload.optimizer_state = choice.moments.on_host;
  o.optimizer_state = choice.moments.type;
  return chosen;
}

FitFound search_fit(const spec::Spec& spec, const CompileOptions& options, const FitSpace& space,
                    int64_t limit_bytes, const FitProgress& progress) {
  return FitSearch(spec, options, space, limit_bytes, progress).run();
}

}  // namespace hydrac::driver
