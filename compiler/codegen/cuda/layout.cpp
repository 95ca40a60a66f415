#include "codegen/cuda/layout.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "codegen/cuda/matmul.h"

namespace hydrac::codegen {

using ir::Body;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

namespace {

// The most threads that a multiprocessor runs at once.
int threads_of_sm(int capability) {
  if (capability < 80) return 1024;
  const bool is_of_servers = capability == 80 || capability == 90 || capability == 100 || capability == 103;
  return is_of_servers ? 2048 : 1536;
}

constexpr int64_t kSharedBesideRows = 2048;  // of a block: its reductions, and what the system takes

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t power_of_two_in(int64_t n) {
  return n & -n;
}

ir::Use use_of(const ir::Node& node, int operand) {
  const ir::Operand& o = node.body->operands[operand];
  return o.output >= 0 ? node.outputs[o.output] : node.inputs[o.input];
}

}  // namespace

namespace {

// The element of a pair that a dimension's index means, 2c or 2c + 1 of column c; nullopt if it means others,
// or if the tensor ends between the two.
std::optional<int> parity_of(const Body& body, const ir::IndexDim& index, int column, int64_t size) {
  const auto& terms = index.affine.terms;
  if (index.gather >= 0 || terms.size() != 1 || terms[0] != std::pair{column, int64_t{2}} ||
      index.affine.constant < 0 || 2 * body.variables[column].size + index.affine.constant / 2 * 2 > size)
    return std::nullopt;
  return static_cast<int>(index.affine.constant % 2);
}

}  // namespace

ColumnAccess column_access(const ir::Graph& graph, const ir::Node& node, int operand, const ir::Index& index,
                           int space, const std::vector<ir::Dependence>& deps) {
  const Body& body = *node.body;
  const ir::Value& value = graph.value(use_of(node, operand));
  const ir::View view = resolved_view(graph, value.id);
  const int inner = body.spaces[space].back();
  // The greatest common divisor of everything that moves the address of a chunk's first element; slots of a
  // storage are aligned by themselves.
  int64_t common = std::gcd(view.offset, value.slots > 1 ? view.slot_stride : 0);
  ir::Affine flat;
  for (size_t d = 0; d < index.size(); ++d) {
    flat = flat + index[d].affine * view.strides[d];
    if (index[d].gather < 0) continue;
    if (deps[index[d].gather].space != kRowSpace) return {ColumnAccess::Kind::gathered, 1};
    common = std::gcd(common, view.strides[d]);
  }
  std::optional<int> parity;
  if (!index.empty() && view.strides.back() == 1)
    parity = parity_of(body, index.back(), inner, value.shape.back().size);
  common = std::gcd(common, flat.constant - parity.value_or(0));
  int64_t step = 0;
  for (const auto& [variable, coefficient] : flat.terms) {
    if (variable == inner) {
      step = coefficient;
    } else if (body.variables[variable].size > 1) {
      common = std::gcd(common, coefficient);
    }
  }
  if (step == 0) return {ColumnAccess::Kind::constant, 1};
  if (step != 1 && !(step == 2 && parity)) return {ColumnAccess::Kind::scattered, 1};
  const int64_t most = 16 / size_of(value.dtype);
  const int64_t width = common == 0 ? most : std::min(most, power_of_two_in(common));
  const auto kind = step == 1 ? ColumnAccess::Kind::consecutive : ColumnAccess::Kind::pairs;
  return {kind, static_cast<int>(width), parity.value_or(0)};
}

namespace {

class Planner {
 public:
  Planner(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu)
      : graph_(graph),
        node_(node),
        body_(*node.body),
        deps_(dependences(body_)),
        live_(live_expressions(body_)),
        sms_(gpu.sms),
        shared_bytes_(cuda::shared_bytes_of_sm(gpu.capability)),
        capability_(gpu.capability) {
    for (const Stage& stage : stages_of(body_, deps_, live_)) {
      has_row_stores_ |= !stage.row_stores.empty();
      for (const Loop& loop : stage.loops) {
        used_.insert(loop.space);
        has_reductions_ |= !loop.reductions.empty();
      }
    }
    for (const Store& store : body_.stores) has_sums_ |= is_sum(store.kind);
  }

  CudaLayout run() {
    for (size_t s = 0; s < body_.spaces.size(); ++s)
      layout_.columns.push_back(columns_of(static_cast<int>(s)));
    const bool one_space = used_.size() <= 1;
    if (has_sums_ && !has_reductions_ && !has_row_stores_ && used_.size() == 1) {
      lay_out_tiles();
    } else if (!has_sums_ && !has_reductions_ && one_space && !shares_rows()) {
      layout_.rows = 256;
      for (int space : used_) {
        ColumnLayout& columns = layout_.columns[space];
        if (moves_mostly_32_bits(space)) columns.vector = std::min(columns.vector, 4);
      }
    } else {
      lay_out_rows();
    }
    return layout_;
  }

 private:
  // True if a row value comes from memory that a thread of the row writes: then the row's threads must be
  // able to synchronize.
  bool shares_rows() const {
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      if (!live_[i] || body_.exprs[i].op != ExprOp::load || deps_[i].space != kRowSpace) continue;
      const ir::ValueId memory = storage_of(graph_, use_of(node_, body_.exprs[i].operand).value);
      for (const Store& store : body_.stores) {
        if (storage_of(graph_, use_of(node_, store.operand).value) == memory && !used_.empty()) return true;
      }
    }
    return false;
  }

  // The widest vector that the operands which differ from row to row can use. Four elements if 8-bit codes
  // are stored: f32 is stored with them, and longer vectors would leave gaps between the threads' accesses
  // (moves_mostly_32_bits).
  ColumnLayout columns_of(int space) const {
    int64_t smallest = 4, widest = 1;
    bool stores_codes = false;
    auto see = [&](int operand, const ir::Index& index, bool is_stored) {
      const ColumnAccess access = column_access(graph_, node_, operand, index, space, deps_);
      if (access.kind != ColumnAccess::Kind::consecutive) return;
      const ir::DType dtype = graph_.value(use_of(node_, operand)).dtype;
      stores_codes |= is_stored && dtype == ir::DType::u8;
      // More than 8 elements at a time cost more registers than wider stores of f8 gain.
      smallest = std::min(smallest, std::max<int64_t>(2, size_of(dtype)));
      widest = std::max<int64_t>(widest, access.width);
    };
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      const ir::Expr& expr = body_.exprs[i];
      if (live_[i] && expr.op == ExprOp::load && deps_[i].space == space && differs(expr.index))
        see(expr.operand, expr.index, false);
    }
    for (const Store& store : body_.stores) {
      if (store.space == space && store.kind == StoreKind::store) see(store.operand, store.index, true);
    }
    const int64_t inner = body_.variables[body_.spaces[space].back()].size;
    ColumnLayout columns;
    columns.width = element_count(body_.space_shape(space));
    columns.vector =
        static_cast<int>(std::min({stores_codes ? 4 : 16 / smallest, widest, power_of_two_in(inner)}));
    return columns;
  }

  // Then an access of 16 bytes is four elements. Longer vectors leave gaps between the threads' accesses, so
  // a warp's stores reach the cache in twice as many pieces.
  bool moves_mostly_32_bits(int space) const {
    int64_t of_32_bits = 0, of_16_bits = 0;
    const auto see = [&](int operand) {
      const int64_t size = size_of(graph_.value(use_of(node_, operand)).dtype);
      (size == 4 ? of_32_bits : of_16_bits) += size;
    };
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      const ir::Expr& expr = body_.exprs[i];
      if (live_[i] && expr.op == ExprOp::load && deps_[i].space == space && differs(expr.index))
        see(expr.operand);
    }
    for (const Store& store : body_.stores) {
      if (store.space == space && store.kind != StoreKind::raise) see(store.operand);
    }
    return of_32_bits > 2 * of_16_bits;
  }

  bool differs(const ir::Index& index) const {
    return std::ranges::any_of(index, [&](const ir::IndexDim& dim) {
      return dim.gather >= 0 || std::ranges::any_of(dim.affine.terms, [&](const auto& term) {
               return term.first < body_.row_variables;
             });
    });
  }

  int64_t vectors(int space) const { return layout_.columns[space].width / layout_.columns[space].vector; }

  void lay_out_rows() {
    layout_.shape = CudaLayout::Shape::rows;
    int64_t most_vectors = 1, most_columns = 1;
    int vector = 1;
    for (int space : used_) {
      if (layout_.columns[space].width > most_columns) vector = layout_.columns[space].vector;
      most_columns = std::max(most_columns, layout_.columns[space].width);
      most_vectors = std::max(most_vectors, vectors(space));
    }
    layout_.lanes = lanes_for(most_vectors, most_columns, vector);
    for (int space : used_) {
      ColumnLayout& columns = layout_.columns[space];
      // A narrower space keeps as many lanes busy as it can.
      while (columns.vector > 1 && vectors(space) < layout_.lanes) columns.vector /= 2;
      spread(columns);
    }
    const bool is_walked = std::ranges::any_of(used_, [&](int s) { return layout_.columns[s].steps > 1; });
    // Several sums of each column take more registers than 768 threads have, but for Hopper's assembler.
    const auto sums = std::ranges::count_if(body_.stores, [](const Store& s) { return is_sum(s.kind); });
    const int in_blocks = sums >= 2 && capability_ != 90 ? 576 : 768;
    const int threads = !has_sums_ ? 128 : used_.empty() ? 256 : layout_.lanes > 32 ? in_blocks : 512;
    layout_.rows = is_walked ? 1 : std::max(1, threads / layout_.lanes);
    layout_.blocks_per_sm = layout_.threads() > 512 ? 1 : 2;
    share_rows();
  }

  void share_rows() {
    layout_.blocks = ceil_div(body_.row_count(), layout_.rows);
    if (has_sums_) layout_.blocks = std::clamp<int64_t>(layout_.blocks, 1, sms_ * layout_.blocks_per_sm);
  }

  // Bytes that a row loads for a column of the space.
  int64_t loaded_bytes(int space) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      const ir::Expr& expr = body_.exprs[i];
      if (live_[i] && expr.op == ExprOp::load && deps_[i].space == space && differs(expr.index))
        bytes += size_of(graph_.value(use_of(node_, expr.operand)).dtype);
    }
    return bytes;
  }

  // How many threads hold a row. Column sums take registers of their own, so a thread should then hold few
  // columns.
  int lanes_for(int64_t vectors, int64_t columns, int vector) const {
    constexpr int64_t warp = 32;
    if (vectors <= warp) return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(vectors)));
    const int64_t target = has_sums_ ? 8 : columns <= 1024 ? 32 : 16;
    const int64_t chunks = std::max<int64_t>(1, target / vector);
    const int64_t lanes = ceil_div(ceil_div(vectors, chunks), warp) * warp;
    if (lanes <= kMostLanes || columns <= kMostLanes * kMostOfABlock)
      return static_cast<int>(std::min<int64_t>(lanes, kMostLanes));
    return walkers_for(columns);
  }

  // Threads for a row that is walked in steps and read more than once. It is read from shared memory if two
  // blocks of a multiprocessor have room for their rows, else from L2, which should then hold the rows of all
  // blocks in flight.
  int walkers_for(int64_t width) const {
    constexpr int64_t cached_bytes = 32 << 20;
    const int64_t bytes = width * loaded_bytes(widest_space());
    const bool two_in_shared = has_sums_ && 2 * (bytes + kSharedBesideRows) <= shared_bytes_;
    return two_in_shared || 2 * sms_ * bytes <= cached_bytes ? 512 : kMostLanes;
  }

  int widest_space() const {
    return *std::ranges::max_element(used_, {}, [&](int space) { return layout_.columns[space].width; });
  }

  void spread(ColumnLayout& columns) const {
    const int64_t chunks = ceil_div(columns.width / columns.vector, layout_.lanes);
    columns.chunks = static_cast<int>(chunks);
    if (chunks * columns.vector <= (layout_.lanes > 32 ? kMostOfABlock : kMostOfAWarp)) return;
    columns.chunks = 16 / columns.vector;
    columns.steps = ceil_div(chunks, columns.chunks);
    columns.chunks = static_cast<int>(ceil_div(chunks, columns.steps));
  }

  // Only column sums: any thread may take any column, and blocks share the rows if there are too few columns.
  void lay_out_tiles() {
    layout_.shape = CudaLayout::Shape::tiles;
    const int64_t count = vectors(*used_.begin());
    const int64_t rows = body_.row_count();
    if (count >= sms_ * int64_t{256} || rows < 8) {
      layout_.lanes = 128;
      layout_.tiles = ceil_div(count, layout_.lanes);
      return;
    }
    // A block that sees all rows of its columns needs no second kernel.
    const bool sees_all = rows <= 64 && count >= sms_ * int64_t{8};
    layout_.lanes =
        static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(count, sees_all ? 8 : 32))));
    layout_.rows = 256 / layout_.lanes;
    layout_.tiles = ceil_div(count, layout_.lanes);
    layout_.blocks_per_sm = std::min(5, threads_of_sm(capability_) / layout_.threads());
    if (sees_all) return;
    // With few rows, fewer blocks take several rows a thread, for fewer partial sums, as long as every
    // multiprocessor has blocks.
    const int64_t most = ceil_div(rows, layout_.rows);
    const int64_t enough =
        std::max(ceil_div(most, 4), std::min(most, ceil_div(int64_t{2} * sms_, layout_.tiles)));
    layout_.blocks = std::clamp<int64_t>(sms_ * layout_.blocks_per_sm / layout_.tiles, 1, enough);
  }

  // Columns of a row that a thread holds: 1024 threads have 64 registers each.
  static constexpr int64_t kMostLanes = 1024, kMostOfAWarp = 32, kMostOfABlock = 16;

  const ir::Graph& graph_;
  const ir::Node& node_;
  const Body& body_;
  const std::vector<ir::Dependence> deps_;
  const std::vector<bool> live_;
  const int sms_;
  const int64_t shared_bytes_;  // of a multiprocessor
  const int capability_;
  std::set<int> used_;
  bool has_reductions_ = false, has_row_stores_ = false, has_sums_ = false;
  CudaLayout layout_;
};

// A thread has eight columns of a row at a time; the matmul's kernel decides which.
CudaLayout epilogue_layout(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  CudaLayout layout;
  const auto [problem, tile] = plan_matmul(graph, node, gpu);
  layout.blocks = matmul_sums_rows(problem, tile);
  for (size_t space = 0; space < node.body->spaces.size(); ++space)
    layout.columns.push_back({.width = element_count(node.body->space_shape(static_cast<int>(space))),
                              .vector = kColumnsOfAnEpilogue});
  return layout;
}

}  // namespace

CudaLayout cuda_layout(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  if (node.matmul.value != ir::kNoValue) return epilogue_layout(graph, node, gpu);
  return Planner(graph, node, gpu).run();
}

}  // namespace hydrac::codegen
