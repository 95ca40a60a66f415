#include "emit/kernels/kernel_includes.h"

#include <set>

namespace hydrac::emit {

namespace {

bool draws_random_numbers(const std::string& kernels) {
  return kernels.find("random_") != std::string::npos;
}

bool has_dynamic_codes(const std::string& kernels) {
  return kernels.find("dynamic_") != std::string::npos;
}

bool has_nf4_codes(const std::string& kernels) {
  return kernels.find("nf4_upper") != std::string::npos;
}

bool keeps_rows(const std::string& kernels) {
  return kernels.find("RowBuffer") != std::string::npos;
}

}  // namespace

std::vector<std::string> kernel_includes(const program::Kernel& first, const std::string& definitions,
                                         bool cpu) {
  const bool is_generated = first.header.empty() || !first.maps.empty();  // or its epilogue is
  std::set<std::string> own;
  if (!first.header.empty()) own.insert(first.header);
  if (has_dynamic_codes(definitions)) own.insert("hydrac/dynamic_code.h");
  if (keeps_rows(definitions)) own.insert("hydrac/row_buffer.h");
  if (has_nf4_codes(definitions)) own.insert("hydrac/nf4.h");
  if (cpu) {
    std::vector<std::string> names;
    if (is_generated) names = {"<algorithm>", "<cmath>", ""};
    if (definitions.find("std::fill_n") != std::string::npos && !is_generated) names = {"<algorithm>", ""};
    if (is_generated) own.insert({"hydrac/math.h", "hydrac/random.h"});
    for (const std::string& name : own) names.push_back("\"" + name + "\"");
    return names;
  }
  if (first.waits_for_previous && definitions.find("wait_for_previous_kernel") != std::string::npos)
    own.insert("cuda/previous_kernel.cuh");
  if (first.header.empty()) own.insert("cuda/reduce.cuh");
  if (is_generated) own.insert("cuda/vector.cuh");
  if (draws_random_numbers(definitions)) own.insert("hydrac/random.h");
  own.insert("runtime/cuda/launch.cuh");
  if (!first.maps.empty()) own.insert("runtime/cuda/tensor_map.h");
  std::vector<std::string> names;
  for (const std::string& name : own) names.push_back("\"" + name + "\"");
  return names;
}

}  // namespace hydrac::emit
