// `hydrac bench --ablate`: which variants of a spec show what each of its optimizations is worth.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace hydrac::tune {

// A key of a spec that makes it faster or smaller.
struct Optimization {
  std::string name;   // "loss": what --combine calls it
  std::string key;    // "optimizations.loss"
  std::string plain;  // its value where nothing is optimized
  std::string value;  // the spec's
};

// A row of the table: overrides that are laid over the spec.
struct Variant {
  enum class Kind { baseline, as_is, without, with };
  Kind kind;
  std::string name;
  std::vector<std::string> overrides;
};

// The spec's optimizations beyond a plain fp32 program. `keys`: every key of the resolved spec, as JSON.
std::vector<Optimization> optimizations_of(const std::map<std::string, std::string>& keys);

// The variants, in order: the plain fp32 program; it with each optimization added; with each of
// `combinations` added; the spec; the spec without each optimization. A combination joins with "+" names of
// optimizations (with the spec's value) and KEY=VALUE, where KEY may omit "optimizations.":
// "loss+recompute=block+train.micro_batch_size=4". InputError for any other part.
std::vector<Variant> variants_of(const std::vector<Optimization>& optimizations,
                                 const std::map<std::string, std::string>& keys,
                                 const std::vector<std::string>& combinations);

// How much faster one row is than another, whose steps were measured in turns: one time of each a round.
struct Speedup {
  double median, least, most;  // over the rounds
  bool within_spread;          // the rows' times overlap, as those of one program measured twice do
};
Speedup speedup_of(const std::vector<double>& step_ms, const std::vector<double>& reference_ms);

}  // namespace hydrac::tune
