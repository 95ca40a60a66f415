// The resources of a multiprocessor that each kernel takes, read from the assembler's report.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "targets/device_code/nvrtc.h"

namespace hydrac::device_code {

struct AssemblerReport {
  std::vector<KernelResources> kernels;  // by name
  std::string rest;  // the log's other lines: warnings and errors of the compiler and the assembler
};

// `log` is NVRTC's with ptxas's option -v, of NVRTC 12 or 13.
AssemblerReport read_assembler_report(std::string_view log);

}  // namespace hydrac::device_code
