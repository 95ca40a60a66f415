// A matmul and its next reader, pointwise work or a norm, become one kernel, so the intermediate stays in
// registers instead of being written and read again. Small matmuls become kernels of ours with or without
// such a reader, because ours start while the previous kernel still runs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cuda/matmul/geometry.h"
#include "ops/shapes.h"
#include "passes/asked_matmuls.h"
#include "passes/matmul_epilogue.h"
#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using cuda::MatmulSchedule;
using ir::Node;
using ir::Use;

bool lies_in(const ir::Graph& graph, Use use, Use storage) {
  return use.value != ir::kNoValue && storage_of(graph, use.value) == storage_of(graph, storage.value);
}

// A plain matmul of two matrices of one 16-bit type, or of experts, into a tensor of its own.
bool can_have_epilogue(const ir::Graph& graph, const Node& node) {
  const bool is_plain = node.op == ir::Op::gemm && !node.flag("transpose_a") && !node.flag("accumulate") &&
                        !node.attributes.contains("batch");
  if (!is_plain && !has_experts(node)) return false;
  const ir::Value &a = graph.value(node.inputs[0]), &b = graph.value(node.inputs[1]),
                  &c = graph.value(node.outputs[0]);
  return size_of(a.dtype) == 2 && a.dtype == b.dtype && a.dtype == c.dtype && !c.view &&
         c.role == ir::Role::activation;
}

constexpr const char* kDoesNotFit = "stays a library's: our kernel does not take its sizes";
constexpr const char* kIsSlower = "stays a library's, which is faster";

class MatmulFusion {
 public:
  MatmulFusion(ir::Graph& graph, const FusedMatmuls& options, const std::set<ir::ValueId>& by_host)
      : graph_(graph), options_(options), by_host_(by_host) {}

  MatmulChoices take_choices() { return std::move(choices_); }

  void run(ir::Function& function, Log& log) {
    function_ = &function;
    for (ir::Region& region : function.regions) {
      region_ = &region;
      std::vector<Node>& nodes = region.nodes;
      for (size_t p = 0; p < nodes.size();) {
        if (!can_have_epilogue(graph_, nodes[p])) {
          ++p;
          continue;
        }
        const std::string name = graph_.value(nodes[p].outputs[0]).name;
        asked_ = asked_of(options_, name);
        const size_t count = nodes.size();
        const std::string decided = decide(nodes, p);
        const bool is_ours = nodes.size() < count || nodes[p].op == ir::Op::fused_matmul;
        choices_.push_back({function.name, name, is_ours, is_ours || decided == kIsSlower, ""});
        if (!decided.empty())
          log.push_back({"matmuls", fmt::format("{}.{}: {} {}", function.name, region.name, name, decided)});
        if (nodes.size() == count) ++p;  // or the matmul has moved to its reader
      }
    }
  }

 private:
  static bool has_bias(const Node& node) {
    return node.inputs.size() > 2 && node.inputs[2].value != ir::kNoValue;
  }

  // Returns what was decided; "" where nothing was to decide.
  std::string decide(std::vector<Node>& nodes, size_t p) {
    if (has_experts(nodes[p])) return asked_ == Asked::library ? "" : take_reader(nodes, p);
    if (asked_ == Asked::library && !has_tail(nodes[p])) return "stays a library's, as the spec asks";
    if (has_bias(nodes[p])) return add_bias(nodes[p]);
    const size_t count = nodes.size();
    const std::string decided = take_reader(nodes, p);
    if (nodes.size() < count) return decided;
    if (has_tail(nodes[p])) {
      nodes[p] = plain_matmul(graph_, nodes[p], MatmulSchedule::persistent);
      return "is a kernel by itself";
    }
    const bool pays = is_decode() ? pays_as_few_rows(nodes[p], {}) : pays_as_one_tile(nodes[p], {});
    if (!pays) return decided;
    nodes[p] =
        plain_matmul(graph_, nodes[p], is_decode() ? MatmulSchedule::few_rows : MatmulSchedule::one_tile);
    return "is our kernel of one tile a block, which begins before the kernel before it ends";
  }

  // Fuses the matmul with the node that reads it next. Returns the outcome or the obstacle; "" if there is no
  // such node.
  std::string take_reader(std::vector<Node>& nodes, size_t p) {
    const Use output = nodes[p].outputs[0];
    const auto reads = [&](const Node& node) {
      return std::ranges::any_of(node.inputs, [&](Use use) { return lies_in(graph_, use, output); });
    };
    const auto found = std::find_if(nodes.begin() + static_cast<std::ptrdiff_t>(p) + 1, nodes.end(), reads);
    if (found == nodes.end() || !follows(nodes[p], found - nodes.begin(), nodes)) return "";
    const std::optional<EpilogueShape> shape = epilogue_shape(graph_, *found, output);
    if (!shape) return "";
    const Choice choice = choose(nodes[p], *shape);
    if (!choice.schedule) return choice.obstacle;
    const std::string reader = std::get<std::string>(found->attributes.at("name"));
    const auto fused = [&](bool is_kept) {
      return fused_matmul(nodes[p], *found, *shape, *choice.schedule, is_kept);
    };
    const bool is_kept = is_needed_elsewhere(output, *found) || has_twin(fused(true));
    *found = fused(is_kept);
    const std::string decided = fmt::format("and {} are one kernel{}{}", reader, which(*choice.schedule),
                                            is_kept ? ", which stores the matmul too" : "");
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(p));
    return decided;
  }

  // The bias in an epilogue of ours.
  std::string add_bias(Node& matmul) {
    const Node sum = bias_sum(matmul);
    const std::optional<EpilogueShape> shape = epilogue_shape(graph_, sum, sum.inputs[0]);
    const Choice choice = shape ? choose(matmul, *shape) : Choice{.obstacle = "keeps its bias"};
    if (!choice.schedule) {
      graph_.values.pop_back();
      return choice.obstacle;
    }
    Node bare = matmul;
    bare.inputs[2] = {};
    bare.outputs = {sum.inputs[0]};
    matmul = fused_matmul(bare, sum, *shape, *choice.schedule, false);
    return fmt::format("and its bias are one kernel{}", which(*choice.schedule));
  }

  // y = matmul + bias, of a matmul that has no place in memory.
  Node bias_sum(const Node& matmul) {
    ir::Value value = graph_.value(matmul.outputs[0]);
    value.name += ".matmul";
    Node sum = matmul;
    sum.inputs = {{graph_.add(std::move(value)), matmul.outputs[0].slot}, matmul.inputs[2]};
    ir::BodyBuilder k = ops::rowwise(graph_, sum);
    k.store(0, k.full(0) + k.per_column(1));
    ir::Body body = k.take();
    body.operands[0].name = "matmul";
    body.operands[1].name = "bias";
    body.operands[2].name = "y";
    sum.op = ir::Op::fused;
    sum.body = std::make_shared<const ir::Body>(std::move(body));
    sum.attributes = {{"name", "bias"}, {"formula", "y = matmul + bias"}};
    return sum;
  }

  // True if the matmul may be computed where its reader stands: nothing between them changes its operands or
  // uses its result, and the reader overwrites no operand, which other blocks still read.
  bool follows(const Node& matmul, std::ptrdiff_t reader, const std::vector<Node>& nodes) const {
    const Use output = matmul.outputs[0];
    for (std::ptrdiff_t n = reader; &nodes[static_cast<size_t>(n)] != &matmul; --n) {
      const Node& node = nodes[static_cast<size_t>(n)];
      const auto changes = [&](Use use) {
        return use.value != ir::kNoValue && touches(graph_, node.outputs, use);
      };
      if (changes(output) || std::ranges::any_of(matmul.inputs, changes)) return false;
    }
    return true;
  }

  // The schedule of the kernel that computes the two; or why they stay apart.
  struct Choice {
    std::optional<MatmulSchedule> schedule = {};
    std::string obstacle = {};
  };

  Choice choose(const Node& matmul, const EpilogueShape& shape) const {
    if (has_tail(matmul) || has_experts(matmul)) {
      if (shape.passes == 1 &&
          matmul_supports(matmul_problem(graph_, matmul, shape, options_.chip), MatmulSchedule::persistent))
        return {MatmulSchedule::persistent};
      return {.obstacle = has_experts(matmul) ? "is a kernel by itself" : kDoesNotFit};
    }
    if (is_decode()) {
      if (!fits_few_rows(matmul, shape)) return {.obstacle = kDoesNotFit};
      if (pays_as_few_rows(matmul, shape)) return {MatmulSchedule::few_rows};
      return {.obstacle = kIsSlower};
    }
    if (pays_as_one_tile(matmul, shape)) return {MatmulSchedule::one_tile};
    const bool sums_rows = shape.passes > 1;
    if (sums_rows && region_->first_layer < options_.sums_rows_from)
      return {.obstacle = "stays apart from a norm that is computed again"};
    const MatmulSchedule schedule = sums_rows ? MatmulSchedule::whole_rows : MatmulSchedule::persistent;
    const cuda::MatmulProblem problem = matmul_problem(graph_, matmul, shape, options_.chip);
    if (!matmul_supports(problem, schedule) || (sums_rows && !is_there_before(matmul.inputs[1])))
      return {.obstacle = kDoesNotFit};
    if (options_.wherever_possible || asked_ == Asked::ours || matmul_pays(problem, schedule))
      return {schedule};
    return {.obstacle = kIsSlower};
  }

  bool is_decode() const { return function_->name == "decode"; }

  // A token of each sequence.
  bool fits_few_rows(const Node& matmul, const EpilogueShape& shape) const {
    return shape.passes == 1 && is_there_before(matmul.inputs[1]) &&
           matmul_supports(matmul_problem(graph_, matmul, shape, options_.chip), MatmulSchedule::few_rows);
  }
  bool pays_as_few_rows(const Node& matmul, const EpilogueShape& shape) const {
    return fits_few_rows(matmul, shape) &&
           (options_.wherever_possible ||
            matmul_pays(matmul_problem(graph_, matmul, shape, options_.chip), MatmulSchedule::few_rows));
  }

  bool pays_as_one_tile(const Node& matmul, const EpilogueShape& shape) const {
    return shape.passes == 1 && is_there_before(matmul.inputs[1]) &&
           matmul_pays(matmul_problem(graph_, matmul, shape, options_.chip), MatmulSchedule::one_tile);
  }

  // True if no kernel of the function writes it, so that one may load it before the kernel before it ends.
  bool is_there_before(Use use) const {
    const ir::Role role = graph_.value(storage_of(graph_, use.value)).role;
    return (role == ir::Role::parameter || role == ir::Role::frozen || role == ir::Role::working_copy) &&
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

  // True if another function, such as the training step that evaluation repeats, has the same node and stores
  // its matmul. For evaluation, writing one more tensor costs less than one more kernel.
  bool has_twin(const Node& kept) const {
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
           is_like(a.matmul, b.matmul) &&
           std::equal(a.inputs.begin(), a.inputs.begin() + matrix_count(a), b.inputs.begin(), is_like) &&
           to_text(*a.body) == to_text(*b.body);
  }

  static std::string which(MatmulSchedule schedule) {
    if (schedule == MatmulSchedule::one_tile || schedule == MatmulSchedule::few_rows)
      return " of one tile a block";
    return schedule == MatmulSchedule::whole_rows ? ", which sees whole rows" : "";
  }

  ir::Graph& graph_;
  const ir::Function* function_ = nullptr;
  const ir::Region* region_ = nullptr;
  Asked asked_ = Asked::nothing;  // of the matmul that is decided on
  MatmulChoices choices_;
  const FusedMatmuls options_;
  const std::set<ir::ValueId>& by_host_;
};

}  // namespace

MatmulChoices fuse_matmuls(ir::Graph& graph, const FusedMatmuls& options,
                           const std::set<ir::ValueId>& by_host, Log& log) {
  MatmulFusion fusion(graph, options, by_host);
  for (ir::Function& function : graph.functions)
    if (options.only_decode ? function.name == "decode" : function.name != "prefill")
      fusion.run(function, log);
  return fusion.take_choices();
}

}  // namespace hydrac::passes
