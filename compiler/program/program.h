// The Program: what runs, call by call. The only truth that running and emitting share.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hydrac::program {

struct Kernel {
  std::string name;
  std::string comment;
  std::string text;    // its definition
  std::string origin;  // the spec key that asked for it
};

// C[m,n] = op(A) op(B) + beta * C, float32, row-major and dense.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;        // beta = 1
  bool first_overwrites = false;  // but 0 in the first iteration of the call's section

  bool accumulates(int iteration) const { return accumulate && !(first_overwrites && iteration == 0); }
};

struct Call {
  enum class Kind { launch, gemm } kind = Kind::launch;
  int kernel = -1;                 // launch: position in Program::kernels
  std::vector<ir::Use> arguments;  // launch: in the kernel's order; gemm: A, B, C
  GemmShape gemm;
  double flop = 0;
  double bytes = 0;   // each operand once
  std::string label;  // what it is in the model: "attn.qkv", "d_mlp.up"
};

// Calls that run one after another, once or once a layer.
struct Section {
  std::string name;
  int layers = 0;
  bool reverse = false;
  std::vector<Call> calls;
};

struct Function {
  std::string name;
  std::vector<Section> sections;
};

struct Program {
  std::vector<Kernel> kernels;
  std::vector<Function> functions;
};

// Our own bugs: calls to kernels that do not exist, arguments without storage, products whose shapes do not
// fit.
std::vector<std::string> verify(const ir::Graph& graph, const Program& program);

std::string to_text(const ir::Graph& graph, const Program& program);

}  // namespace hydrac::program
