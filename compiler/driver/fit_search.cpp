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
      const std::optional<FitPlace> fitting = largest_fitting(bound.place);
      if (const auto fastest = fitting ? fastest_from(*fitting) : std::nullopt) take(*fastest);
    }
    if (!found_.best) found_.leanest = leanest();
    return std::move(found_);
  }

 private:
  struct Sizes {
    int64_t bytes = 0, host_bytes = 0;
    int64_t fixed_bytes = 0;  // which no micro-batch changes
    double seconds = 0;
    double least_seconds = 0;  // with as many moments on the GPU as any micro-batch leaves room for
    spec::Share on_host;       // moments
  };
  // No micro-batch with these values takes less time.
  struct Bound {
    double seconds = 0;
    FitPlace place;
  };

  bool keeps_moments(const FitPlace& place) const {
    return space_.keeps_moments && space_.moments[place.moments].on_host.any();
  }

  FitChoice choice_at(const FitPlace& place) const {
    return {space_.micro_batch_sizes[place.micro_batch], space_.recompute[place.recompute],
            space_.losses[place.loss], space_.moments[place.moments]};
  }

  FitPlan plan_of(const FitPlace& place, const Sizes& sizes) const {
    FitChoice choice = choice_at(place);
    choice.moments.on_host = sizes.on_host;
    return {choice, sizes.bytes, sizes.host_bytes, sizes.seconds};
  }

  // Of the plan with all moments on the host, what it is where as many as fit stay on the GPU.
  void keep_moments(const Compiled& c, Sizes& sizes) const {
    const int64_t moments = bytes_on_host(c, ir::Role::optimizer_state);
    const auto share_of = [&](int64_t used) {  // on the host, where the rest uses so much of the GPU
      const auto room = static_cast<double>(std::max<int64_t>(limit_ - used, 0));
      const double share = std::max(1 - room / static_cast<double>(moments), 0.0);
      return std::min(std::ceil(kShares * share) / kShares, 1.0);
    };
    const double seconds_of_all = seconds_over_bus(c, moments);
    sizes.least_seconds = sizes.seconds - (1 - share_of(sizes.fixed_bytes)) * seconds_of_all;
    sizes.on_host = std::max(share_of(sizes.bytes), 1 / kShares);
    const auto kept =
        static_cast<int64_t>((1 - sizes.on_host) * static_cast<double>(moments)) / plan::kPage * plan::kPage;
    sizes.bytes += kept;
    sizes.host_bytes -= kept;
    sizes.seconds -= seconds_over_bus(c, kept);
  }

  const Sizes& sizes_at(const FitPlace& place) {
    const auto [entry, is_new] = sizes_.try_emplace(place);
    if (!is_new) return entry->second;
    if (progress_) progress_(std::ssize(found_.planned));
    const FitChoice choice = choice_at(place);
    const Compiled c = compile(with_choice(spec_, choice), choice.recompute, options_);
    const double seconds = predicted_seconds(c);
    Sizes& sizes = entry->second;
    sizes = {c.plan.device_bytes(),
             c.plan.host_bytes,
             c.plan.persistent_bytes - c.plan.input_bytes,
             seconds,
             seconds,
             choice.moments.on_host};
    if (keeps_moments(place)) keep_moments(c, sizes);
    found_.planned.push_back(plan_of(place, entry->second));
    return entry->second;
  }

  // The fastest first.
  std::vector<Bound> bounds(size_t largest) {
    const double first = sizes_at({.micro_batch = largest}).seconds;
    std::vector<Bound> list;
    for (size_t moments = 0; moments < space_.moments.size(); ++moments) {
      const double added = sizes_at({.moments = moments, .micro_batch = largest}).least_seconds - first;
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

  // With this micro-batch or a smaller one, which takes longer but leaves room for more moments. Nullopt
  // where all of them have room.
  std::optional<FitPlan> fastest_from(FitPlace place) {
    if (!keeps_moments(place)) return plan_of(place, sizes_at(place));
    std::optional<FitPlan> fastest;
    for (size_t sizes = place.micro_batch + 1; sizes > 0; --sizes) {
      place.micro_batch = sizes - 1;
      FitPlace all_on_gpu = place;
      --all_on_gpu.moments;  // FitSpace::moments
      if (fits(all_on_gpu)) break;
      const FitPlan plan = plan_of(place, sizes_at(place));
      if (!fastest || plan.seconds < fastest->seconds) fastest = plan;
    }
    return fastest;
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
