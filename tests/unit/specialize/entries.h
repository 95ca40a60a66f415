// Kernels over the templates, as codegen prints them: what the tests specialize.
#pragma once
#include <fmt/format.h>

#include <string>

namespace hydrac::specialize::test {

struct CudaAttention {
  std::string kernel;  // forward, query_gradients, key_gradients, query_terms, gradients,
                       // head_gradients
  int capability = 90;
  std::string type = "bf16";  // bf16, f16, float
  int head_dim = 64;
  bool has_dropout = false;
  std::string mask = "CausalMask";  // a struct of attention/mask.h
  bool has_softcap = false;
  int tokens = 1024;
  int kv_heads = 12;
  bool has_documents = false;

  std::string name() const {
    return fmt::format("sm_{} {} {} {}{} {}{}{}", capability, kernel, type, head_dim,
                       has_dropout ? " dropout" : "", mask, has_softcap ? " softcap" : "",
                       has_documents ? " documents" : "");
  }
};

inline std::string cuda_attention_shape(const CudaAttention& a) {
  const std::string sizes = fmt::format("{{{}, 12, {}, 0.125f{}{}}}", a.tokens, a.kv_heads,
                                        a.mask == "WindowMask" ? ", 200" : (a.has_softcap ? ", 0" : ""),
                                        a.has_softcap ? ", 50.0f" : "");
  if (a.has_documents)
    return fmt::format(
        "constexpr hydrac::SequenceShape sequence{};\n"
        "  const hydrac::cuda::PackedShape shape{{sequence, documents + {} * "
        "hydrac::cuda::sequence_of_{}<Config>(sequence)}};",
        sizes, 2 * a.tokens, a.kernel == "key_gradients" ? "keys" : "queries");
  if (a.kernel == "forward" || a.kernel == "query_gradients" || a.kernel == "key_gradients")
    return fmt::format("constexpr hydrac::SequenceShape shape{};", sizes);
  return fmt::format("constexpr hydrac::AttentionShape shape{{{}, 16}};", sizes);
}

inline std::string cuda_attention_entry(const CudaAttention& a) {
  const std::string type = a.type == "float" ? "float" : "hydrac::" + a.type;
  const auto heads = [&](const std::string& pointer) {
    return fmt::format("{{{}, {}, {}, {}}}", pointer, a.tokens * a.head_dim * 12, a.head_dim * 12,
                       a.head_dim);
  };
  std::string parameters = fmt::format("const {0}* q, const {0}* k, const {0}* v, ", type);
  std::string arguments = heads("q") + ", " + heads("k") + ", " + heads("v") + ", ";
  if (a.kernel == "forward") {
    parameters += fmt::format("{}* out, float* lse", type);
    arguments += heads("out") + ", lse";
  } else if (a.kernel == "query_gradients") {
    parameters += fmt::format(
        "const {0}* out, const float* lse, const {0}* d_out, {0}* d_q, hydrac::QueryTerms* terms", type);
    arguments += heads("out") + ", lse, " + heads("d_out") + ", " + heads("d_q") + ", terms";
  } else if (a.kernel == "query_terms") {
    parameters = fmt::format("const {0}* out, const float* lse, const {0}* d_out, float* workspace", type);
    arguments = heads("out") + ", lse, " + heads("d_out") + ", workspace";
  } else if (a.kernel == "gradients") {
    parameters += fmt::format("const {0}* d_out, {0}* d_q, {0}* d_k, {0}* d_v, float* workspace", type);
    arguments +=
        heads("d_out") + ", " + heads("d_q") + ", " + heads("d_k") + ", " + heads("d_v") + ", workspace";
  } else if (a.kernel == "head_gradients") {
    parameters +=
        fmt::format("const {0}* out, const float* lse, const {0}* d_out, {0}* d_q, {0}* d_k, {0}* d_v", type);
    arguments += heads("out") + ", lse, " + heads("d_out") + ", " + heads("d_q") + ", " + heads("d_k") +
                 ", " + heads("d_v");
  } else {
    parameters += fmt::format("const {0}* d_out, {0}* d_k, {0}* d_v, hydrac::QueryTerms* terms", type);
    arguments += heads("d_out") + ", terms, " + heads("d_k") + ", " + heads("d_v");
  }
  if (a.has_documents) parameters += ", const std::int32_t* documents";
  const std::string mask = a.has_documents ? fmt::format("DocumentMask<hydrac::{}>", a.mask) : a.mask;
  const bool takes_dropout = a.kernel != "query_terms";
  std::string dropout = takes_dropout ? "constexpr hydrac::AttentionDropout dropout{0, 0, 1.0f};" : "";
  if (a.has_dropout && takes_dropout) {
    parameters += ", const std::uint32_t* rng_step, const std::uint32_t* rng_seed, int layer";
    dropout =
        "const hydrac::AttentionDropout dropout{hydrac::random_key(*rng_seed, *rng_step, 7u + layer), "
        "655u, 1.01f};";
  }
  return fmt::format(
      "#include \"cuda/attention/attention.cuh\"\n\n"
      "// What it computes.\n"
      "extern \"C\" __global__ void __launch_bounds__(128, 2) attention_{0}({1}) {{\n"
      "  constexpr hydrac::cuda::AttentionProblem problem{{.capability = {2}, .element_bytes = {3}, .is_bf16 "
      "= {4},\n"
      "      .has_dropout = {5}, .tokens = {6}, .heads = 12, .kv_heads = {7}, .head_dim = "
      "{8}, .causal = {15}, .has_softcap = {16}, .has_documents = {18}}};\n"
      "  using Config = hydrac::cuda::AttentionConfig<{9}, {8}, attention_family(problem),\n"
      "      attention_tile(problem, hydrac::cuda::AttentionKernel::{0}), hydrac::{10}, hydrac::{17}, {5}>;\n"
      "  {14}\n  {11}\n"
      "  hydrac::cuda::attention_{0}<Config>(shape, {12}{13});\n}}\n",
      a.kernel, parameters, a.capability, a.type == "float" ? 4 : 2, a.type == "bf16", a.has_dropout,
      a.tokens, a.kv_heads, a.head_dim, type, mask, dropout, arguments, takes_dropout ? ", dropout" : "",
      cuda_attention_shape(a), a.mask != "FullMask", a.has_softcap,
      a.has_softcap ? "CappedScores" : "LinearScores", a.has_documents);
}

inline std::string cuda_embedding_entry(const std::string& y_type, const std::string& table_type,
                                        bool accumulate) {
  const std::string constants =
      fmt::format("hydrac::cuda::EmbeddingGradient{{16384, 768, 50304, {}, {}, {}}}",
                  y_type == "float" ? 4 : 2, table_type == "float" ? 4 : 2, accumulate);
  return fmt::format(
      "#include \"cuda/embedding_backward.cuh\"\n\n"
      "// Within a chunk.\n"
      "extern \"C\" __global__ void __launch_bounds__(192, 4) embedding_gradient_runs(const std::int32_t* "
      "ids,\n"
      "    const std::int32_t* order, const {0}* d_y, {1}* d_table, float* workspace) {{\n"
      "  hydrac::cuda::embedding_gradient_runs<{0}, {1}, {2}>(ids, order, d_y, d_table, workspace);\n}}\n\n"
      "// Across the borders of chunks.\n"
      "extern \"C\" __global__ void __launch_bounds__(256, 4) embedding_gradient_borders({1}* d_table, "
      "float* workspace) {{\n"
      "  hydrac::cuda::embedding_gradient_borders<{1}, {2}>(workspace, d_table);\n}}\n",
      y_type, table_type, constants);
}

// A matmul with an epilogue of the kernel's own, as the cuda target prints it: d_x from d_y w with a column
// sum, or the two halves of x w^T.
inline std::string cuda_matmul_entry(bool paired) {
  const std::string members =
      paired ? "  bf16* y;\n" : "  bf16* y;\n  float* partials[1];\n  float sum[1][8];\n";
  const std::string body =
      paired ? "const Vector<bf16, 8>& gate, const Vector<bf16, 8>& up, const Operands&) {\n"
               "    float y_out[8];\n"
               "    for (int j = 0; j < 8; ++j) y_out[j] = element(gate, j) * element(up, j);\n"
             : "const Vector<bf16, 8>& matmul, const Operands& in) {\n"
               "    float y_out[8];\n"
               "    for (int j = 0; j < 8; ++j) {\n"
               "      y_out[j] = element(matmul, j) * element(in.x, j);\n"
               "      sum[0][j] += y_out[j];\n"
               "    }\n";
  return fmt::format(
      "#include \"cuda/matmul/matmul.cuh\"\n#include \"cuda/vector.cuh\"\n\n"
      "namespace hydrac {{\n\n"
      "// What it computes.\n"
      "struct matmul_{0}_epilogue {{\n"
      "  static constexpr int sums = {1};\n"
      "  struct Operands {{{2}}};\n"
      "{3}"
      "  const bf16* x;\n\n"
      "  __device__ void begin(int) {{}}\n"
      "  __device__ Operands load(std::int64_t r, int c) const {{ {4} }}\n"
      "  __device__ void operator()(std::int64_t r, int c, {5}"
      "    store_columns<8>(y + r * 3072 + c, y_out);\n"
      "  }}\n}};\n\n"
      "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) matmul_{0}(\n"
      "    const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, const bf16* x, "
      "bf16* y, "
      "float* workspace) {{\n"
      "  using Config = cuda::MatmulConfig<{6}>;\n"
      "  matmul_{0}_epilogue epilogue{{.y = y{7}, .x = x}};\n"
      "  cuda::matmul<Config>(left, right, 16384, epilogue);\n}}\n\n}}  // namespace hydrac\n",
      paired ? "pair" : "sum", paired ? 0 : 1, paired ? "" : "Vector<bf16, 8> x;", members,
      paired ? "return {};" : "return {load_columns<8>(x + r * 3072 + c)};", body,
      paired
          ? "bf16, 6144, 768, true, true, cuda::MatmulTile{cuda::MatmulSchedule::persistent, 192, 2, 4, 2}"
          : "bf16, 3072, 768, false, false, cuda::MatmulTile{cuda::MatmulSchedule::persistent, 128, 2, 5, 2}",
      paired ? "" : ", .partials = {workspace}");
}

// A matmul of one tile a block that is only stored; one whose k goes around the stages.
inline std::string cuda_one_tile_matmul_entry(bool ring) {
  return fmt::format(
      "#include \"cuda/matmul/matmul.cuh\"\n#include \"cuda/vector.cuh\"\n\n"
      "namespace hydrac {{\n\n"
      "struct plain_matmul_{0}_epilogue {{\n"
      "  static constexpr int sums = 0;\n"
      "  struct Operands {{}};\n"
      "  bf16* matmul;\n\n"
      "  __device__ void begin(int) {{}}\n"
      "  __device__ Operands load(std::int64_t, int) const {{ return {{}}; }}\n"
      "  __device__ void operator()(std::int64_t r, int c, const Vector<bf16, 8>& matmul_in, const "
      "Operands&) {{\n"
      "    store(matmul + r * 256 + c, matmul_in);\n"
      "  }}\n}};\n\n"
      "extern \"C\" __global__ void __launch_bounds__(288, 1) plain_matmul_{0}(\n"
      "    const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, bf16* matmul) "
      "{{\n"
      "  using Config = cuda::MatmulConfig<bf16, 256, {1}, {2}, false, cuda::MatmulTile{3}>;\n"
      "  plain_matmul_{0}_epilogue epilogue{{.matmul = matmul}};\n"
      "  cuda::matmul<Config>(left, right, 2048, epilogue);\n}}\n\n}}  // namespace hydrac\n",
      ring ? "ring" : "once", ring ? 1024 : 256, ring,
      ring ? "{cuda::MatmulSchedule::one_tile, 64, 2, 5}" : "{cuda::MatmulSchedule::one_tile, 64, 2, 4}");
}

// Two gradients by blocks that add to what is there, or by clusters that split the rows.
inline std::string cuda_weight_gradients_entry(bool clusters) {
  return fmt::format(
      "#include \"cuda/matmul/weight_gradients.cuh\"\n\n"
      "namespace hydrac {{\n\n"
      "extern \"C\" __global__ void {0}__launch_bounds__({1}, 1) weight_gradients(\n"
      "    const __grid_constant__ TensorMap d_y_1, const __grid_constant__ TensorMap x_1,\n"
      "    const __grid_constant__ TensorMap d_y_2, const __grid_constant__ TensorMap x_2,\n"
      "    float* d_w_1, float* d_w_2) {{\n"
      "  using Config = cuda::WeightGradientsConfig<bf16, 2048, {2}, cuda::WeightGradientTile{3}>;\n"
      "  const cuda::WeightGradient gradients[] = {{{{&d_y_1, &x_1, d_w_1, 1152, 384}},\n"
      "                                            {{&d_y_2, &x_2, d_w_2, 384, 1152}}}};\n"
      "  cuda::weight_gradients<Config>(gradients);\n}}\n\n}}  // namespace hydrac\n",
      clusters ? "__cluster_dims__(2, 1, 1) " : "", clusters ? 512 : 384, !clusters,
      clusters ? "{3, 192, 4, 2}" : "{2, 128, 6, 1}");
}

// Kernels of mixtures of experts: a matmul of each on tensor cores that is only stored, gradients of their
// matrices there, both on any GPU, and the sort of the rows.
inline std::vector<std::pair<const char*, std::string>> cuda_expert_entries() {
  return {
      {"grouped matmul",
       "#include \"cuda/matmul/matmul.cuh\"\n#include \"cuda/vector.cuh\"\n\nnamespace hydrac {\n\n"
       "struct plain_matmul_epilogue {\n  static constexpr int sums = 0;\n  struct Operands {};\n"
       "  bf16* matmul;\n\n  __device__ void begin(int) {}\n"
       "  __device__ Operands load(std::int64_t, int) const { return {}; }\n"
       "  __device__ void operator()(std::int64_t r, int c, const Vector<bf16, 8>& matmul_in, const "
       "Operands&) {\n    store(matmul + r * 1536 + c, matmul_in);\n  }\n};\n\n"
       "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) plain_matmul(\n"
       "    const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right,\n"
       "    const int* offsets, bf16* matmul) {\n"
       "  using Config = cuda::MatmulConfig<bf16, 1536, 2048, true, false,\n"
       "      cuda::MatmulTile{cuda::MatmulSchedule::persistent, 128, 2, 5, 2}, 0, 64>;\n"
       "  plain_matmul_epilogue epilogue{.matmul = matmul};\n"
       "  cuda::grouped_matmul<Config>(left, right, offsets, epilogue);\n}\n\n}  // namespace hydrac\n"},
      {"expert gradients",
       "#include \"cuda/matmul/expert_gradients.cuh\"\n\nnamespace hydrac {\n\n"
       "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) expert_gradients(\n"
       "    const __grid_constant__ TensorMap d_y, const __grid_constant__ TensorMap x, float* d_w,\n"
       "    const int* offsets) {\n"
       "  using Config = cuda::ExpertGradientsConfig<bf16, float, 64, 1536, 2048, true,\n"
       "      cuda::ExpertGradientTile{192, 5, 2}>;\n"
       "  cuda::expert_gradients<Config>(d_y, x, offsets, d_w);\n}\n\n}  // namespace hydrac\n"},
      {"any GPU's, and the sort of rows",
       "#include \"cuda/expert_rows.cuh\"\n#include \"cuda/matmul/plain_experts.cuh\"\n\n"
       "extern \"C\" __global__ void __launch_bounds__(256) expert_matmul(const hydrac::bf16* x,\n"
       "    const hydrac::bf16* weights, const int* offsets, hydrac::bf16* y) {\n"
       "  hydrac::cuda::plain_expert_matmul<hydrac::bf16, 64, 1536, 2048, true, true>(x, weights, offsets, "
       "y);\n}\n\n"
       "extern \"C\" __global__ void __launch_bounds__(256) expert_gradients(const float* d_y,\n"
       "    const float* x, float* d_w, const int* offsets) {\n"
       "  hydrac::cuda::plain_expert_gradients<float, float, 64, 1536, 2048, true, false>(d_y, x, offsets, "
       "d_w);\n}\n\n"
       "extern \"C\" __global__ void __launch_bounds__(256) count_experts(const int* chosen, float* "
       "workspace) "
       "{\n  hydrac::cuda::count_experts<hydrac::cuda::ExpertChoices{32768, 64, 128, 40960}>(chosen, "
       "workspace);\n}\n\n"
       "extern \"C\" __global__ void __launch_bounds__(256) expert_rows(const int* chosen, int* source,\n"
       "    int* place, int* offsets, const float* workspace) {\n"
       "  hydrac::cuda::place_experts<hydrac::cuda::ExpertChoices{32768, 64, 128, 40960}>(chosen, workspace, "
       "source, place, offsets);\n}\n"}};
}

// A matmul with an rmsnorm behind it, 256 or 384 wide.
inline std::string cuda_whole_rows_matmul_entry(bool wide) {
  const int n = wide ? 384 : 256;
  return fmt::format(
      "#include \"cuda/matmul/matmul.cuh\"\n#include \"cuda/vector.cuh\"\n\n"
      "namespace hydrac {{\n\n"
      "struct matmul_{0}_epilogue {{\n"
      "  static constexpr int sums = 1, passes = 2, reductions = 1;\n"
      "  struct Operands {{ Vector<bf16, 8> x; }};\n"
      "  struct Kept {{ float y[8]; }};\n"
      "  const bf16* x;\n  bf16* y;\n  float* partials[1];\n  float sum[1][8];\n\n"
      "  __device__ void begin(int) {{}}\n"
      "  __device__ Operands load(std::int64_t r, int c) const {{ return {{load_columns<8>(x + r * {1} + "
      "c)}}; "
      "}}\n"
      "  template <int pass>\n"
      "  __device__ void apply(std::int64_t r, int c, const Vector<bf16, 8>& matmul_in, const Operands& "
      "in,\n"
      "                        Kept& kept, const float (&totals)[1], float (&partial)[1]) {{\n"
      "    if constexpr (pass == 0) {{\n"
      "      for (int j = 0; j < 8; ++j) {{\n"
      "        kept.y[j] = element(matmul_in, j) + element(in.x, j);\n"
      "        partial[0] += kept.y[j] * kept.y[j];\n"
      "        sum[0][j] += kept.y[j];\n"
      "      }}\n"
      "    }} else {{\n"
      "      for (int j = 0; j < 8; ++j) kept.y[j] *= totals[0];\n"
      "      store_columns<8>(y + r * {1} + c, kept.y);\n"
      "    }}\n"
      "  }}\n}};\n\n"
      "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__({2}, 1) matmul_{0}(\n"
      "    const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, const bf16* x, "
      "bf16* y, float* workspace) {{\n"
      "  using Config = cuda::MatmulConfig<bf16, {1}, 1024, {3}, false, "
      "cuda::MatmulTile{{cuda::MatmulSchedule::whole_rows, {4}, 2}}>;\n"
      "  matmul_{0}_epilogue epilogue{{.x = x, .y = y, .partials = {{workspace}}}};\n"
      "  cuda::matmul<Config>(left, right, 2048, epilogue);\n}}\n\n}}  // namespace hydrac\n",
      wide ? "wide" : "narrow", n, wide ? 512 : 384, wide, wide ? "128, 6, 3" : "128, 4, 4");
}

// forward(q, k, v, out, lse, workspace) and backward(..., dout, dq, dk, dv, ...), dense tensors [2, 70, 4 or
// 2, head_dim].
inline std::string cpu_attention_entry(int head_dim, const std::string& mask, const std::string& scores,
                                       bool has_dropout) {
  const auto heads = [&](const std::string& pointer, int count) {
    return fmt::format("{{{}, {}, {}, {}}}", pointer, 70 * count * head_dim, count * head_dim, head_dim);
  };
  return fmt::format(
      "#include \"cpu/attention.h\"\n\n"
      "extern \"C\" void forward(const float* q, const float* k, const float* v, float* out, float* lse, "
      "void* workspace) {{\n"
      "  constexpr hydrac::cpu::AttentionShape shape{{2, 70, 4, 2, 0.25f, 20, 5.0f}};\n"
      "  constexpr hydrac::cpu::AttentionDropout dropout{{17, {3}, 1.25f}};\n"
      "  hydrac::cpu::attention_forward<{0}, hydrac::{1}, hydrac::{12}, {2}>(shape, {4}, {5}, {6}, {7}, lse, "
      "dropout, {{workspace, "
      "2}});\n}}\n\n"
      "extern \"C\" void backward(const float* q, const float* k, const float* v, const float* out, const "
      "float* lse,\n"
      "    const float* d_out, float* d_q, float* d_k, float* d_v, void* workspace) {{\n"
      "  constexpr hydrac::cpu::AttentionShape shape{{2, 70, 4, 2, 0.25f, 20, 5.0f}};\n"
      "  constexpr hydrac::cpu::AttentionDropout dropout{{17, {3}, 1.25f}};\n"
      "  hydrac::cpu::attention_backward<{0}, hydrac::{1}, hydrac::{12}, {2}>(shape, {4}, {5}, {6}, {7}, "
      "lse, {8}, {9}, {10}, "
      "{11}, dropout,\n"
      "      {{workspace, 2}});\n}}\n",
      head_dim, mask, has_dropout, has_dropout ? 13107u : 0u, heads("q", 4), heads("k", 2), heads("v", 2),
      heads("out", 4), heads("d_out", 4), heads("d_q", 4), heads("d_k", 2), heads("d_v", 2), scores);
}

}  // namespace hydrac::specialize::test
