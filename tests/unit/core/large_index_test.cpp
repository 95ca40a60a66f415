// Index arithmetic far into tensors that are larger than what a float counts, over memory that is there only
// where it is touched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "compiled.h"
#include "hydrac/dynamic_code.h"
#include "hydrac/nf4.h"
#include "ir/evaluate_rows.h"
#include "ops/op.h"

namespace hydrac::test {
namespace {

constexpr int64_t kBlocksOfRow = 1024;
constexpr int64_t kRows = (int64_t{1} << 15) + 3;  // 2^25 blocks, 2^31 elements and some
constexpr int64_t kSecondPart = kRows - 2;         // its first row

// The body at rows of its own from `first` on.
ir::Body from_row(ir::Body body, int64_t first) {
  const auto move = [&](ir::Index& index) {
    for (ir::IndexDim& dim : index) {
      for (const auto& [variable, coefficient] : dim.affine.terms)
        dim.affine.constant += variable == 0 ? coefficient * first : 0;
    }
  };
  for (ir::Expr& expr : body.exprs) move(expr.index);
  for (ir::Store& store : body.stores) move(store.index);
  return body;
}

// codes, block_codes, groups and matrix of a matrix in two parts, each of whose groups count from its first
// block.
struct Matrix {
  ir::Graph graph;
  std::vector<ir::Use> tensors = {add("codes", {kRows, kBlocksOfRow* kNf4Block / 2}, ir::DType::u8),
                                  add("block_codes", {kRows, kBlocksOfRow}, ir::DType::u8),
                                  add("groups", {kRows * 4 + 1, 2}, ir::DType::f32),
                                  add("matrix", {kRows, kBlocksOfRow* kNf4Block}, ir::DType::f32)};

  ir::Use add(const std::string& name, const std::vector<int64_t>& sizes, ir::DType dtype) {
    ir::Value value;
    value.name = name;
    value.dtype = dtype;
    for (int64_t size : sizes) value.shape.push_back({size, ""});
    return {graph.add(std::move(value)), {}};
  }
  ir::Node node_from(int64_t first_row) const {
    ir::Node node{.op = ir::Op::dequantize_nf4,
                  .inputs = {tensors[0], tensors[1], tensors[2]},
                  .outputs = {tensors[3]}};
    node.attributes = {{"rows_0", kSecondPart}, {"rows_1", kRows - kSecondPart}};
    node.body =
        std::make_shared<const ir::Body>(from_row(ops::op_info(node.op).body(graph, node), first_row));
    node.op = ir::Op::fused;
    node.attributes = {{"name", std::string("dequantize")}};
    return node;
  }
};

int64_t group_of(int64_t row, int64_t block) {
  const int64_t flat = row * kBlocksOfRow + block, first = kSecondPart * kBlocksOfRow;
  return flat < first ? flat / kNf4Group : first / kNf4Group + (flat - first) / kNf4Group;
}

uint8_t code_of_zero() {
  uint32_t code = 0;
  while (signed_dynamic_value(code) != 0) ++code;
  return static_cast<uint8_t>(code);
}

// Every number is 1 times its group's mean, which is the group.
class Sparse : public ir::RowMemory {
 public:
  double load(int operand, int64_t offset) override {
    if (operand == 2) return static_cast<double>(offset / 2);
    return operand == 0 ? 0xFF : code_of_zero();
  }
  double& result(int, int64_t offset) override { return results[offset]; }

  std::map<int64_t, double> results;
};

TEST(DequantizeNf4, FindsGroupsBeyond2To24BlocksInTheInterpreter) {
  const Matrix matrix;
  for (const int64_t row : {int64_t{0}, kSecondPart - 1, kSecondPart, kRows - 1}) {
    Sparse memory;
    ir::evaluate_rows(
        *matrix.node_from(row).body,
        {{kBlocksOfRow * kNf4Block / 2, 1}, {kBlocksOfRow, 1}, {2, 1}, {kBlocksOfRow * kNf4Block, 1}}, 1, 0,
        memory);
    for (int64_t block = 0; block < kBlocksOfRow; ++block)
      ASSERT_EQ(memory.results.at((row * kBlocksOfRow + block) * kNf4Block), group_of(row, block));
  }
}

// Addresses of a tensor's elements; the pages that are touched become memory.
class Pages {
 public:
  explicit Pages(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        begin_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                    0)) {
    if (begin_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Pages() { munmap(begin_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(begin_);
  }

 private:
  const size_t bytes_;
  void* const begin_;
};

TEST(DequantizeNf4, FindsGroupsBeyond2To24BlocksInPrintedCode) {
  const Pages codes(kRows * kBlocksOfRow * kNf4Block / 2), block_codes(kRows * kBlocksOfRow),
      groups((kRows * 4 + 1) * 8), numbers(kRows * kBlocksOfRow * kNf4Block * 4);
  for (int64_t group = 0; group <= kRows * 4; ++group)
    groups.as<float>()[2 * group + 1] = static_cast<float>(group);
  void* arguments[] = {codes.as<void>(), block_codes.as<void>(), groups.as<void>(), numbers.as<void>()};
  for (const int64_t row : {int64_t{0}, kSecondPart - 1, kSecondPart, kRows - 1}) {
    std::memset(codes.as<uint8_t>() + row * kBlocksOfRow * kNf4Block / 2, 0xFF, kBlocksOfRow * kNf4Block / 2);
    std::memset(block_codes.as<uint8_t>() + row * kBlocksOfRow, code_of_zero(), kBlocksOfRow);
    Matrix matrix;
    matrix.graph.functions.push_back({"f", {{"only", 0, false, false, {matrix.node_from(row)}}}});
    const program::Program program = codegen::build_cpu_program(matrix.graph, 1);
    const CompiledKernels compiled(codegen::cpu_source(matrix.graph, program));
    compiled.find(program.kernels[0].name)(arguments, 0, 1);
    for (int64_t block = 0; block < kBlocksOfRow; ++block)
      ASSERT_EQ(numbers.as<float>()[(row * kBlocksOfRow + block) * kNf4Block], group_of(row, block)) << row;
  }
}

}  // namespace
}  // namespace hydrac::test
