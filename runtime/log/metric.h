// A number that a program or an objective reports of a step under a name of its own.
#pragma once
#include <string>

namespace hydrac::runtime {

struct MetricText {
  std::string name;    // its key in metrics.jsonl; TensorBoard shows it as "group/name"
  std::string label;   // on the line of progress, before the number; "" leaves it out there
  int decimals = 0;    // of the number on that line
  int importance = 0;  // a line that is too long loses what has least
  std::string group = "train";
};

struct Metric {
  MetricText text;
  double value = 0;
};

}  // namespace hydrac::runtime
