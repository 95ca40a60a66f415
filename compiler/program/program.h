// The Program: what runs, call by call. The only truth that running and emitting share.
#pragma once
#include <compare>
#include <set>
#include <string>
#include <vector>

#include "program/call.h"

namespace hydrac::program {

// A block of a GPU's kernel: its threads, and the dynamic shared memory that it needs.
struct Block {
  int threads = 1;
  int64_t shared_bytes = 0;
  auto operator<=>(const Block&) const = default;
};

// A size of the model that kernels' texts name: "B", 64.
struct Dimension {
  std::string symbol;
  int64_t size = 0;
};

// A matrix that a kernel reads through a tensor map (cuda/tensor_map.h) instead of a pointer:
// row-major, dense, of 16-bit numbers, in boxes whose rows are swizzled by 128 bytes.
struct MatrixMap {
  ir::DType dtype = ir::DType::bf16;
  int64_t rows = 0, columns = 0;
  int box_rows = 0, box_columns = 0;
  std::string box = {};  // both as the kernel's constants say them: "kBoxRows, kDepth"
  auto operator<=>(const MatrixMap&) const = default;
};

struct Parameter {
  std::string type;  // "const bf16*"
  std::string name;
  std::string shape = {};      // of a tensor: "[B,T,C]"
  bool is_restricted = false;  // nothing else reaches what it points to
};

struct Kernel {
  std::string name;
  std::string comment;
  std::string text;                               // its definition
  std::set<std::string, std::less<>> names = {};  // that the text refers to and does not declare: dimensions
  std::string origin;                             // the spec key that asked for it
  std::string header;       // the file of templates/ that it binds to constants; empty for a generated kernel
  bool takes_layer = true;  // its last parameter is the layer
  bool takes_rows = false;  // on the cpu: then comes how many rows it works on, which its calls say (Grid)
  std::vector<Parameter> parameters = {};  // as the text declares them
  // Waits itself for the kernel before it, so that it may be launched while that one still runs.
  bool waits_for_previous = false;
  Block block;  // on a GPU
  // Maps of its first arguments: it takes these as tensor maps.
  std::vector<MatrixMap> maps = {};
  // The number of blocks for `rows` rows, as an expression: "rows / 4". Empty if the kernel's text contains
  // the number of rows, so that all calls have the same grid.
  std::string blocks_of_rows;
  // On a GPU: conditions that the text relies on, over dimensions, over the constants of the namespace
  // NAME_sizes before the kernel, and over `rows`.
  std::set<std::string> bounds = {};
};

// Calls that run one after another, once or once a layer.
struct Section {
  std::string name;
  int layers = 0;
  bool reverse = false;
  std::vector<Call> calls;
  int first_layer = 0;  // see ir::Region
};

struct Function {
  std::string name;
  std::vector<Section> sections;
};

struct Program {
  std::vector<Dimension> dimensions;    // std::int64_t constants that kernels' texts may name,
  std::vector<ir::SpecNumber> numbers;  // and those of their namespace hyper
  std::vector<Kernel> kernels;
  std::vector<Function> functions;
};

// True if the kernel is a template's alone, in which a product and a sum may contract to an fma. Generated
// text never contracts, so that fusing changes no result.
bool may_contract(const Kernel& kernel);

// The grids with which a kernel is launched, each once, in the order of the program.
std::vector<Grid> grids_of(const Program& program, int kernel);

// "gemm NT 8192x768x3072", or the kernel's name.
std::string name_of(const Program& program, const Call& call);

// Our own bugs: calls to kernels that do not exist, arguments without storage, matmuls whose shapes do not
// fit.
std::vector<std::string> verify(const ir::Graph& graph, const Program& program);

std::string to_text(const ir::Graph& graph, const Program& program);

// A kernel as it stands in source code: its comment's lines, then its text, in namespace hydrac.
std::string definition_text(const Kernel& kernel);

}  // namespace hydrac::program
