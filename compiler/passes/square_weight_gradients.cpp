// The norm of the gradients reads all of them once more when the last is there. The kernel that computes
// weight gradients has them in registers, and can sum their squares there.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/body_builder.h"
#include "ir/merge.h"
#include "ops/builder.h"
#include "passes/passes.h"
#include "passes/uses.h"
#include "passes/weight_gradients_problem.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Region;
using ir::Use;
using models::kPackRow;

// Sums that one block adds up in about the time that its launch takes.
constexpr int64_t kMostSums = 8192;

// Whether the node does nothing else than to sum the squares of its only input.
bool sums_squares(const Node& node) {
  if (node.op != "fused" || node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const ir::Body& body = *node.body;
  if (body.stores.size() != 1 || body.row_variables != 1 || body.spaces.size() != 1 ||
      body.spaces[0].size() != 1)
    return false;
  const ir::Store& store = body.stores[0];
  const ir::Expr& sum = body.exprs[store.value];
  if (store.kind != ir::StoreKind::column_sum || store.space != ir::kRowSpace || sum.op != ir::ExprOp::sum)
    return false;
  const ir::Expr& square = body.exprs[sum.args[0]];
  if (square.op != ir::ExprOp::mul || square.args[0] != square.args[1]) return false;
  const ir::Expr& load = body.exprs[square.args[0]];
  return load.op == ir::ExprOp::load && body.operands[load.operand].shape == ir::Shape(body.variables) &&
         load.index == ir::Index{{ir::Affine::of(0)}, {ir::Affine::of(body.spaces[0][0])}};
}

// Rows [first, last) of the pack.
struct Rows {
  int64_t first, last;
  int64_t count() const { return last - first; }
};

// Which rows are this gradient's, in all layers; nothing where it is not the whole of a value, or does not
// have them to itself.
std::optional<Rows> rows_of(const ir::Graph& graph, const Region& region, Use gradient, ir::ValueId pack) {
  const ir::Value& value = graph.value(gradient);
  if (storage_of(graph, value.id) != pack || value.id == pack) return std::nullopt;
  const ir::Slot every_slot{region.layers > 0, 0};
  if (gradient.slot != every_slot || value.slots != std::max(region.layers, 1)) return std::nullopt;
  const ir::View view = resolved_view(graph, value.id);
  const int64_t elements = models::padded_elements(value.shape) * value.slots;
  if (view.offset % kPackRow != 0 || elements % kPackRow != 0) return std::nullopt;
  return Rows{view.offset / kPackRow, (view.offset + elements) / kPackRow};
}

// A node that writes gradients whole, and how many sums it leaves of each layer.
struct Writer {
  Region* region;
  size_t node;
  int64_t sums;

  Node& at() const { return region->nodes[node]; }
  int layers() const { return std::max(region->layers, 1); }
};

class NormOfPack {
 public:
  NormOfPack(ir::Graph& graph, cuda::Chip chip, ir::ValueId pack)
      : graph_(graph), pack_(pack), rows_(graph.value(pack).shape[0].size) {
    for (Region& region : graph.function("micro_step").regions) {
      for (size_t n = 0; n < region.nodes.size(); ++n) add_writer(region, n, chip);
    }
    std::ranges::sort(written_, {}, &Rows::first);
  }

  // Sums of squares that the norm consists of.
  int64_t sums() const {
    int64_t sums = rest_rows();
    for (const Writer& writer : writers_) sums += writer.layers() * writer.sums;
    return sums;
  }
  bool has_writers() const { return !writers_.empty(); }

  // Lets the writers store their sums; returns the nodes that sum the other rows and then everything.
  std::vector<Node> split(const Node& norm) {
    Region region;
    ops::RegionBuilder b(graph_, region);
    b.enter(norm.scope, norm.origin);
    const ir::Shape shape{{sums(), ""}};
    const Use all = b.fresh("grad_squares", shape, ir::DType::f32, ir::Role::state);
    int64_t offset = 0;
    for (const Writer& writer : writers_) {
      const Use part{part_of(all.value, offset, writer.sums, writer.layers()),
                     {writer.region->layers > 0, 0}};
      writer.at().outputs.push_back(part);
      offset += writer.sums * writer.layers();
    }
    if (const int64_t rows = rest_rows(); rows > 0) sum_rest(b, {part_of(all.value, offset, rows, 1), {}});
    Node total{.inputs = {all}, .outputs = norm.outputs};
    ir::BodyBuilder k(graph_, total, {});
    k.columns(shape);
    k.store_row(0, k.sum(k.full(0)));
    b.emit_body(total, std::get<std::string>(norm.attributes.at("name")), k.take(),
                "grad_square = sum of squares of the gradients");
    return std::move(region.nodes);
  }

 private:
  void add_writer(Region& region, size_t n, cuda::Chip chip) {
    const Node& node = region.nodes[n];
    if (node.op != "weight_gradients" || node.flag("accumulate")) return;
    std::vector<Rows> rows;
    for (const Use gradient : node.outputs) {
      const std::optional<Rows> own = rows_of(graph_, region, gradient, pack_);
      if (!own || is_written_elsewhere(node, gradient)) return;
      rows.push_back(*own);
    }
    const cuda::WeightGradientsProblem problem = weight_gradients_problem(graph_, node, chip);
    writers_.push_back({&region, n, weight_gradient_pieces(problem, weight_gradients_tile(problem))});
    written_.insert(written_.end(), rows.begin(), rows.end());
  }

  bool is_written_elsewhere(const Node& writer, Use gradient) const {
    bool found = false;
    for_each_use(graph_, [&](const Region&, const Node& node, Use use, bool is_output) {
      found |= is_output && &node != &writer && may_overlap(graph_, use, gradient);
    });
    return found;
  }

  // What no writer writes.
  std::vector<Rows> rest() const {
    std::vector<Rows> rest;
    int64_t first = 0;
    for (const Rows& rows : written_) {
      if (rows.first > first) rest.push_back({first, rows.first});
      first = rows.last;
    }
    if (first < rows_) rest.push_back({first, rows_});
    return rest;
  }

  // `count` sums of each layer, one layer after the other.
  ir::ValueId part_of(ir::ValueId all, int64_t offset, int64_t count, int layers) {
    ir::Value part = graph_.value(all);
    part.name += layers > 1 ? ".layers" : ".rows";
    part.shape = {{count, ""}};
    part.slots = layers;
    part.view = ir::View{all, offset, count, {1}};
    return graph_.add(std::move(part));
  }

  int64_t rest_rows() const {
    int64_t count = 0;
    for (const Rows& rows : rest()) count += rows.count();
    return count;
  }

  // A sum for each row that no writer writes, one after the other.
  void sum_rest(ops::RegionBuilder& b, Use sums) {
    const Node node{.inputs = {{pack_, {}}}, .outputs = {sums}};
    ir::BodyBuilder k(graph_, node, graph_.value(sums).shape);
    k.columns({graph_.value(pack_).shape[1]});
    const auto number = [&](int64_t x) { return k.constant(static_cast<double>(x), ir::ExprType::i64); };
    const ir::Term row = k.position(k.row(0));
    ir::Term from = row;
    int64_t before = 0;
    for (const Rows& rows : rest()) {
      if (rows.first > before) {
        const ir::Term moved = row + number(rows.first - before);
        from = before == 0 ? moved : select(row < number(before), from, moved);
      }
      before += rows.count();
    }
    const ir::Term at = k.named("pack_row", convert(from, ir::ExprType::i32));
    const ir::Term g = k.gather(0, at, {}, {k.column(0)});
    k.store_row(0, k.sum(g * g));
    b.emit_body(node, "square_rows", k.take(),
                "sums of squares of the gradients that no kernel of weight gradients writes");
  }

  ir::Graph& graph_;
  const ir::ValueId pack_;
  const int64_t rows_;
  std::vector<Writer> writers_;
  std::vector<Rows> written_;
};

// Puts `nodes` in the place of the node at `at`; the last of them becomes a part of the node behind, where it
// can.
void replace(Region& region, size_t at, std::vector<Node> nodes) {
  const auto place = region.nodes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto behind = place + 1;
  if (behind != region.nodes.end() && behind->op == "fused") {
    if (std::optional<Node> both = ir::merged(nodes.back(), *behind)) {
      both->attributes["name"] = behind->attributes.at("name");
      *behind = std::move(*both);
      nodes.pop_back();
    }
  }
  region.nodes.insert(region.nodes.erase(place), nodes.begin(), nodes.end());
}

}  // namespace

void square_weight_gradients(ir::Graph& graph, cuda::Chip chip, Log& log) {
  for (Region& region : graph.function("update").regions) {
    for (size_t n = 0; n < region.nodes.size(); ++n) {
      const Node norm = region.nodes[n];
      if (!sums_squares(norm) || graph.value(norm.inputs[0]).role != ir::Role::gradient) continue;
      NormOfPack pack(graph, chip, norm.inputs[0].value);
      if (!pack.has_writers() || pack.sums() > kMostSums) continue;
      replace(region, n, pack.split(norm));
      log.push_back({"matmuls", fmt::format("update.{}: squares of weight gradients are summed where they "
                                            "are computed",
                                            region.name)});
    }
  }
}

}  // namespace hydrac::passes
