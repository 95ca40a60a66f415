#include "driver/fit_search.h"

#include <algorithm>
#include <map>
#include <utility>

#include "driver/prediction.h"
#include "spec/batch.h"

namespace hydrac::driver {

namespace {

// Places of a combination's values in the lists of a FitSpace.
struct FitPlace {
  size_t moments = 0, loss = 0, recompute = 0, micro_batch = 0;
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
    const size_t largest = space_.micro_batch_sizes.size() - 1;
    const Sizes first = sizes_at({.micro_batch = largest});
    found_.fastest_seconds = first.seconds;
    if (first.bytes <= limit_) {
      found_.best = plan_of({.micro_batch = largest}, first);
      return std::move(found_);
    }
    for (const Bound& bound : bounds(largest)) {
      if (found_.runner_up && bound.seconds >= found_.runner_up->seconds) break;
      if (const auto fitting = largest_fitting(bound.place)) take(plan_of(*fitting, sizes_at(*fitting)));
    }
    if (!found_.best) found_.leanest = leanest();
    return std::move(found_);
  }

 private:
  struct Sizes {
    int64_t bytes = 0, host_bytes = 0;
    int64_t fixed_bytes = 0;  // which no micro-batch changes
    double seconds = 0;
  };
  // No micro-batch with these values takes less time.
  struct Bound {
    double seconds = 0;
    FitPlace place;
  };

  FitChoice choice_at(const FitPlace& place) const {
    return {space_.micro_batch_sizes[place.micro_batch], space_.recompute[place.recompute],
            space_.losses[place.loss], space_.moments[place.moments]};
  }

  FitPlan plan_of(const FitPlace& place, const Sizes& sizes) const {
    return {choice_at(place), sizes.bytes, sizes.host_bytes, sizes.seconds};
  }

  const Sizes& sizes_at(const FitPlace& place) {
    const auto [entry, is_new] = sizes_.try_emplace(place);
    if (!is_new) return entry->second;
    if (progress_) progress_(std::ssize(found_.planned));
    const FitChoice choice = choice_at(place);
    const Compiled c = compile(with_choice(spec_, choice), choice.recompute, options_);
    entry->second = {c.plan.device_bytes(), c.plan.host_bytes, c.plan.persistent_bytes - c.plan.input_bytes,
                     predicted_seconds(c)};
    found_.planned.push_back(plan_of(place, entry->second));
    return entry->second;
  }

  // The fastest first.
  std::vector<Bound> bounds(size_t largest) {
    const double first = sizes_at({.micro_batch = largest}).seconds;
    std::vector<Bound> list;
    for (size_t moments = 0; moments < space_.moments.size(); ++moments) {
      const double added = sizes_at({.moments = moments, .micro_batch = largest}).seconds - first;
      for (size_t loss = 0; loss < space_.losses.size(); ++loss) {
        for (size_t recompute = 0; recompute < space_.recompute.size(); ++recompute) {
          const FitPlace place{0, loss, recompute, largest};
          const double seconds = sizes_at(place).seconds;
          found_.fastest_seconds = std::min(found_.fastest_seconds, seconds);
          list.push_back({seconds + added, {moments, loss, recompute, largest}});
        }
      }
    }
    std::ranges::stable_sort(list, {}, &Bound::seconds);
    return list;
  }

  bool fits(const FitPlace& place) { return !surely_too_large(place) && sizes_at(place).bytes <= limit_; }

  // Without compiling it: by what is known of the same program with other moments. Tensors' alignment and the
  // host's pages make the difference of two plans inexact.
  bool surely_too_large(const FitPlace& place) {
    constexpr int64_t kInexact = 8 << 20;
    const size_t largest = space_.micro_batch_sizes.size() - 1;
    int64_t least = sizes_at({.moments = place.moments, .micro_batch = largest}).fixed_bytes;
    const auto known = sizes_.find({0, place.loss, place.recompute, place.micro_batch});
    if (known != sizes_.end()) least += known->second.bytes - known->second.fixed_bytes;
    return least > limit_ + kInexact;
  }

  std::optional<FitPlace> largest_fitting(FitPlace place) {
    if (fits(place)) return place;  // a head in parts may need less with more rows
    size_t fitting = 0, too_large = place.micro_batch;
    while (fitting < too_large) {
      place.micro_batch = fitting + (too_large - fitting) / 2;
      if (fits(place))
        fitting = place.micro_batch + 1;
      else
        too_large = place.micro_batch;
    }
    if (fitting == 0) return std::nullopt;
    place.micro_batch = fitting - 1;
    return place;
  }

  // Other values of keys may make the same program, as parts of a head that is one part: no runner-up.
  static bool are_alike(const FitPlan& a, const FitPlan& b) {
    return a.bytes == b.bytes && a.host_bytes == b.host_bytes && a.seconds == b.seconds;
  }

  void take(const FitPlan& plan) {
    if (found_.best && are_alike(plan, *found_.best)) return;
    if (!found_.best || plan.seconds < found_.best->seconds) {
      found_.runner_up = std::exchange(found_.best, plan);
    } else if (!found_.runner_up || plan.seconds < found_.runner_up->seconds) {
      found_.runner_up = plan;
    }
  }

  FitPlan leanest() {
    const size_t largest = space_.micro_batch_sizes.size() - 1;
    size_t moments = 0;
    for (size_t i = 1; i < space_.moments.size(); ++i) {
      if (sizes_at({.moments = i, .micro_batch = largest}).fixed_bytes <
          sizes_at({.moments = moments, .micro_batch = largest}).fixed_bytes)
        moments = i;
    }
    std::optional<FitPlan> least;
    for (size_t loss = 0; loss < space_.losses.size(); ++loss) {
      for (size_t recompute = 0; recompute < space_.recompute.size(); ++recompute) {
        const FitPlace place{moments, loss, recompute, 0};
        const Sizes& sizes = sizes_at(place);
        if (!least || sizes.bytes < least->bytes) least = plan_of(place, sizes);
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
