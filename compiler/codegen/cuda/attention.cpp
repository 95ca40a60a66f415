#include "codegen/cuda/attention.h"

#include <algorithm>
#include <stdexcept>

#include "codegen/attention_text.h"
#include "codegen/build_calls.h"
#include "codegen/cuda/body.h"
#include "codegen/expression_text.h"
#include "cuda/attention/geometry.h"
#include "ops/op.h"

namespace hydrac::codegen {

namespace {

using cuda::AttentionKernel;
using program::AttentionShape;

const char* name_of(AttentionFamily family) {
  switch (family) {
    case AttentionFamily::plain:
      return "plain";
    case AttentionFamily::mma:
      return "mma";
    case AttentionFamily::hopper:
      return "hopper";
  }
  throw std::logic_error("no such family");
}

const char* name_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::forward:
      return "forward";
    case AttentionKernel::query_gradients:
      return "query_gradients";
    case AttentionKernel::key_gradients:
      return "key_gradients";
    case AttentionKernel::query_terms:
      return "query_terms";
    case AttentionKernel::gradients:
      return "gradients";
    case AttentionKernel::head_gradients:
      return "head_gradients";
    case AttentionKernel::fp8_operands:
      return "fp8_operands";
    case AttentionKernel::fp8_forward:
      return "fp8_forward";
  }
  throw std::logic_error("no such kernel");
}

std::string text_of(const AttentionTile& tile) {
  const std::string parts = tile.parts > 1 ? fmt::format(", .parts = {}", tile.parts) : "";
  return fmt::format(
      "AttentionTile{{.warps = {}, .row_tiles = {}, .columns = {}, .stages = {}, .blocks_per_sm = {}{}}}",
      tile.warps, tile.row_tiles, tile.columns, tile.stages, tile.blocks_per_sm, parts);
}

// True if the grid counts the sequences, and blocks do not.
bool takes_batch_from_grid(AttentionKernel kernel) {
  return kernel == AttentionKernel::forward || kernel == AttentionKernel::query_gradients ||
         kernel == AttentionKernel::key_gradients || kernel == AttentionKernel::fp8_operands ||
         kernel == AttentionKernel::fp8_forward;
}

// True if the kernel computes scores, to which masks and score rules apply.
bool computes_scores(AttentionKernel kernel) {
  return kernel != AttentionKernel::query_terms && kernel != AttentionKernel::fp8_operands;
}

// True if its blocks own tiles of keys, not of queries.
bool owns_keys(AttentionKernel kernel) {
  return kernel == AttentionKernel::key_gradients || kernel == AttentionKernel::fp8_operands;
}

// True if each block has one tile of rows, and the grid has a block for each tile. Blocks of other kernels
// take work items until none is left.
bool owns_rows(AttentionKernel kernel) {
  return takes_batch_from_grid(kernel) || kernel == AttentionKernel::query_terms;
}

// The text that the attention kernels of a node share.
class CudaAttentionText {
 public:
  CudaAttentionText(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                    const cuda::AttentionTiles& tiles)
      : graph_(graph), node_(node), gpu_(gpu), dimensions_(graph), shape_(attention_shape(graph, node)) {
    const AttentionShape& a = shape_;
    problem_ = {.capability = gpu.capability,
                .element_bytes = static_cast<int>(ir::size_of(a.dtype)),
                .is_bf16 = a.dtype == ir::DType::bf16,
                .has_dropout = a.dropout > 0,
                .batch = a.batch,
                .tokens = a.tokens,
                .heads = a.heads,
                .kv_heads = a.kv_heads,
                .head_dim = a.head_dim,
                .causal = hides_later_keys(a.rules),
                .has_softcap = a.rules.softcap > 0,
                .has_documents = a.rules.documents,
                .multiprocessors = gpu.sms,
                .tiles = tiles};
    if (!attention_supports(problem_))
      throw std::logic_error(fmt::format("head_dim {} was not checked", a.head_dim));
    if (a.fp8 && !attention_multiplies_fp8(problem_))
      throw std::logic_error("attention of 8 bits was not checked");
  }

  const AttentionShape& shape() const { return shape_; }
  int64_t backward_workspace() const { return static_cast<int64_t>(attention_backward_workspace(problem_)); }
  bool fuses_gradients() const { return attention_fuses_gradients(problem_); }
  bool owns_heads() const { return attention_owns_heads(problem_); }
  int64_t fp8_workspace() const { return static_cast<int64_t>(attention_fp8_workspace(problem_)); }
  // Rows of sums over tokens that head_gradients leaves in the workspace: one a warp and sequence.
  Size sums_rows() const {
    return size(query()[0]) * literal(attention_tile(problem_, AttentionKernel::head_gradients).warps);
  }
  Size query_terms_bytes() const {
    return sequences(query()[2]) * size(query()[1]) * literal(static_cast<int64_t>(sizeof(QueryTerms)));
  }
  // GradientWorkspace: each tile's sum and whose turn it is, QueryTerms, a counter.
  Size gradients_bytes() const {
    constexpr int64_t of_tile = kGradientColumns * kGradientDim * 4 + 4;
    const Size tiles = sequences(query()[2]) * ceiling_quotient(size(query()[1]), literal(kGradientColumns));
    return tiles * literal(of_tile) + query_terms_bytes() + literal(4);
  }

  struct Tensor {
    std::string name;
    ir::Use use;
    bool is_written = false;
  };

  // One kernel: `tensors` are its pointers, `arguments` the template's arguments, both without the dropout's.
  // `workspace`: its type, "" without one.
  CudaKernel kernel(AttentionKernel which, const std::string& function, const std::vector<Tensor>& tensors,
                    const Code& arguments, const std::string& workspace = "") const {
    const cuda::AttentionLaunch launch = attention_launch(problem_, which);
    CudaKernel kernel;
    kernel.name = function;
    kernel.header = "cuda/attention/attention.cuh";
    kernel.launch = {launch.grid, launch.threads, static_cast<int64_t>(launch.shared_bytes), "kBlocks"};
    const bool has_scores = computes_scores(which), drops = has_scores && this->drops(),
               takes_dropout = has_scores && which != AttentionKernel::fp8_forward;
    kernel.takes_layer = drops || (has_scores && shape_.rules.varies_by_layer());
    kernel.takes_workspace = !workspace.empty();
    for (const Tensor& tensor : tensors) take(kernel, tensor);
    if (has_scores && shape_.rules.documents) take(kernel, {"documents", input(5)});
    if (drops) {
      kernel.arguments.insert(kernel.arguments.end(), {input(3), input(4)});
      kernel.text.take("const std::uint32_t*", "rng_step");
      kernel.text.take("const std::uint32_t*", "rng_seed");
    }
    if (kernel.takes_workspace) kernel.text.take(workspace, "workspace");
    if (kernel.takes_layer) kernel.text.take("int", "layer");
    if (owns_rows(which)) lay_out_grid_of_rows(which, kernel.launch);
    define_block(kernel.text.sizes, which, kernel.launch);
    kernel.text.attributes = kernel_attributes(fmt::format(", {}", launch.blocks_per_sm));
    open_body(kernel.text, gpu_);
    Block& body = kernel.text.body;
    body.line("using Config = {};", config(which));
    define_shape(body, which);
    if (takes_dropout) define_dropout(body, graph_, node_, "AttentionDropout", "\n      ");
    body.line("cuda::{}<Config>(shape, {}{});", function, arguments, takes_dropout ? ", dropout" : "");
    return kernel;
  }

  // {pointer, batch stride, token stride, head stride}
  Code heads(const Tensor& tensor) const {
    return heads_code(dimensions_, graph_, tensor.use, tensor.name, query()[3]);
  }
  std::string type() const { return std::string(c_type(shape_.dtype, kCudaDialect)); }
  bool drops() const { return shape_.dropout > 0; }

  // The grid of a kernel whose blocks own a tile of a sequence's queries or keys, as an expression of all
  // rows, [B,H,T]. The forward kernel's text does not contain the batch, so training, evaluation and
  // generation share it.
  void lay_out_grid_of_rows(AttentionKernel which, CudaLaunch& launch) const {
    const AttentionTile tile = attention_tile(problem_, which);
    const Size tokens = dimensions_.of(query()[1]), tile_rows = named(tile.rows(), "kRows");
    const auto blocks = [&](const Size& rows, const Size& sequences) {
      const Size tiles = tokens.value % tile_rows.value == 0
                             ? exact_quotient(rows, tile_rows)
                             : sequences * ceiling_quotient(tokens, tile_rows);
      return tile.parts > 1 ? tiles * literal(tile.parts) : tiles;
    };
    const ir::Dim& heads = owns_keys(which) ? keys()[2] : query()[2];
    const Size sequences = dimensions_.of(query()[0]) * dimensions_.of(heads), rows = sequences * tokens;
    const Size grid = blocks(rows, sequences);
    if (grid.value != launch.grid) throw std::logic_error("blocks of attention were counted in two ways");
    launch.grid_text = grid.code;
    if (which != AttentionKernel::forward) return;
    const Size any_rows = named(rows.value, "rows");
    launch.rows = rows.code;
    launch.grid_of_rows = blocks(any_rows, exact_quotient(any_rows, tokens)).code;
  }

 private:
  void take(CudaKernel& kernel, const Tensor& tensor) const {
    tensor.is_written ? kernel.write(graph_, tensor.name, tensor.use)
                      : kernel.read(graph_, tensor.name, tensor.use);
  }

  // The constants that its launch uses, from the template's description of a block.
  void define_block(Block& sizes, AttentionKernel which, const CudaLaunch& launch) const {
    if (!owns_rows(which))
      sizes.line("constexpr int kBlocks = {};", blocks_of_pieces(which, launch.grid)).comment =
          "as many as run at once, or as have work";
    sizes.line("constexpr AttentionBlock kBlock = cuda::block_of_{}<\n    {}>();", name_of(which),
               config(which));
    if (launch.grid_text.refers_to("kRows") || launch.grid_of_rows.refers_to("kRows"))
      sizes.line("constexpr int kRows = kBlock.rows;");
    sizes.line("constexpr int kThreads = kBlock.threads;");
    if (launch.shared_bytes > 0) sizes.line("constexpr int kSharedBytes = kBlock.shared_bytes;");
  }

  Size blocks_of_pieces(AttentionKernel which, int64_t blocks) const {
    const AttentionTile tile = attention_tile(problem_, which);
    const Size at_once = literal(tile.blocks_per_sm) * named(gpu_.sms, kMultiprocessors);
    if (at_once.value == blocks) return at_once;
    const Size all = which == AttentionKernel::gradients
                         ? sequences(keys()[2]) * ceiling_quotient(size(query()[1]), literal(tile.rows()))
                         : sequences(query()[2]);
    if (all.value != blocks) throw std::logic_error("blocks of attention were counted in two ways");
    return all;
  }

  Code config(AttentionKernel which) const {
    const ops::AttentionRules rules = rules_of(which);
    return code("cuda::AttentionConfig<{}, {}, AttentionFamily::{}, {}, {}, {}, {}>", type(),
                size(query()[3]), name_of(attention_family(problem_)),
                text_of(attention_tile(problem_, which)), mask_type(rules), scores_type(rules), drops());
  }
  ops::AttentionRules rules_of(AttentionKernel which) const {
    return computes_scores(which) ? shape_.rules : ops::AttentionRules{};
  }

  void define_shape(Block& body, AttentionKernel which) const {
    const Size tokens = size(query()[1]);
    const ops::AttentionRules rules = rules_of(which);
    const bool takes_batch = !rules.documents && !takes_batch_from_grid(which);
    const Code members =
        code("{}, {}, {}, {}", tokens, size(query()[2]), size(keys()[2]), static_cast<float>(shape_.scale));
    const Code documents = code("documents + 2 * {} * cuda::sequence_of_{}<Config>({})", tokens,
                                which == AttentionKernel::fp8_forward ? "fp8_queries"
                                : owns_keys(which)                    ? "keys"
                                                                      : "queries",
                                constant_shape(rules));
    codegen::define_shape(body, rules,
                          {takes_batch ? "AttentionShape" : "SequenceShape", "cuda::PackedShape"}, members,
                          tokens, size(query()[3]), takes_batch ? size(query()[0]).code : Code(), documents);
  }

  Size size(const ir::Dim& dim) const { return dimensions_.of(dim); }
  Size sequences(const ir::Dim& heads) const { return size(query()[0]) * size(heads); }
  const ir::Shape& query() const { return graph_.value(input(0)).shape; }
  const ir::Shape& keys() const { return graph_.value(input(1)).shape; }
  // Input i of the forward node.
  ir::Use input(size_t i) const { return node_.inputs[(shape_.backward ? 3 : 0) + i]; }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const targets::Target& gpu_;
  const Dimensions dimensions_;
  const AttentionShape shape_;
  cuda::AttentionProblem problem_{};
};

}  // namespace

CudaKernels cuda_attention_forward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                   const cuda::AttentionTiles& tiles) {
  const CudaAttentionText text(graph, node, gpu, tiles);
  const CudaAttentionText::Tensor q{"q", node.inputs[0]}, k{"k", node.inputs[1]}, v{"v", node.inputs[2]},
      out{"out", node.outputs[0], true}, lse{"lse", node.outputs[1], true};
  const std::string formula =
      fmt::format("out = {} v; lse is kept for the backward pass", softmax_formula(text.shape().rules));
  if (text.shape().fp8) {
    CudaKernel operands =
        text.kernel(AttentionKernel::fp8_operands, "attention_fp8_operands", {k, v},
                    code("{}, {},\n      workspace", text.heads(k), text.heads(v)), "float*");
    operands.comment = "k and v in e4m3, as tiles with scales";
    CudaKernel forward =
        text.kernel(AttentionKernel::fp8_forward, "attention_fp8_forward", {q, out, lse},
                    code("{}, {}, lse,\n      workspace", text.heads(q), text.heads(out)), "const float*");
    forward.comment = formula + "\nq, k, v and the probabilities in e4m3";
    return {{std::move(operands), std::move(forward)}, text.fp8_workspace(), 1};
  }
  CudaKernel kernel = text.kernel(
      AttentionKernel::forward, "attention_forward", {q, k, v, out, lse},
      code("{}, {}, {},\n      {}, lse", text.heads(q), text.heads(k), text.heads(v), text.heads(out)));
  kernel.comment = formula;
  return {{std::move(kernel)}, 0};
}

namespace {

// The fourth output: the sum of d_q, d_k and d_v over all tokens.
bool sums_tokens(const ir::Node& node) {
  return node.outputs.size() > 3;
}

// The sum as a node of its own.
ir::Node bias_gradient_of(const ir::Graph& graph, const ir::Node& node) {
  ir::Node sum = node;
  sum.op = ir::Op::bias_gradient;
  sum.inputs = {{storage_of(graph, node.outputs[0].value), node.outputs[0].slot}};
  sum.outputs = {node.outputs[3]};
  ir::Body body = ops::op_info(sum.op).body(graph, sum);
  body.operands[0].name = "d_y";
  body.operands[1].name = "d_bias";
  sum.op = ir::Op::fused;
  sum.body = std::make_shared<const ir::Body>(std::move(body));
  return sum;
}

}  // namespace

CudaKernels cuda_attention_backward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                    const cuda::AttentionTiles& tiles) {
  const CudaAttentionText text(graph, node, gpu, tiles);
  const CudaAttentionText::Tensor d_out{"d_out", node.inputs[0]}, out{"out", node.inputs[1]},
      lse{"lse", node.inputs[2]}, q{"q", node.inputs[3]}, k{"k", node.inputs[4]}, v{"v", node.inputs[5]},
      d_q{"d_q", node.outputs[0], true}, d_k{"d_k", node.outputs[1], true}, d_v{"d_v", node.outputs[2], true};
  if (text.owns_heads()) {
    const bool has_sums = sums_tokens(node);
    const std::string name = "attention_head_gradients", sums = has_sums ? ", workspace" : "";
    CudaKernel gradients =
        text.kernel(AttentionKernel::head_gradients, has_sums ? name + "_with_sums" : name,
                    {q, k, v, out, lse, d_out, d_q, d_k, d_v},
                    code("{}, {}, {},\n      {}, lse, {},\n      {}, {}, {}{}", text.heads(q), text.heads(k),
                         text.heads(v), text.heads(out), text.heads(d_out), text.heads(d_q), text.heads(d_k),
                         text.heads(d_v), sums),
                    has_sums ? "float*" : "");
    gradients.comment = "d_q, d_k and d_v, the probabilities again from q, k and lse";
    if (!has_sums) return {{std::move(gradients)}, text.backward_workspace()};
    gradients.name = name;
    gradients.comment += "\nEach warp's sums of them over its tokens: a row of the workspace";
    const ir::Node sum = bias_gradient_of(graph, node);
    CudaKernel finish = cuda_finishing_kernel(graph, sum, gpu, text.sums_rows());
    finish.name = name + "_sums";
    const Size row_bytes = Dimensions(graph).of(graph.value(sum.outputs[0]).shape) * literal(4),
               bytes = text.sums_rows() * row_bytes;
    gradients.launch.bounds.insert(fits_workspace(bytes));
    return {{std::move(gradients), std::move(finish)}, bytes.value};
  }
  if (text.fuses_gradients()) {
    CudaKernel terms =
        text.kernel(AttentionKernel::query_terms, "attention_query_terms", {out, lse, d_out},
                    code("{}, lse,\n      {}, workspace", text.heads(out), text.heads(d_out)), "float*");
    terms.comment = "For each query its lse and d_out . out; the workspace of attention_gradients made ready";
    CudaKernel gradients =
        text.kernel(AttentionKernel::gradients, "attention_gradients", {q, k, v, d_out, d_q, d_k, d_v},
                    code("{}, {}, {},\n      {},\n      {}, {}, {}, workspace", text.heads(q), text.heads(k),
                         text.heads(v), text.heads(d_out), text.heads(d_q), text.heads(d_k), text.heads(d_v)),
                    "float*");
    gradients.comment = "d_q, d_k and d_v, the probabilities again from q, k and lse";
    const std::string fits = fits_workspace(text.gradients_bytes());
    for (CudaKernel* kernel : {&terms, &gradients}) kernel->launch.bounds.insert(fits);
    return {{std::move(terms), std::move(gradients)}, text.backward_workspace(), 1};
  }
  CudaKernel queries = text.kernel(
      AttentionKernel::query_gradients, "attention_query_gradients", {q, k, v, out, lse, d_out, d_q},
      code("{}, {}, {},\n      {}, lse, {},\n      {}, reinterpret_cast<QueryTerms*>(workspace)",
           text.heads(q), text.heads(k), text.heads(v), text.heads(out), text.heads(d_out), text.heads(d_q)),
      "float*");
  queries.comment = "d_q, and for each query its lse and d_out . out";
  CudaKernel keys = text.kernel(
      AttentionKernel::key_gradients, "attention_key_gradients", {q, k, v, d_out, d_k, d_v},
      code("{}, {}, {},\n      {}, reinterpret_cast<const QueryTerms*>(workspace),\n      {}, {}",
           text.heads(q), text.heads(k), text.heads(v), text.heads(d_out), text.heads(d_k), text.heads(d_v)),
      "const float*");
  keys.comment = "d_k and d_v, the probabilities again from q, k and lse";
  const std::string fits = fits_workspace(text.query_terms_bytes());
  for (CudaKernel* kernel : {&queries, &keys}) kernel->launch.bounds.insert(fits);
  return {{std::move(queries), std::move(keys)}, text.backward_workspace()};
}

}  // namespace hydrac::codegen
