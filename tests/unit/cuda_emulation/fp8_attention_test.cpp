// Attention's forward pass with matmuls of 8 bits, emulated: its operands are the ones that were asked for,
// so that lse is that of the rounded queries and keys, and out is theirs but for the rounding of
// probabilities.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "aligned_buffer.h"
#include "cuda/attention/geometry.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"
#include "tests/gpu/fp8_attention_reference.h"

namespace hydrac::emulation {
namespace {

using cuda::AttentionKernel;
using test::AttentionCase;

cuda::AttentionProblem problem_of(const AttentionCase& c) {
  return {.capability = 90,
          .element_bytes = 2,
          .is_bf16 = true,
          .has_dropout = false,
          .batch = c.batch,
          .tokens = c.tokens,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .causal = c.causal};
}

std::string source_of(const std::string& mask, int head_dim) {
  std::string source = R"(#include "cuda/attention/fp8_forward.cuh"
#include "cuda/attention/fp8_operands.cuh"
using namespace hydrac;
using namespace hydrac::cuda;
constexpr int D = @DIM@;
constexpr AttentionProblem problem{90, 2, true, false, 1, 1, 1, 1, D};
template <AttentionKernel kernel>
using Config = AttentionConfig<bf16, D, AttentionFamily::hopper, attention_tile(problem, kernel), @MASK@, LinearScores, false>;
template <class T>
Heads<T> dense(T* data, const SequenceShape& s, int heads) {
  return {data, static_cast<std::int64_t>(heads) * D * s.tokens, static_cast<std::int64_t>(heads) * D, D};
}
// What a kernel reads of the sequence that its block works on.
template <class Config>
auto sequence(const SequenceShape& s, const std::int32_t* documents) {
  if constexpr (Config::Mask::has_documents) {
    return PackedShape{s, documents + 2 * s.tokens * sequence_of_fp8_queries<Config>(s)};
  } else {
    return s;
  }
}
extern "C" __global__ void operands(const bf16* k, const bf16* v, void* workspace, SequenceShape s) {
  attention_fp8_operands<Config<AttentionKernel::fp8_operands>>(s, dense(k, s, s.kv_heads), dense(v, s, s.kv_heads), workspace);
}
extern "C" __global__ void forward(const bf16* q, const void* workspace, bf16* out, float* lse, SequenceShape s,
                                   const std::int32_t* documents) {
  using Own = Config<AttentionKernel::fp8_forward>;
  attention_fp8_forward<Own>(sequence<Own>(s, documents), dense(q, s, s.heads), dense(out, s, s.heads), lse, workspace);
}
)";
  for (const auto& [name, value] :
       {std::pair<std::string, std::string>{"@DIM@", std::to_string(head_dim)}, {"@MASK@", mask}}) {
    for (size_t at = source.find(name); at != std::string::npos; at = source.find(name))
      source.replace(at, name.size(), value);
  }
  return source;
}

template <class T>
double error(Buffer<T>& x, const std::vector<double>& reference) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(to_float(x[i]) - reference[i], 2);
    size += reference[i] * reference[i];
  }
  return std::sqrt(difference / size);
}

class Fp8Attention {
 public:
  Fp8Attention(const std::string& mask, int head_dim)
      : head_dim_(head_dim),
        causal_(mask.find("FullMask") == std::string::npos),
        kernels_(source_of(mask, head_dim), {"operands", "forward"}) {}

  void check(AttentionCase c) {
    c.head_dim = head_dim_, c.causal = causal_;
    SCOPED_TRACE(testing::Message() << "T " << c.tokens << ", window " << c.window << ", documents of "
                                    << c.document);
    const size_t tokens = static_cast<size_t>(c.batch) * c.tokens, query = tokens * c.heads * c.head_dim,
                 key = tokens * c.kv_heads * c.head_dim;
    Buffer<bf16> q(query), k(key), v(key), out(query);
    Buffer<float> lse(tokens * c.heads);
    Buffer<unsigned char> workspace(attention_fp8_workspace(problem_of(c)));
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (Buffer<bf16>* x : {&q, &k, &v}) {
      for (size_t i = 0; i < x->size(); ++i) {
        // Tiles of values differ in size, and so do rows of queries.
        const float size = x == &q ? static_cast<float>(i % 5 + 1) : i / 8192 % 2 == 0 ? 1.0f : 8.0f;
        (*x)[i] = from_float<bf16>(normal(random) * (x == &k ? 1.0f : size));
      }
    }
    const auto make_steep = [&](Buffer<bf16>& x, int heads, bool is_key) {
      for (size_t i = 0; i < x.size(); ++i) {
        const int row = static_cast<int>(i) / c.head_dim, token = row / heads % c.tokens;
        x[i] = from_float<bf16>(
            test::steep_element(is_key, token, static_cast<int>(i) % c.head_dim, to_float(x[i])));
      }
    };
    if (c.steep) {
      make_steep(q, c.heads, false);
      make_steep(k, c.kv_heads, true);
    }
    bf16 *q_at = q.data(), *k_at = k.data(), *v_at = v.data(), *out_at = out.data();
    float* lse_at = lse.data();
    void* workspace_at = workspace.data();
    SequenceShape shape{c.tokens, c.heads, c.kv_heads, static_cast<float>(c.scale()), c.window};
    const std::vector<std::int32_t> documents = c.documents();
    const std::int32_t* documents_at = documents.data();
    launch(c, "operands", AttentionKernel::fp8_operands, {&k_at, &v_at, &workspace_at, &shape});
    launch(c, "forward", AttentionKernel::fp8_forward,
           {&q_at, &workspace_at, &out_at, &lse_at, &shape, &documents_at});

    const test::AttentionTensors r = test::fp8_attention_reference(c, q_at, k_at, v_at);
    EXPECT_LT(error(lse, r.lse), 1e-4);
    EXPECT_LT(error(out, r.out), 0.03);
  }

 private:
  void launch(const AttentionCase& c, const std::string& kernel, AttentionKernel which,
              const std::vector<void*>& arguments) {
    const cuda::AttentionLaunch launch = attention_launch(problem_of(c), which);
    kernels_.launch(kernel,
                    {{launch.grid, 1, 1}, {static_cast<unsigned>(launch.threads), 1, 1}, launch.shared_bytes},
                    arguments, Order::ascending);
  }

  int head_dim_;
  bool causal_;
  EmulatedKernels kernels_;
};

AttentionCase fp8_case_of(int tokens, int window = 0, int document = 0) {
  AttentionCase c{document > 0 ? 2 : 1, tokens, 2, 1, 0, 0, true, 0};
  c.window = window, c.document = document;
  return c;
}

// More and fewer tokens than a block of queries has, and no multiple of a tile.
TEST(EmulatedFp8Attention, OfEveryMask) {
  Fp8Attention causal("CausalMask", 64);
  for (const int tokens : {8, 128, 300}) causal.check(fp8_case_of(tokens));
  Fp8Attention windows("WindowMask", 64);
  for (const int window : {1, 100, 200}) windows.check(fp8_case_of(449, window));
  Fp8Attention("FullMask", 64).check(fp8_case_of(200));
  Fp8Attention("DocumentMask<CausalMask>", 64).check(fp8_case_of(300, 0, 70));
}

// Tiles that a query sees nothing of come before those with its keys, whose scores may all be far below 0.
TEST(EmulatedFp8Attention, OfSteepScoresBehindMaskedTiles) {
  const auto steep = [](AttentionCase c) {
    c.steep = true;
    return c;
  };
  Fp8Attention windows("WindowMask", 64);
  for (const int window : {20, 150}) windows.check(steep(fp8_case_of(449, window)));
  Fp8Attention("DocumentMask<CausalMask>", 64).check(steep(fp8_case_of(449, 0, 100)));
}

TEST(EmulatedFp8Attention, OfWideHeads) {
  Fp8Attention("CausalMask", 128).check(fp8_case_of(300));
  Fp8Attention("DocumentMask<WindowMask>", 128).check(fp8_case_of(200, 60, 100));
}

}  // namespace
}  // namespace hydrac::emulation
