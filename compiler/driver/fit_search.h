// The search of driver/fit.h: among all combinations of values of open keys, the one whose program fits a
// memory limit and takes the least predicted time (driver/prediction.h).
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "driver/compile.h"

namespace hydrac::driver {

// Place and format of the optimizer's moments.
struct MomentStorage {
  spec::Share on_host;
  spec::StateType type = spec::StateType::fp32;
  bool operator==(const MomentStorage&) const = default;
};

// One value of each key that planning may choose.
struct FitChoice {
  int64_t micro_batch_size = 1;
  passes::RecomputeChoice recompute;
  spec::LossKernel loss = spec::LossKernel::materialized;
  MomentStorage moments;
  bool operator==(const FitChoice&) const = default;
};

// The values that are tried; for a key that is not open, the spec's own. The first value wins a tie.
struct FitSpace {
  std::vector<int64_t> micro_batch_sizes;  // ascending; more than one only where the global batch is given
  std::vector<passes::RecomputeChoice> recompute;  // of any number of layers
  int fewest_layers = 1, most_layers = 1;          // in which something may be computed again
  std::vector<spec::LossKernel> losses;
  std::vector<MomentStorage> moments;
  // For each format, moments on the GPU and then the same on the host, where as many as fit stay on the GPU.
  bool keeps_moments = false;

  int64_t combinations() const {
    const auto recomputing = std::ranges::count_if(recompute, &passes::RecomputeChoice::any);
    return std::ssize(micro_batch_sizes) * std::ssize(losses) * std::ssize(moments) *
           (std::ssize(recompute) + recomputing * (most_layers - fewest_layers));
  }
};

// The plan's figures for a combination.
struct FitPlan {
  FitChoice choice;
  int64_t bytes = 0;       // of the GPU's memory, or of the cpu's
  int64_t host_bytes = 0;  // of a GPU's program
  double seconds = 0;      // of an optimizer step, predicted
};

struct FitFound {
  std::optional<FitPlan> best;  // nullopt: nothing fits
  // The second best, with another value of some key beside the micro-batch and the number of layers.
  std::optional<FitPlan> runner_up;
  FitPlan leanest;               // where nothing fits: the combination that needs the least memory
  double fastest_seconds = 0;    // with unlimited memory
  std::vector<FitPlan> planned;  // every program that was compiled, in that order
};

// Called before each compilation with the number of those before it.
using FitProgress = std::function<void(int64_t planned)>;

// The spec with the choice's values, ready to compile; `recompute` is a parameter of compile(). The
// micro-batch is the spec's own where that is not open.
spec::Spec with_choice(const spec::Spec& spec, const FitChoice& choice);

// If the first values of all keys fit with the largest micro-batch, they are taken and the spec stays as it
// is. Otherwise the search assumes four things. Memory grows with the micro-batch below the largest one; time
// does not. The memory and time of moments do not depend on the other keys. Every recomputing layer adds the
// same time, and saves at most what it does not keep.
FitFound search_fit(const spec::Spec& spec, const CompileOptions& options, const FitSpace& space,
                    int64_t limit_bytes, const FitProgress& progress = {});

}  // namespace hydrac::driver
