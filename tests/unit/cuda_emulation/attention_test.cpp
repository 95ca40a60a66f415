// Attention's CUDA kernels, emulated, against float64: those without matrix units, those of mma.sync and of
// wgmma, forward and all backward passes, with every mask and score rule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "aligned_buffer.h"
#include "cuda/attention/arguments.h"
#include "cuda/attention/geometry.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"
#include "tests/gpu/attention_reference.h"

namespace hydrac::emulation {
namespace {

using cuda::AttentionKernel;
using cuda::AttentionProblem;
using test::AttentionCase;
using test::AttentionTensors;

struct Rules {
  std::string mask = "CausalMask", scores = "LinearScores";

  bool has_documents() const { return mask.starts_with("DocumentMask"); }
  bool is_causal() const { return mask.find("FullMask") == std::string::npos; }
};

struct Kind {
  int capability;
  std::string type;  // float, bf16
  int head_dim;
  Rules rules;
  bool has_dropout = false;
  int head_tokens = 0;  // where not 0, the gradients of whole heads, of that many tokens
  cuda::AttentionTiles tiles = {};

  // Whether Hopper's own kernels take the heads, as attention_family() says: others are multiplied by
  // mma.sync.
  bool has_warpgroups() const { return capability == 90 && head_dim % 64 == 0; }
};

std::vector<std::string> kernels_of(const Kind& kind) {
  if (kind.head_tokens > 0) return {"forward", "heads"};
  if (kind.has_warpgroups() && !kind.rules.has_documents() && !kind.tiles.ask_for_pair())
    return {"forward", "queries", "keys", "terms", "pieces"};
  return {"forward", "queries", "keys"};
}

AttentionProblem problem_of(const Kind& kind, const AttentionCase& c) {
  return {kind.capability,
          kind.type == "float" ? 4 : 2,
          kind.type == "bf16",
          kind.has_dropout,
          c.batch,
          c.tokens,
          c.heads,
          c.kv_heads,
          kind.head_dim,
          kind.rules.is_causal(),
          kind.rules.scores != "LinearScores",
          kind.rules.has_documents(),
          cuda::kHopper.multiprocessors,
          kind.tiles};
}

std::string text_of(const cuda::AttentionTiles& tiles) {
  const auto text = [](cuda::TileShape shape) {
    return fmt::format("{{{}, {}}}", shape.rows, shape.columns);
  };
  return fmt::format("{{{}, {}, {}}}", text(tiles.forward), text(tiles.query_gradients),
                     text(tiles.key_gradients));
}

// The kernels on packed tensors, qkv [B,T,(H+2K)D].
std::string source_of(const Kind& kind) {
  const std::string text = R"(#include "cuda/attention/forward.cuh"
#include "cuda/attention/gradients.cuh"
#include "cuda/attention/head_gradients.cuh"
#include "cuda/attention/key_gradients.cuh"
#include "cuda/attention/query_gradients.cuh"
#include "cuda/attention/query_terms.cuh"
using namespace hydrac;
using namespace hydrac::cuda;
using Storage = @TYPE@;
constexpr int D = @DIM@;
constexpr AttentionProblem problem{@CAPABILITY@, sizeof(Storage), __is_same(Storage, bf16), @DROPS@, 1, @TOKENS@, 1, 1, D,
                                   @MASK@::hides_later, !@SCORES@::is_linear, @MASK@::has_documents,
                                   kHopper.multiprocessors, @TILES@};
template <AttentionKernel kernel>
using Config = AttentionConfig<Storage, D, attention_family(problem), attention_tile(problem, kernel), @MASK@, @SCORES@,
                               @DROPS@>;
template <class T>
Heads<T> packed(T* data, const AttentionShape& s, int first) {
  const std::int64_t token = (s.heads + 2 * s.kv_heads) * D;
  return {data + first * D, token * s.tokens, token, D};
}
template <class T>
Heads<T> dense(T* data, const AttentionShape& s) {
  return {data, static_cast<std::int64_t>(s.heads) * D * s.tokens, static_cast<std::int64_t>(s.heads) * D, D};
}
// What a kernel reads of the sequence that its block works on.
template <class Config, bool of_keys, class Shape>
auto sequence(const Shape& s, const std::int32_t* documents) {
  if constexpr (Config::Mask::has_documents) {
    const int batch = of_keys ? sequence_of_keys<Config>(s) : sequence_of_queries<Config>(s);
    return PackedShape{s, documents + 2 * s.tokens * batch};
  } else {
    return s;
  }
}
#define INPUTS packed(qkv, s, 0), packed(qkv, s, s.heads), packed(qkv, s, s.heads + s.kv_heads)
#define GRADIENTS packed(d_qkv, s, 0), packed(d_qkv, s, s.heads), packed(d_qkv, s, s.heads + s.kv_heads)
extern "C" __global__ void forward(const Storage* qkv, Storage* out, float* lse, AttentionShape s, AttentionDropout drop,
                                   const std::int32_t* documents) {
  using Own = Config<AttentionKernel::forward>;
  attention_forward<Own>(sequence<Own, false>(s, documents), INPUTS, dense(out, s), lse, drop);
}
extern "C" __global__ void queries(const Storage* qkv, const Storage* out, const float* lse, const Storage* d_out, Storage* d_qkv,
                                   void* workspace, AttentionShape s, AttentionDropout drop, const std::int32_t* documents) {
  using Own = Config<AttentionKernel::query_gradients>;
  attention_query_gradients<Own>(
      sequence<Own, false>(s, documents), INPUTS, dense(out, s), lse, dense(d_out, s), packed(d_qkv, s, 0), static_cast<QueryTerms*>(workspace), drop);
}
extern "C" __global__ void keys(const Storage* qkv, const Storage* d_out, Storage* d_qkv, void* workspace, AttentionShape s,
                                AttentionDropout drop, const std::int32_t* documents) {
  using Own = Config<AttentionKernel::key_gradients>;
  attention_key_gradients<Own>(
      sequence<Own, true>(s, documents), INPUTS, dense(d_out, s), static_cast<const QueryTerms*>(workspace), packed(d_qkv, s, s.heads),
      packed(d_qkv, s, s.heads + s.kv_heads), drop);
}
)";
  const std::string of_pieces = R"(
extern "C" __global__ void terms(const Storage* out, const float* lse, const Storage* d_out, void* workspace, AttentionShape s) {
  attention_query_terms<Config<AttentionKernel::query_terms>>(s, dense(out, s), lse, dense(d_out, s), workspace);
}
extern "C" __global__ void pieces(const Storage* qkv, const Storage* d_out, Storage* d_qkv, void* workspace, AttentionShape s,
                                  AttentionDropout drop) {
  attention_gradients<Config<AttentionKernel::gradients>>(s, INPUTS, dense(d_out, s), GRADIENTS, workspace, drop);
}
)";
  const std::string of_heads = R"(
extern "C" __global__ void heads(const Storage* qkv, const Storage* out, const float* lse, const Storage* d_out, Storage* d_qkv,
                                 AttentionShape s, AttentionDropout drop) {
  attention_head_gradients<Config<AttentionKernel::head_gradients>>(s, INPUTS, dense(out, s), lse, dense(d_out, s), GRADIENTS, drop);
}
)";
  std::string source = text;
  if (kind.has_warpgroups() && !kind.rules.has_documents() && !kind.tiles.ask_for_pair())
    source += kind.head_tokens > 0 ? of_heads : of_pieces;
  const std::pair<const char*, std::string> values[] = {
      {"@TYPE@", kind.type == "float" ? "float" : "hydrac::" + kind.type},
      {"@DIM@", std::to_string(kind.head_dim)},
      {"@CAPABILITY@", std::to_string(kind.capability)},
      {"@DROPS@", kind.has_dropout ? "true" : "false"},
      {"@TOKENS@", std::to_string(std::max(1, kind.head_tokens))},
      {"@MASK@", kind.rules.mask},
      {"@SCORES@", kind.rules.scores},
      {"@TILES@", text_of(kind.tiles)}};
  for (const auto& [name, value] : values) {
    for (size_t at = source.find(name); at != std::string::npos; at = source.find(name))
      source.replace(at, std::strlen(name), value);
  }
  return source;
}

// [B,T,count,D] out of packed heads, widened.
template <class T>
std::vector<double> slice(Buffer<T>& from, const AttentionCase& c, int all, int first, int count) {
  std::vector<double> to;
  for (int token = 0; token < c.batch * c.tokens; ++token) {
    for (int i = 0; i < count * c.head_dim; ++i)
      to.push_back(to_float(from[(static_cast<size_t>(token) * all + first) * c.head_dim + i]));
  }
  return to;
}

// Relative; of a reference that is 0, as d_q is where a query sees one key, over `scale`.
double error(const std::vector<double>& x, const std::vector<double>& reference, double scale) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    difference += (x[i] - reference[i]) * (x[i] - reference[i]);
    size += reference[i] * reference[i];
  }
  return std::sqrt(difference) / (size > 1e-18 ? std::sqrt(size) : scale);
}

// How the backward pass is computed.
enum class Backward { pair, pieces, heads };

template <class T>
class Attention {
 public:
  explicit Attention(const Kind& kind) : kind_(kind), kernels_(source_of(kind), kernels_of(kind)) {}

  // By every backward pass that the kernels have.
  void check(AttentionCase c) {
    c.head_dim = kind_.head_dim;
    c.causal = kind_.rules.is_causal();
    c.key = 77;
    c_ = c;
    SCOPED_TRACE(testing::Message() << "T " << c.tokens << ", window " << c.window << ", softcap "
                                    << c.softcap << ", documents of " << c.document);
    std::vector<Backward> backwards = {kind_.head_tokens > 0 ? Backward::heads : Backward::pair};
    if (kind_.has_warpgroups() && kind_.head_tokens == 0 && c.document == 0 && !kind_.tiles.ask_for_pair())
      backwards.push_back(Backward::pieces);
    const int all = c_.heads + 2 * c_.kv_heads;
    const size_t tokens = static_cast<size_t>(c_.batch) * c_.tokens;
    Buffer<T> qkv(tokens * all * c_.head_dim), d_out(tokens * c_.heads * c_.head_dim), out(d_out.size());
    Buffer<float> lse(tokens * c_.heads);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (Buffer<T>* x : {&qkv, &d_out}) {
      for (size_t i = 0; i < x->size(); ++i) (*x)[i] = from_float<T>(normal(random));
    }
    if (c_.steep) make_steep(qkv);
    AttentionTensors r;
    r.q = slice(qkv, c_, all, 0, c_.heads);
    r.k = slice(qkv, c_, all, c_.heads, c_.kv_heads);
    r.v = slice(qkv, c_, all, c_.heads + c_.kv_heads, c_.kv_heads);
    r.d_out = slice(d_out, c_, c_.heads, 0, c_.heads);
    attention_reference(c_, r);
    // A softcap rounds a score of 10,000 by 1e-3; without one, steep scores are exact.
    const double bound = sizeof(T) == 2 ? 6e-3 : c_.steep && c_.softcap > 0 ? 1e-3 : 3e-6;
    // A log-sum-exp of 10,000 is rounded by 5e-4; of d_scores in 16 bits 60 times as much reaches d_q.
    const double gradient_bound = !c_.steep ? bound : sizeof(T) == 4 ? 2e-3 : 5e-2;
    const double scale = std::sqrt(static_cast<double>(r.d_out.size()));

    T *qkv_at = qkv.data(), *out_at = out.data(), *d_out_at = d_out.data();
    float* lse_at = lse.data();
    const std::vector<std::int32_t> documents = c_.documents();
    const std::int32_t* documents_at = documents.data();
    launch("forward", AttentionKernel::forward,
           {&qkv_at, &out_at, &lse_at, &shape_, &dropout_, &documents_at});
    EXPECT_LT(error(slice(out, c_, c_.heads, 0, c_.heads), r.out, scale), bound);
    EXPECT_LT(error({lse_at, lse_at + lse.size()}, r.lse, scale), bound);
    for (Backward backward : backwards) {
      SCOPED_TRACE(static_cast<int>(backward));
      Buffer<T> d_qkv(qkv.size());
      T* d_at = d_qkv.data();
      Buffer<float> workspace(attention_gradients_workspace(problem_of(kind_, c_)) / 4);
      void* workspace_at = workspace.data();
      if (backward == Backward::pair) {
        launch(
            "queries", AttentionKernel::query_gradients,
            {&qkv_at, &out_at, &lse_at, &d_out_at, &d_at, &workspace_at, &shape_, &dropout_, &documents_at});
        launch("keys", AttentionKernel::key_gradients,
               {&qkv_at, &d_out_at, &d_at, &workspace_at, &shape_, &dropout_, &documents_at});
      } else if (backward == Backward::pieces) {
        launch("terms", AttentionKernel::query_terms, {&out_at, &lse_at, &d_out_at, &workspace_at, &shape_});
        launch("pieces", AttentionKernel::gradients,
               {&qkv_at, &d_out_at, &d_at, &workspace_at, &shape_, &dropout_});
      } else {
        launch("heads", AttentionKernel::head_gradients,
               {&qkv_at, &out_at, &lse_at, &d_out_at, &d_at, &shape_, &dropout_});
      }
      EXPECT_LT(error(slice(d_qkv, c_, all, 0, c_.heads), r.d_q, scale), gradient_bound);
      EXPECT_LT(error(slice(d_qkv, c_, all, c_.heads, c_.kv_heads), r.d_k, scale), gradient_bound);
      EXPECT_LT(error(slice(d_qkv, c_, all, c_.heads + c_.kv_heads, c_.kv_heads), r.d_v, scale),
                gradient_bound);
    }
  }

 private:
  void make_steep(Buffer<T>& qkv) const {
    const auto heads = static_cast<size_t>(c_.heads), with_keys = heads + static_cast<size_t>(c_.kv_heads),
               all = with_keys + static_cast<size_t>(c_.kv_heads),
               head_dim = static_cast<size_t>(c_.head_dim);
    for (size_t i = 0; i < qkv.size(); ++i) {
      const size_t head = i / head_dim % all, token = i / head_dim / all % static_cast<size_t>(c_.tokens);
      if (head < with_keys)
        qkv[i] = from_float<T>(test::steep_element(head >= heads, static_cast<int64_t>(token),
                                                   static_cast<int>(i % head_dim), to_float(qkv[i])));
    }
  }

  void launch(const std::string& kernel, AttentionKernel which, std::vector<void*> arguments) {
    shape_ = {{c_.tokens, c_.heads, c_.kv_heads, static_cast<float>(c_.scale()), c_.window,
               static_cast<float>(c_.softcap)},
              c_.batch};
    dropout_ = {c_.key, c_.threshold(), static_cast<float>(1 / (1 - c_.dropout))};
    const cuda::AttentionLaunch launch = attention_launch(problem_of(kind_, c_), which);
    kernels_.launch(kernel,
                    {{launch.grid, 1, 1}, {static_cast<unsigned>(launch.threads), 1, 1}, launch.shared_bytes},
                    arguments, Order::ascending);
  }

  Kind kind_;
  AttentionCase c_{};
  EmulatedKernels kernels_;
  AttentionShape shape_{};
  AttentionDropout dropout_{};
};

AttentionCase case_of(int tokens, int window = 0, double softcap = 0, double dropout = 0) {
  AttentionCase c{1, tokens, 2, 1, 0, dropout, true, 0};
  c.window = window, c.softcap = softcap;
  return c;
}

const Rules kCausal{}, kFull{"FullMask"}, kWindow{"WindowMask"}, kCapped{"CausalMask", "CappedScores"},
    kWindowCapped{"WindowMask", "CappedScores"};

TEST(EmulatedAttention, InFloats) {
  Attention<float>({75, "float", 32, kCausal}).check(case_of(70));
  Attention<float>({75, "float", 32, kFull}).check(case_of(70));
  Attention<float> windows({75, "float", 32, kWindow});
  for (int window : {1, 17, 64, 100, 300}) windows.check(case_of(170, window));
  Attention<float>({75, "float", 32, kCapped}).check(case_of(70, 0, 1.5));
  Attention<float>({75, "float", 32, kWindowCapped, true}).check(case_of(150, 40, 1.5, 0.25));
}

// Narrower than a tile of the matrix units, or no multiple of it.
TEST(EmulatedAttention, OfNarrowHeads) {
  for (const int head_dim : {8, 16, 24}) {
    Attention<bf16>({80, "bf16", head_dim, kCausal}).check(case_of(200));
    Attention<float>({75, "float", head_dim, kCausal}).check(case_of(70));
  }
  Attention<bf16>({90, "bf16", 16, kWindowCapped, true}).check(case_of(200, 70, 1.5, 0.25));
}

TEST(EmulatedAttention, ByWarps) {
  Attention<bf16>({80, "bf16", 64, kCausal}).check(case_of(200));
  Attention<bf16> windows({80, "bf16", 64, kWindow});
  for (int window : {1, 33, 128, 150}) windows.check(case_of(333, window));
  Attention<bf16>({80, "bf16", 64, kFull}).check(case_of(200));
  Attention<bf16>({80, "bf16", 64, kWindowCapped, true}).check(case_of(200, 70, 1.5, 0.25));
}

TEST(EmulatedAttention, ByWarpgroups) {
  Attention<bf16>({90, "bf16", 64, kCausal}).check(case_of(200));
  Attention<bf16> windows({90, "bf16", 64, kWindow});
  for (int window : {1, 64, 65, 150, 500}) windows.check(case_of(449, window));
  Attention<bf16>({90, "bf16", 64, kFull}).check(case_of(200));
  Attention<bf16>({90, "bf16", 64, kWindowCapped, true}).check(case_of(300, 70, 1.5, 0.25));
}

// Tiles that a spec asks for: each family's shapes, for each kernel.
TEST(EmulatedAttention, OfGivenTiles) {
  const auto check = [](int capability, int head_dim, const cuda::AttentionTiles& tiles) {
    SCOPED_TRACE(text_of(tiles));
    const Kind kind{capability, "bf16", head_dim, kWindow, false, 0, tiles};
    const AttentionCase c = case_of(333, 150);
    for (const AttentionKernel kernel :
         {AttentionKernel::forward, AttentionKernel::query_gradients, AttentionKernel::key_gradients})
      EXPECT_EQ(
          tile_obstacle(problem_of(kind, c), kernel, cuda::detail::given_shape(problem_of(kind, c), kernel)),
          cuda::TileObstacle::none);
    Attention<bf16>(kind).check(c);
  };
  check(80, 64, {{64, 32}, {64, 32}, {64, 32}});
  check(80, 64, {{64, 128}, {64, 64}, {64, 64}});
  check(80, 64, {{128, 128}, {128, 64}, {128, 64}});
  check(80, 96, {{128, 32}, {128, 32}, {128, 32}});
  check(90, 64, {{64, 128}, {64, 128}, {64, 64}});
  check(90, 64, {{128, 128}, {128, 128}, {128, 64}});
  check(90, 128, {{128, 128}, {64, 64}, {64, 64}});
}

TEST(EmulatedAttention, OfWholeHeads) {
  const auto check = [](const Rules& rules, AttentionCase c) {
    c.kv_heads = c.heads;
    Attention<bf16>({90, "bf16", 64, rules, false, c.tokens}).check(c);
  };
  check(kWindow, case_of(50, 20));
  check(kWindow, case_of(250, 40));
  check(kCapped, case_of(130, 0, 1.5));
  check(kFull, case_of(150));
}

// Documents shorter than a tile, as long as one, across several, and as long as the sequence; two sequences
// with documents of different lengths.
TEST(EmulatedAttention, OfDocuments) {
  const auto documents_of = [](AttentionCase c, int length) {
    c.batch = 2, c.document = length;
    return c;
  };
  const Rules causal{"DocumentMask<CausalMask>"}, full{"DocumentMask<FullMask>"},
      window{"DocumentMask<WindowMask>"}, capped{"DocumentMask<WindowMask>", "CappedScores"};
  Attention<float> floats({75, "float", 32, causal});
  for (int length : {1, 20, 90}) floats.check(documents_of(case_of(90), length));
  Attention<float>({75, "float", 32, full}).check(documents_of(case_of(70), 17));
  Attention<bf16> warps({80, "bf16", 64, causal});
  for (int length : {9, 64}) warps.check(documents_of(case_of(200), length));
  Attention<bf16>({80, "bf16", 64, window}).check(documents_of(case_of(200, 33), 70));
  Attention<bf16> warpgroups({90, "bf16", 64, causal});
  for (int length : {9, 100}) warpgroups.check(documents_of(case_of(200), length));
  Attention<bf16>({90, "bf16", 128, window}).check(documents_of(case_of(200, 33), 70));
  Attention<bf16>({90, "bf16", 64, capped, true}).check(documents_of(case_of(200, 70, 1.5, 0.25), 100));
}

// Tiles that a query sees nothing of come before those with its keys, whose scores may all be far below 0.
TEST(EmulatedAttention, OfSteepScoresBehindMaskedTiles) {
  const auto steep = [](int tokens, int window, int document = 0, double softcap = 0) {
    AttentionCase c = case_of(tokens, window, softcap);
    c.steep = true, c.document = document;
    return c;
  };
  const Rules causal{"DocumentMask<CausalMask>"}, full{"DocumentMask<FullMask>"};
  for (int window : {20, 100}) Attention<float>({75, "float", 32, kWindow}).check(steep(170, window));
  Attention<float>({75, "float", 32, full}).check(steep(170, 0, 40));
  Attention<float>({75, "float", 32, kWindowCapped}).check(steep(170, 20, 0, 3e4));
  for (int window : {20, 150}) Attention<bf16>({80, "bf16", 64, kWindow}).check(steep(333, window));
  Attention<bf16>({80, "bf16", 64, causal}).check(steep(333, 0, 100));
  for (int window : {20, 150}) Attention<bf16>({90, "bf16", 64, kWindow}).check(steep(449, window));
  Attention<bf16>({90, "bf16", 64, causal}).check(steep(449, 0, 100));
  AttentionCase heads = steep(250, 40);
  heads.kv_heads = heads.heads;
  Attention<bf16>({90, "bf16", 64, kWindow, false, heads.tokens}).check(heads);
}

}  // namespace
}  // namespace hydrac::emulation
