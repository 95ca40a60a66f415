// How long steps take, from the steps' own times alone: evaluating and saving are not in them.
#pragma once
#include <cstdint>
#include <vector>

namespace hydrac::runtime {

// Since some fixed moment; never goes backwards.
double monotonic_seconds();

class SpeedMeter {
 public:
  void add(double seconds);

  // Mean over the last `steps` steps, or as many as there were; 0 before the first.
  double mean_seconds(int64_t steps) const;
  // Median over the last kWindow steps, without the session's first, which warms up caches and threads,
  // unless it is the only one; 0 before the first.
  double median_seconds() const;

 private:
  static constexpr int64_t kWindow = 1024;  // bounds the memory of endless runs

  std::vector<double> ring_;  // the seconds of step n of the session at n % kWindow
  int64_t count_ = 0;         // steps of the session
};

}  // namespace hydrac::runtime
