// The Program: what runs, call by call. The only truth that running and emitting share.
#pragma once
#include <compare>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/attention_rules.h"

namespace hydrac::program {

// A block of a GPU's kernel: its threads, and the dynamic shared memory that it needs.
struct Block {
  int threads = 1;
  int64_t shared_bytes = 0;
  auto operator<=>(const Block&) const = default;
};

// The blocks of one launch.
struct Grid {
  int64_t blocks = 1;
  std::string text;  // as an expression of Program::dimensions: "B * T / 4"
  std::string rows;  // of the rows that the launch works on, likewise: "B * T"
  bool operator==(const Grid&) const = default;
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
  std::vector<Parameter> parameters = {};  // as the text declares them
  // Waits itself for the kernel before it, so that it may be launched while that one still runs.
  bool waits_for_previous = false;
  Block block;  // on a GPU
  // Of its first arguments: it takes these as tensor maps.
  std::vector<MatrixMap> maps = {};
  // How many blocks work on `rows` rows, as an expression of them: "rows / 4". Empty where the text itself
  // says the rows, so that all calls have the same grid.
  std::string blocks_of_rows;
  // On a GPU: what its text relies on, as conditions on dimensions, on constants of the namespace NAME_sizes
  // that it begins with, and on `rows`.
  std::set<std::string> bounds = {};
};

// C[m,n] = op(A) op(B) (+ bias[n]) (+ C), row-major and dense, accumulated in float32.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;  // matmuls of matrices that lie side by side, see runtime/batch_stride.h
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;        // adds to what C holds
  bool first_overwrites = false;  // but not in the first iteration of the call's section
  bool bias = false;              // adds a row of C's type
  bool beside = false;            // runs on the second branch
  bool fast_sums = false;         // of 8-bit operands: sums keep the few bits that the matrix units add with
  ir::DType a = ir::DType::f32, b = ir::DType::f32, c = ir::DType::f32;

  bool is_f8() const { return ir::is_f8(a); }
  bool accumulates(int iteration) const { return accumulate && !(first_overwrites && iteration == 0); }
  auto operator<=>(const GemmShape&) const = default;
};

// softmax(scores of q k^T, masked) v or its gradients, by a library. Strides in elements; the last dimension
// is contiguous. lse is float [B,H,T].
struct AttentionCall {
  struct Strides {
    int64_t batch = 0, token = 0, head = 0;
    auto operator<=>(const Strides&) const = default;
  };
  bool backward = false;
  int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 0, dropout = 0;
  ops::AttentionRules rules;
  ir::DType dtype = ir::DType::bf16;
  Strides q, k, v, out, d_out, d_q, d_k, d_v;
  auto operator<=>(const AttentionCall&) const = default;
};

struct Call {
  enum class Kind {
    launch,
    gemm,
    attention,
    zero,
    all_reduce,
    reduce_scatter,
    all_gather,
    own_part,
    sum_over_ranks,
    copy
  };

  bool multiplies_one_matmul() const { return gemm.m > 0; }
  // Whether its tensors are whole ones and a rank's parts of them.
  bool has_parts() const {
    return kind == Kind::reduce_scatter || kind == Kind::all_gather || kind == Kind::own_part;
  }
  // Whether ranks exchange its tensors.
  bool is_collective() const {
    return kind == Kind::all_reduce || kind == Kind::sum_over_ranks ||
           (has_parts() && kind != Kind::own_part);
  }

  Kind kind = Kind::launch;
  int kernel = -1;  // launch: position in Program::kernels
  // launch: in the kernel's order. gemm: A, B, C, workspace, then the bias if there is one, then of 8-bit
  // operands what A's and B's elements are multiplied by (a GPU's; the cpu's are A, B, C). attention: q, k,
  // v, out, lse, workspace; backward: d_out, out, lse, q, k, v, d_q, d_k, d_v, workspace. zero: the tensor
  // whose bytes become zero; a GPU's. all_reduce: the dense tensors that become their sums over all ranks; on
  // the cpu of f32. reduce_scatter, own_part: dense tensors, then as many that become a part of the first
  // ones' sums over ranks, or of themselves: rank r's is the r-th. all_gather: such parts, then the tensors
  // that become all ranks' parts. sum_over_ranks: a tensor, then the one that becomes the sum of all ranks'.
  // copy: a dense tensor and where it is copied to, one of them in the host's memory; a GPU's.
  std::vector<ir::Use> arguments;
  std::vector<bool> writes;  // which of them; empty on cpu
  Grid grid;                 // launch: on a GPU
  // Of the arguments, the tensors that it reads and those that it makes; scratch memory is neither.
  std::vector<ir::Use> operands, results;
  int branch = 0;          // of a GPU's graph: see branches.h
  bool largest = false;    // all_reduce: the largest of the ranks' numbers instead of their sum
  bool of_tensor = false;  // of a collective or own_part: its ranks are those that share layers
  GemmShape gemm;          // also of a launch whose kernel computes one matmul: what it multiplies
  AttentionCall attention;
  bool multiplies_matrices = false;  // a matmul, or attention whoever computes it
  double flop = 0;
  double bytes = 0;    // each operand once
  std::string label;   // what it is in the model: "attn.qkv", "d_mlp.up"
  std::string origin;  // the spec key that asked for it
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
  std::vector<Dimension> dimensions;  // std::int64_t constants that kernels' texts may name
  std::vector<Kernel> kernels;
  std::vector<Function> functions;
};

// Whether a kernel is a template's alone, whose products and sums may contract. Generated text never does, so
// that fusing changes no result.
bool may_contract(const Kernel& kernel);

// The grids with which a kernel is launched, each once, in the order of the program.
std::vector<Grid> grids_of(const Program& program, int kernel);

// "gemm NT 8192x768x3072", or the kernel's name.
std::string name_of(const Program& program, const Call& call);

// Of a call that has_parts(): a tensor, and the part that a rank has of it.
struct Shared {
  ir::Use whole, part;
};
std::vector<Shared> shared_tensors(const Call& call);

// Our own bugs: calls to kernels that do not exist, arguments without storage, matmuls whose shapes do not
// fit.
std::vector<std::string> verify(const ir::Graph& graph, const Program& program);

std::string to_text(const ir::Graph& graph, const Program& program);

// A kernel as it stands in source code: its comment's lines, then its text, in namespace hydrac.
std::string definition_text(const Kernel& kernel);

}  // namespace hydrac::program
