// The packed qkv matmul's output seen as q, k and v, and their gradients packed again. Both are views: the
// layout pass places the parts inside the packed value, and no kernel runs.
#include <algorithm>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

std::vector<Use> split(RegionBuilder& b, Use qkv, int64_t heads, int64_t kv_heads, int64_t head_dim,
                       const std::string& scope, bool is_flat, ir::Attributes attributes = {}) {
  const ir::Shape tokens = leading(b.shape(qkv));
  const std::string kv_symbol = kv_heads == heads ? "H" : "K";
  std::vector<Use> parts;
  for (const char* name : {".q", ".k", ".v"}) {
    const ir::Dim count = name[1] == 'q' ? ir::Dim{heads, "H"} : ir::Dim{kv_heads, kv_symbol};
    ir::Shape shape = tokens;
    if (is_flat && name[1] != 'v')
      shape.push_back({count.size * head_dim, count.symbol + "D"});
    else
      shape.insert(shape.end(), {count, {head_dim, "D"}});
    parts.push_back(b.fresh(scope + name, shape));
  }
  b.emit_node(ir::Op::split_qkv, {qkv}, parts, std::move(attributes));
  return parts;
}

}  // namespace

std::vector<Use> split_qkv(RegionBuilder& b, Use qkv, int64_t heads, int64_t kv_heads, int64_t head_dim,
                           const std::string& scope) {
  return split(b, qkv, heads, kv_heads, head_dim, scope, false);
}

std::vector<Use> split_flat_qkv(RegionBuilder& b, Use qkv, int64_t heads, int64_t kv_heads, int64_t head_dim,
                                const std::string& scope) {
  return split(b, qkv, heads, kv_heads, head_dim, scope, true);
}

std::vector<Use> split_qkv_by_head(RegionBuilder& b, Use qkv, int64_t heads, int64_t head_dim,
                                   const std::string& scope) {
  return split(b, qkv, heads, heads, head_dim, scope, false, {{"by_head", true}});
}

Use heads_of(RegionBuilder& b, Use flat, int64_t head_dim, const std::string& symbol,
             const std::string& name) {
  ir::Shape shape = leading(b.shape(flat));
  shape.insert(shape.end(), {{b.shape(flat).back().size / head_dim, symbol}, {head_dim, "D"}});
  const Use heads = b.fresh(name, shape);
  b.emit_node(ir::Op::split_qkv, {flat}, {heads});
  return heads;
}

namespace {

void split_qkv_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> parts;
  for (Use output : node.outputs) parts.push_back(g.of(output).value_or(Use{}));
  // A part that nobody reads has no gradient, and its columns need one.
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].value == ir::kNoValue)
      parts[i] = g.emit(ir::Op::zero, {}, g.name_of(node.outputs[i]), g.shape(node.outputs[i]));
  }
  g.contribute_op(node.inputs[0], ir::Op::join_qkv, parts, node.attributes);
}

void split_qkv_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  // By head, each head is a row.
  const int64_t rows = row_count(in[0]) * (node.optional_flag("by_head") ? out[0].shape[2] : 1),
                width = static_cast<int64_t>(in[0].data.size()) / rows;
  int64_t offset = 0;
  for (Tensor64& part : out) {
    const int64_t columns = static_cast<int64_t>(part.data.size()) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(&in[0].data[r * width + offset], columns, &part.data[r * columns]);
    }
    offset += columns;
  }
}

}  // namespace

extern const OpInfo kSplitQkv{.op = ir::Op::split_qkv,
                              .formula = "q, k, v = views of qkv",
                              .gradient = split_qkv_gradient,
                              .reference = split_qkv_reference};
extern const OpInfo kJoinQkv{.op = ir::Op::join_qkv, .formula = "d_qkv = the parts, side by side"};

}  // namespace hydrac::ops
