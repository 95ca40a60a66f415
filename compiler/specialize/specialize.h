// Makes of templates and the constants that a program gives them one piece of plain source, as if it had been
// written for these constants.
#pragma once
#include <string>
#include <vector>

#include "specialize/parse.h"

namespace hydrac::specialize {

struct SpecializeRequest {
  // What instantiates: kernels or functions over the headers, such as a __global__ wrapper. All that it
  // declares is kept.
  SourceFile entry;
  std::vector<SourceFile> headers = template_headers();
  // Those of `headers` that stay #include lines; the others are specialized into the text.
  std::vector<std::string> library = {"cuda/previous_kernel.cuh", "cuda/reduce.cuh", "cuda/types.cuh",
                                      "cuda/vector.cuh",          "hydrac/math.h",   "hydrac/random.h"};
  Dialect dialect = Dialect::cuda;
  // For cuda: code for other architectures is left out. For cpp the text serves every processor.
  int capability = 90;
  // The namespace that everything lies in, instead of the templates' `hydrac::cuda` or `hydrac::cpu`. It must
  // be one within `hydrac`, whose names the text uses unqualified.
  std::string scope;
};

// A parameter that has one value wherever the entry's code reaches becomes a named constant (`kHeadDim`) or
// the type it stands for; one that varies stays a template parameter. Conditions that are constant then are
// pruned, what nothing uses is dropped, comments stay, macros of the templates are expanded. Formatted.
// Computes the same bits. Throws std::logic_error, with the places, when the entry does not parse, or the
// result would not.
std::string specialize(const SpecializeRequest& request);

}  // namespace hydrac::specialize
