// How long a step will take, guessed from its work: what is worth measuring first, and what not at all. Three
// prices, of an operation of a matmul, of a byte, and of a call, begin at what the target's peaks say and are
// fitted to every measurement.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "driver/compile.h"

namespace hydrac::tune {

// Of one optimizer step.
struct Work {
  double flop = 0;   // of matmuls and attention
  double bytes = 0;  // that all other calls move
  double calls = 0;
};
Work work_of(const driver::Compiled& compiled);

class CostModel {
 public:
  explicit CostModel(const targets::Target& target, spec::Precision precision);

  double seconds(const Work& work) const;
  void learn(const Work& work, double seconds);

 private:
  using Prices = std::array<double, 3>;
  void fit();

  Prices prior_;
  Prices prices_;
  struct Measured {
    Work work;
    double seconds;
  };
  std::vector<Measured> measured_;
};

}  // namespace hydrac::tune
