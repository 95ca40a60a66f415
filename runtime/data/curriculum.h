// Easier sequences first: competence-based curriculum learning (Platanios et al., NAACL 2019) over sequences
// that are in order of difficulty.
#pragma once
#include <cstdint>

namespace hydrac::runtime {

// The order from easy to hard.
enum class CurriculumOrder { file, length, rarity };

// The samples of step t = 0, 1, ..., steps - 1 are drawn, with replacement, from the first share
// c(t) = sqrt(t (1 - start^2) / steps + start^2) of the sequences. Those behind are of epochs.
struct Curriculum {
  int64_t steps = 0;  // optimizer steps; 0: there is no curriculum
  double start = 1;   // above 0, at most 1
  CurriculumOrder by = CurriculumOrder::file;
  int64_t samples_per_step = 0;  // of an optimizer step, over all ranks

  int64_t samples() const { return steps * samples_per_step; }  // that are drawn
  bool draws(int64_t sample) const { return sample < samples(); }
  // c(t) of the sample's step; 0 where it is not drawn.
  double share(int64_t sample) const;
  // Index, among `count` sequences in order of difficulty, of a drawn sample: a function of the seed and the
  // sample's number. There always is one to draw from.
  int64_t draw(int64_t sample, int64_t count, uint64_t seed) const;
};

}  // namespace hydrac::runtime
