// A call: one piece of a program's work, and its tensors. What it does is one of a few alternatives, and each
// says what the call's arguments are. Readers visit them with a handler for each (Overloaded), so that one
// that does not know a new alternative does not compile.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ops/attention_rules.h"
#include "program/queues.h"
#include "runtime/parallel/collective.h"

namespace hydrac::program {

// The blocks of one launch; on the cpu a block is a row.
struct Grid {
  int64_t blocks = 1;
  std::string text;  // as an expression of Program::dimensions: "B * T / 4"
  std::string rows;  // of the rows that the launch works on, likewise: "B * T"
  bool operator==(const Grid&) const = default;
};

// C[m,n] = op(A) op(B) (+ bias[n]) (+ C), row-major and dense, accumulated in float32.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;  // matmuls of matrices that lie side by side, see runtime/batch_stride.h
  // Matmuls of so many groups of rows, whose sum m is, or k where A is transposed: rows offsets[g] to
  // offsets[g + 1] of A with matrix g of B, or of A and B into matrix g of C. 0: one matmul. On the cpu.
  int64_t groups = 0;
  bool row_by_row = false;  // of groups: a row's bits do not depend on the other rows
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;        // adds to what C holds
  bool first_overwrites = false;  // but not in the first iteration of the call's section
  bool bias = false;              // adds a row of C's type
  bool beside = false;            // runs on the side queue
  bool fast_sums = false;         // of 8-bit operands: sums keep the few bits that the matrix units add with
  ir::DType a = ir::DType::f32, b = ir::DType::f32, c = ir::DType::f32;

  bool is_f8() const { return ir::is_f8(a); }
  bool accumulates(int iteration) const { return accumulate && !(first_overwrites && iteration == 0); }
  auto operator<=>(const GemmShape&) const = default;
};

// softmax(scores of q k^T, masked) v or its gradients. Strides in elements; the last dimension is contiguous.
// lse is float [B,H,T].
struct AttentionShape {
  struct Strides {
    int64_t batch = 0, token = 0, head = 0;
    auto operator<=>(const Strides&) const = default;
  };
  bool backward = false;
  int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 0, dropout = 0;
  ops::AttentionRules rules;
  ir::DType dtype = ir::DType::bf16;
  bool fp8 = false;  // the forward pass has matmuls of 8 bits
  Strides q, k, v, out, d_out, d_q, d_k, d_v;
  auto operator<=>(const AttentionShape&) const = default;
};

// The alternatives. Templates name a call's arguments: T is ir::Use, or what a reader has made of each of
// them, such as a pointer; what a call does not have is a T{}.

// A kernel of the program; arguments in the order of its parameters.
struct Launch {
  int kernel = -1;  // position in Program::kernels
  Grid grid;
  std::optional<GemmShape> matmul;  // where the kernel computes one matmul, of its first two arguments
};

// A matmul, by a library. Arguments: A, B, C. Of groups then the offsets, i32 [groups + 1]. On a GPU a
// workspace, the bias if there is one, and of 8-bit operands what A's and B's elements are multiplied by.
struct Gemm {
  GemmShape shape;

  template <typename T>
  struct Operands {
    T a, b, c, offsets = {}, workspace = {}, bias = {}, a_scale = {}, b_scale = {};
  };
  template <typename T>
  Operands<T> operands(const std::vector<T>& arguments) const {
    Operands<T> named{arguments.at(0), arguments.at(1), arguments.at(2)};
    size_t next = 3;
    if (shape.groups > 0) named.offsets = arguments.at(next++);
    if (arguments.size() > next) named.workspace = arguments[next++];
    if (shape.bias) named.bias = arguments.at(next++);
    if (shape.is_f8()) {
      named.a_scale = arguments.at(next++);
      named.b_scale = arguments.at(next++);
    }
    return named;
  }
};

// Attention, by cuDNN. Arguments: q, k, v, out, lse, workspace; of gradients d_out, out, lse, q, k, v, d_q,
// d_k, d_v, workspace. A GPU's.
struct Attention {
  AttentionShape shape;

  template <typename T>
  struct Tensors {
    T q, k, v, out, lse, workspace, d_out = {}, d_q = {}, d_k = {}, d_v = {};
  };
  template <typename T>
  Tensors<T> tensors(const std::vector<T>& a) const {
    if (!shape.backward) return {a.at(0), a.at(1), a.at(2), a.at(3), a.at(4), a.at(5)};
    return {a.at(3), a.at(4), a.at(5), a.at(1), a.at(2), a.at(9), a.at(0), a.at(6), a.at(7), a.at(8)};
  }
};

// The tensor whose bytes become zero. A GPU's.
struct Zero {};

template <typename T>
struct FromTo {
  T from, to;
};

// A dense tensor, and where it is copied to; one of them is in the host's memory. A GPU's.
struct Copy {
  template <typename T>
  FromTo<T> tensors(const std::vector<T>& arguments) const {
    return {arguments.at(0), arguments.at(1)};
  }
};

// A call that ranks carry out together. Arguments: dense tensors that it reads, then as many, of the same
// types, that it makes of them; in place, those that it changes.
struct Collective : runtime::Collective {
  bool in_place = false;

  template <typename T>
  std::vector<FromTo<T>> tensors(const std::vector<T>& arguments) const {
    const size_t count = in_place ? arguments.size() : arguments.size() / 2;
    std::vector<FromTo<T>> pairs;
    for (size_t i = 0; i < count; ++i) pairs.push_back({arguments[i], arguments[in_place ? i : count + i]});
    return pairs;
  }
  // The one of which each rank has a part; of an all_reduce both are whole.
  template <typename T>
  T part(const FromTo<T>& tensor) const {
    return reads_parts() ? tensor.from : tensor.to;
  }
};

struct Call {
  using Work = std::variant<Launch, Gemm, Attention, Zero, Copy, Collective>;
  Work work;
  std::vector<ir::Use> arguments;
  std::vector<bool> writes;  // which of them; empty on cpu
  // The tensors among the arguments that it reads and those that it makes; scratch memory is neither.
  std::vector<ir::Use> operands, results;
  Queue queue = Queue::main;
  bool multiplies_matrices = false;  // a matmul, or attention whoever computes it
  bool multiplies_fp8 = false;       // attention whose matmuls are of 8 bits
  double flop = 0;
  double bytes = 0;    // each operand once
  std::string label;   // what it is in the model: "attn.qkv", "d_mlp.up"
  std::string origin;  // the spec key that asked for it
};

// Handlers of a visit, one for each alternative.
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

template <typename Alternative>
bool is(const Call& call) {
  return std::holds_alternative<Alternative>(call.work);
}

bool is(const Call& call, runtime::Collective::Kind kind);

// True if ranks exchange its tensors.
bool is_collective(const Call& call);

// The group of ranks whose tensors it works on; none where it knows only its own.
std::optional<runtime::RankGroup> ranks_of(const Call& call);

// The one matmul that it computes, by a library or by a kernel of ours; null of other calls.
const GemmShape* matmul_of(const Call& call);

}  // namespace hydrac::program
