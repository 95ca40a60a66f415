// Parses emitted files before they are written: hydrac never writes code that does not parse, nor an unused
// parameter, variable or function.
#pragma once
#include <vector>

#include "specialize/parse.h"

namespace hydrac::specialize {

// A program's files, by the paths that they are written under and include each other by. *.cu and *.cuh are
// CUDA; other sources are C++. Each source (.cu, .cpp) is parsed and type checked with the headers it
// includes; a header that no source includes is parsed on its own.
//
// Two kinds of headers are not emitted. `runtime_headers` are the runtime's public headers, by the names in
// #include; they are checked like the program's own files. Standard headers come from this library's
// stand-ins (headers/std, headers/host), which declare what emitted programs and the runtime's public headers
// use; a missing one is reported like any other problem. So the result is the same on every machine, and
// needs no compiler or toolkit.
struct EmittedProgram {
  std::vector<SourceFile> files;
  std::vector<SourceFile> runtime_headers;
  int capability = 90;  // of the GPU, for CUDA
};

// std::logic_error, an internal error of hydrac, with each problem as file:line:column: message.
void check_parses(const EmittedProgram& program);

}  // namespace hydrac::specialize
