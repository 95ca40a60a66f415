// Estimates the time of a step from its work, to decide what is measured first and what is skipped. It has
// four prices: of a matmul's operation, of a byte, of a call, and of a byte over the bus. They start from the
// target's figures (driver/prediction.h) and are fitted to every measurement.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "driver/compile.h"

namespace hydrac::tune {

// Work of one optimizer step.
struct Work {
  double flop = 0;   // of matmuls and attention
  double bytes = 0;  // that all other calls move
  double calls = 0;
  double host_bytes = 0;  // that lie on the host
};
Work work_of(const driver::Compiled& compiled);

class CostModel {
 public:
  explicit CostModel(const targets::Target& target, spec::Precision precision);

  double seconds(const Work& work) const;
  void learn(const Work& work, double seconds);

 private:
  using Prices = std::array<double, 4>;
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
