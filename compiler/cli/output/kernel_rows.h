// The table of `hydrac bench`: where the time of a program's functions goes.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/floor.h"
#include "targets/executable/executable.h"

namespace hydrac::cli {

// A function of the program, which a step calls so many times.
struct TimedFunction {
  std::string name;
  int64_t times = 1;
};

// All calls of a step with the same name and label.
struct KernelRow {
  std::string name, label;
  int calls = 0;
  double seconds = 0, flop = 0, bytes = 0;
  double floor = 0;  // seconds that the machine's peaks would take for its flop, or for its bytes
};

// Runs each function, call by call, several times. The rows that take longest come first.
std::vector<KernelRow> kernel_rows(targets::Executable& program, const std::vector<TimedFunction>& functions,
                                   const driver::Peaks& peaks);

nlohmann::ordered_json rows_json(const std::vector<KernelRow>& rows);
void print_rows(const std::vector<KernelRow>& rows);

}  // namespace hydrac::cli
