// Products whose next reader is pointwise work become one kernel with it: what the library would write and
// that kernel read again stays in registers. Small ones become kernels of ours with or without such a reader:
// these begin while the kernel before them still runs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cuda/small_product/geometry.h"
#include "ops/shapes.h"
#include "passes/passes.h"
#include "passes/product_epilogue.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

bool lies_in(const ir::Graph& graph, Use use, Use storage) {
  return use.value != ir::kNoValue && storage_of(graph, use.value) == storage_of(graph, storage.value);
}

bool touches(const ir::Graph& graph, const std::vector<Use>& uses, Use use) {
  return std::ranges::any_of(
      uses, [&](Use other) { return other.value != ir::kNoValue && may_overlap(graph, other, use); });
}

// A plain product of two matrices of one 16-bit type, into a tensor of its own.
bool is_candidate(const ir::Graph& graph, const Node& node) {
  if (node.op != "gemm" || node.flag("transpose_a") || node.flag("accumulate")) return false;
  const ir::Value &a = graph.value(node.inputs[0]), &b = graph.value(node.inputs[1]),
                  &c = graph.value(node.outputs[0]);
  return size_of(a.dtype) == 2 && a.dtype == b.dtype && a.dtype == c.dtype && !c.view &&
         c.role == ir::Role::activation;
}

class ProductFusion {
 public:
  ProductFusion(ir::Graph& graph, const FusedProducts& options, const std::set<ir::ValueId>& by_host)
      : graph_(graph), options_(options), by_host_(by_host) {}

  void run(ir::Function& function, Log& log) {
    function_ = &function;
    for (ir::Region& region : function.regions) {
      std::vector<Node>& nodes = region.nodes;
      for (size_t p = 0; p < nodes.size();) {
        if (!is_candidate(graph_, nodes[p])) {
          ++p;
          continue;
        }
        const std::string name = graph_.value(nodes[p].outputs[0]).name;
        const size_t count = nodes.size();
        const std::string decided = decide(nodes, p);
        if (!decided.empty())
          log.push_back({"products", fmt::format("{}.{}: {} {}", function.name, region.name, name, decided)});
        if (nodes.size() == count) ++p;  // or the product has moved to its reader
      }
    }
  }

 private:
  static bool has_bias(const Node& node) {
    return node.inputs.size() > 2 && node.inputs[2].value != ir::kNoValue;
  }

  // Returns what was decided; "" where nothing was to decide.
  std::string decide(std::vector<Node>& nodes, size_t p) {
    if (has_bias(nodes[p])) return add_bias(nodes[p]);
    const size_t count = nodes.size();
    const std::string decided = take_reader(nodes, p);
    if (nodes.size() < count || !is_small(nodes[p], {})) return decided;
    nodes[p] = plain_product(graph_, nodes[p]);
    nodes[p].attributes["small"] = true;
    return "is our kernel for small products, which begins before the kernel before it ends";
  }

  // The product with the fused node that reads it next.
  std::string take_reader(std::vector<Node>& nodes, size_t p) {
    const Use output = nodes[p].outputs[0];
    const auto reads = [&](const Node& node) {
      return std::ranges::any_of(node.inputs, [&](Use use) { return lies_in(graph_, use, output); });
    };
    const auto found = std::find_if(nodes.begin() + static_cast<std::ptrdiff_t>(p) + 1, nodes.end(), reads);
    if (found == nodes.end() || !follows(nodes[p], found - nodes.begin(), nodes)) return "";
    const std::optional<EpilogueShape> shape = epilogue_shape(graph_, *found, output);
    if (!shape) return "";
    if (const std::string obstacle = obstacle_of(nodes[p], *shape); !obstacle.empty()) return obstacle;
    const std::string reader = std::get<std::string>(found->attributes.at("name"));
    const bool is_kept = is_needed_elsewhere(output, *found) || is_kept_by_twin(nodes[p], *found, *shape);
    *found = fused(nodes[p], *found, *shape, is_kept);
    const std::string decided = fmt::format("and {} are one kernel{}{}", reader, for_small(*found),
                                            is_kept ? ", which stores the product too" : "");
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(p));
    return decided;
  }

  // The bias in an epilogue of ours.
  std::string add_bias(Node& product) {
    const Node sum = bias_sum(product);
    const std::optional<EpilogueShape> shape = epilogue_shape(graph_, sum, sum.inputs[0]);
    const std::string obstacle = shape ? obstacle_of(product, *shape) : "keeps its bias";
    if (!obstacle.empty()) {
      graph_.values.pop_back();
      return obstacle;
    }
    Node bare = product;
    bare.inputs.resize(2);
    bare.outputs = {sum.inputs[0]};
    product = fused(bare, sum, *shape, false);
    return fmt::format("and its bias are one kernel{}", for_small(product));
  }

  // y = product + bias, of a product that has no place in memory.
  Node bias_sum(const Node& product) {
    ir::Value value = graph_.value(product.outputs[0]);
    value.name += ".product";
    Node sum = product;
    sum.inputs = {{graph_.add(std::move(value)), product.outputs[0].slot}, product.inputs[2]};
    ir::BodyBuilder k = ops::rowwise(graph_, sum);
    k.store(0, k.full(0) + k.per_column(1));
    ir::Body body = k.take();
    body.operands[0].name = "product";
    body.operands[1].name = "bias";
    body.operands[2].name = "y";
    sum.op = "fused";
    sum.body = std::make_shared<const ir::Body>(std::move(body));
    sum.attributes = {{"name", "bias"}, {"formula", "y = product + bias"}};
    return sum;
  }

  // Whether the product may be computed where its reader stands: nothing between them changes its operands or
  // uses its result, and the reader overwrites no operand, which other blocks still read.
  bool follows(const Node& product, std::ptrdiff_t reader, const std::vector<Node>& nodes) const {
    const Use output = product.outputs[0];
    for (std::ptrdiff_t n = reader; &nodes[static_cast<size_t>(n)] != &product; --n) {
      const Node& node = nodes[static_cast<size_t>(n)];
      if (touches(graph_, node.outputs, product.inputs[0]) ||
          touches(graph_, node.outputs, product.inputs[1]) || touches(graph_, node.outputs, output))
        return false;
    }
    return true;
  }

  cuda::ProductProblem problem_of(const Node& product, const EpilogueShape& shape) const {
    const ir::Value &a = graph_.value(product.inputs[0]), &c = graph_.value(product.outputs[0]);
    const int64_t k = a.shape.back().size, n = c.shape.back().size;
    return {.capability = options_.capability,
            .is_bf16 = c.dtype == ir::DType::bf16,
            .b_transposed = product.flag("transpose_b"),
            .m = element_count(c.shape) / n,
            .n = n,
            .k = k,
            .paired = shape.paired,
            .sums = shape.sums};
  }

  // Why the two stay apart; "" where they need not.
  std::string obstacle_of(const Node& product, const EpilogueShape& shape) const {
    const cuda::ProductProblem problem = problem_of(product, shape);
    if (!product_supports(problem)) return "stays a library's: our kernel does not take its sizes";
    if (!options_.wherever_possible && !product_pays(problem) && !is_small(product, shape))
      return "stays a library's, which is faster";
    return "";
  }

  // Whether the kernel for small products takes it.
  bool is_small(const Node& product, const EpilogueShape& shape) const {
    return small_product_pays(problem_of(product, shape)) && is_there_before(product.inputs[1]);
  }

  // Whether no kernel of the function writes it, so that one may load it before the kernel before it ends.
  bool is_there_before(Use use) const {
    const ir::Role role = graph_.value(storage_of(graph_, use.value)).role;
    return (role == ir::Role::parameter || role == ir::Role::working_copy) &&
           std::ranges::none_of(function_->regions, [&](const ir::Region& region) {
             return std::ranges::any_of(region.nodes,
                                        [&](const Node& node) { return touches(graph_, node.outputs, use); });
           });
  }

  bool is_needed_elsewhere(Use output, const Node& reader) const {
    bool needed = by_host_.contains(output.value);
    for_each_use(graph_, [&](const ir::Region&, const Node& node, Use use, bool is_output) {
      needed |= !is_output && &node != &reader && lies_in(graph_, use, output);
    });
    return needed;
  }

  Node fused(const Node& product, const Node& reader, const EpilogueShape& shape, bool is_kept) const {
    Node node = fused_product(product, reader, shape, is_kept);
    node.attributes["small"] = is_small(product, shape);
    return node;
  }

  // Whether another function, such as the training step that evaluation repeats, stores the product of the
  // same kernel. One more tensor to write costs evaluation less than a reader one more kernel.
  bool is_kept_by_twin(const Node& product, const Node& reader, const EpilogueShape& shape) const {
    const Node kept = fused(product, reader, shape, true);
    for (const ir::Function& function : graph_.functions) {
      for (const ir::Region& region : function.regions) {
        if (std::ranges::any_of(region.nodes, [&](const Node& node) { return are_twins(node, kept); }))
          return true;
      }
    }
    return false;
  }

  bool are_twins(const Node& a, const Node& b) const {
    const auto is_like = [&](Use use, Use other) {
      const ir::Value &value = graph_.value(use), &with = graph_.value(other);
      return value.shape == with.shape && value.dtype == with.dtype;
    };
    return a.op == b.op && a.attributes == b.attributes && a.outputs.size() == b.outputs.size() &&
           is_like(a.product, b.product) && is_like(a.inputs[0], b.inputs[0]) &&
           is_like(a.inputs[1], b.inputs[1]) && to_text(*a.body) == to_text(*b.body);
  }

  static const char* for_small(const Node& fused) {
    return fused.flag("small") ? ", that for small products" : "";
  }

  ir::Graph& graph_;
  const ir::Function* function_ = nullptr;
  const FusedProducts options_;
  const std::set<ir::ValueId>& by_host_;
};

}  // namespace

void fuse_products(ir::Graph& graph, const FusedProducts& options, const std::set<ir::ValueId>& by_host,
                   Log& log) {
  ProductFusion fusion(graph, options, by_host);
  for (ir::Function& function : graph.functions) fusion.run(function, log);
}

}  // namespace hydrac::passes
