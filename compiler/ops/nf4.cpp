// Matrices that are stored as 4-bit NormalFloat codes (QLoRA, arXiv 2305.14314). An element is the value of
// its code times the largest magnitude of its block; that magnitude is an 8-bit code itself.
#include "ops/nf4.h"

#include <string>

#include "hydrac/dynamic_code.h"
#include "hydrac/nf4.h"
#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

constexpr int64_t kGroupElements = int64_t{kNf4Block} * kNf4Group;

int64_t groups_of(int64_t elements) {
  return (elements + kGroupElements - 1) / kGroupElements;
}

// First row, first block and first group of a part.
struct Part {
  int64_t row = 0, block = 0, group = 0;
};

std::vector<Part> parts_of(const ir::Node& node, int64_t blocks_of_row) {
  std::vector<Part> parts;
  Part next;
  for (std::string i = "0"; node.attributes.contains("rows_" + i); i = std::to_string(parts.size())) {
    parts.push_back(next);
    const int64_t rows = node.integer("rows_" + i);
    next.row += rows;
    next.block += rows * blocks_of_row;
    next.group += groups_of(rows * blocks_of_row * kNf4Block);
  }
  return parts;
}

using ir::ExprType;
using ir::Term;

// The group that holds a block; both are counted through the matrix.
Term group_of(ir::BodyBuilder& k, const std::vector<Part>& parts, Term block) {
  Term group;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Term in_part = parts[i].block == 0 ? block : block - static_cast<double>(parts[i].block);
    Term own = in_part / k.constant(kNf4Group, ExprType::i64, "kGroup");
    if (parts[i].group > 0) own = own + static_cast<double>(parts[i].group);
    if (i == 0) {
      group = own;
      continue;
    }
    const Term first_row = k.constant(static_cast<double>(parts[i].row), ExprType::i32);
    const Term in_rows = k.named("from_part_" + std::to_string(i), first_row <= k.position(k.row(0)));
    group = select(in_rows, own, group);
  }
  return convert(group, ExprType::i32);
}

ir::Body dequantize_body(const ir::Graph& graph, const ir::Node& node) {
  constexpr int64_t half = kNf4Block / 2;
  const ir::Shape& blocks = graph.value(node.inputs[1]).shape;
  const int64_t blocks_of_row = blocks[1].size;
  ir::BodyBuilder k(graph, node, {blocks[0]});
  k.columns({{blocks_of_row, ""}, {half, ""}});
  const ir::Affine row = k.row(0), block = k.column(0), j = k.column(1);
  const Term number = k.position(row * blocks_of_row + block);
  const Term group = k.named("group", group_of(k, parts_of(node, blocks_of_row), number));
  const Term scale = k.gather(2, group, {}, {ir::Affine{0, {}}}),
             mean = k.gather(2, group, {}, {ir::Affine{1, {}}});
  const Term largest = k.named("largest", fma(dynamic_value(k.load(1, {row, block}), true), scale, mean));
  const Term byte = k.named("two_codes", k.load(0, {row, block * half + j}));
  k.store_at(0, {row, block * kNf4Block + j}, nf4_upper(byte) * largest);
  k.store_at(0, {row, block * kNf4Block + j + ir::Affine{half, {}}}, nf4_lower(byte) * largest);
  return k.take();
}

void dequantize_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  constexpr float values[] = {-1.0f,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0.0f,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1.0f};
  constexpr size_t half = kNf4Block / 2;
  const std::vector<Part> parts = parts_of(node, in[1].shape[1]);
  size_t part = 0;
  for (size_t block = 0; block < in[1].data.size(); ++block) {
    while (part + 1 < parts.size() && static_cast<int64_t>(block) >= parts[part + 1].block) ++part;
    const size_t group =
        static_cast<size_t>(parts[part].group) + (block - static_cast<size_t>(parts[part].block)) / kNf4Group;
    const double largest =
        signed_dynamic_value(static_cast<uint32_t>(in[1].data[block])) * in[2].data[2 * group] +
        in[2].data[2 * group + 1];
    for (size_t i = 0; i < kNf4Block; ++i) {
      const auto byte = static_cast<int>(in[0].data[block * half + i % half]);
      out[0].data[block * kNf4Block + i] = values[i < half ? byte / 16 : byte % 16] * largest;
    }
  }
}

}  // namespace

int64_t nf4_groups(const std::vector<ir::RowRange>& parts, int64_t columns) {
  int64_t groups = 0;
  for (const ir::RowRange& part : parts) groups += groups_of(part.count * columns);
  return groups;
}

void dequantize_nf4(RegionBuilder& b, const ir::Nf4Storage& stored, ir::Slot slot, Use matrix) {
  ir::Attributes parts;
  for (size_t i = 0; i < stored.parts.size(); ++i) parts["rows_" + std::to_string(i)] = stored.parts[i].count;
  b.emit_node(ir::Op::dequantize_nf4,
              {{stored.codes, slot}, {stored.block_codes, slot}, {stored.groups, slot}}, {matrix},
              std::move(parts));
}

extern const OpInfo kDequantizeNf4{
    .op = ir::Op::dequantize_nf4,
    .formula = "matrix = value(codes) largest, largest = value(block_codes) scale + mean",
    .inputs = {"codes", "block_codes", "groups"},
    .outputs = {"matrix"},
    .body = dequantize_body,
    .reference = dequantize_reference};

}  // namespace hydrac::ops
