// Attention over a cache and what fills it on CUDA, emulated, against plain loops in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cuda/decode_geometry.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"

namespace hydrac::emulation {
namespace {

using cuda::DecodeLaunch;
using cuda::DecodeProblem;

struct Case {
  const char* name;
  DecodeProblem problem;
  std::vector<int> positions;
  int window = 0;
  float softcap = 0;
  const char* rotation = "none";  // cuda::Rotation
  bool steep = false;             // scores between -10,000 and 10,000: a level for each 16 keys
};

template <typename T>
constexpr const char* kName = "float";
template <>
constexpr const char* kName<bf16> = "hydrac::bf16";
template <>
constexpr const char* kName<f16> = "hydrac::f16";

constexpr float kScale = 0.3f;

constexpr int kPageTokens = 64;

int pages_of_sequence(const DecodeProblem& p) {
  return (p.context + kPageTokens - 1) / kPageTokens;
}

// q, k and v are parts of packed rows [(H + 2 K) D], as a program's are. `page_tokens`: of a cache in pages,
// or 0.
std::string source_of(const Case& c, const std::string& type, int page_tokens = 0) {
  const DecodeProblem& p = c.problem;
  const int row = (p.heads + 2 * p.kv_heads) * p.head_dim;
  const auto heads = [&](const std::string& name, int first) {
    return fmt::format("{{{} + {}, {}, {}, {}}}", name, first * p.head_dim, row, row, p.head_dim);
  };
  const std::string out = fmt::format("{{out, {0}, {0}, {1}}}", p.heads * p.head_dim, p.head_dim);
  return fmt::format(
      R"(#include "cuda/attention_decode.cuh"
using namespace hydrac;
constexpr cuda::DecodeLaunch kLaunch = cuda::decode_launch({{{}, {}, {}, {}, {}, {}}});
using Config = cuda::DecodeConfig<{}, {}, kLaunch, {}, {}, cuda::Rotation::{}, {}>;
constexpr SequenceShape shape{{{}, {}, {}, {}f, {}, {:#}f}};
extern "C" __global__ void decode(const {}* qkv, const int* positions, const float* cos, const float* sin,
                                  {}* keys, {}* values, {}* out, float* workspace, const int* pages) {{
  cuda::attention_decode<Config>(shape, {}, {}, {}, positions, {{cos, sin}}, keys, values, {}, workspace, pages);
}}
extern "C" __global__ void parts(float* workspace, {}* out) {{
  cuda::attention_decode_parts<Config>(shape, workspace, {});
}}
)",
      p.sequences, p.context, p.heads, p.kv_heads, p.head_dim, p.multiprocessors, type, p.head_dim,
      c.window > 0 ? "WindowMask" : "CausalMask", c.softcap > 0 ? "CappedScores" : "LinearScores", c.rotation,
      page_tokens, page_tokens > 0 ? pages_of_sequence(p) * page_tokens : p.context, p.heads, p.kv_heads,
      kScale, c.window, c.softcap, type, type, type, type, heads("qkv", 0), heads("qkv", p.heads),
      heads("qkv", p.heads + p.kv_heads), out, type, out);
}

template <typename T>
std::vector<T> random_numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> numbers(count);
  for (T& x : numbers) x = from_float<T>(normal(random));
  return numbers;
}

// Tables of angles [context, D/2], which need be no rotation's.
struct Angles {
  explicit Angles(const DecodeProblem& p)
      : cos(random_numbers<float>(static_cast<size_t>(p.context * p.head_dim / 2), 6)),
        sin(random_numbers<float>(cos.size(), 7)) {}
  std::vector<float> cos, sin;
};

// The new tokens' queries and keys as they attend, from their packed rows.
template <typename T>
std::vector<T> turned(const Case& c, const Angles& angles, const std::vector<T>& qkv) {
  const DecodeProblem& p = c.problem;
  const int half = p.head_dim / 2, heads = p.heads + p.kv_heads;
  const bool halves = std::string_view(c.rotation) == "halves";
  std::vector<T> result = qkv;
  for (int s = 0; s < p.sequences && std::string_view(c.rotation) != "none"; ++s) {
    for (int i = 0; i < heads * half; ++i) {
      const auto angle = static_cast<size_t>(c.positions[static_cast<size_t>(s)] * half + i % half);
      const int head = (s * (heads + p.kv_heads) + i / half) * p.head_dim;
      const auto first = static_cast<size_t>(head + (halves ? i % half : i % half * 2));
      const size_t second = first + static_cast<size_t>(halves ? half : 1);
      const float x1 = to_float(qkv[first]), x2 = to_float(qkv[second]);
      result[first] = from_float<T>(x1 * angles.cos[angle] - x2 * angles.sin[angle]);
      result[second] = from_float<T>(x2 * angles.cos[angle] + x1 * angles.sin[angle]);
    }
  }
  return result;
}

// A tensor's element as float64.
template <typename T>
struct Operands {
  const DecodeProblem& p;
  const std::vector<T>& qkv;
  size_t row() const { return static_cast<size_t>((p.heads + 2 * p.kv_heads) * p.head_dim); }
  double at(int sequence, int head, int d) const {
    return to_float(qkv[static_cast<size_t>(sequence) * row() + static_cast<size_t>(head * p.head_dim + d)]);
  }
};

template <typename T>
std::vector<double> expected_out(const Case& c, const Operands<T>& in, const std::vector<T>& keys,
                                 const std::vector<T>& values) {
  const DecodeProblem& p = c.problem;
  std::vector<double> out;
  for (int s = 0; s < p.sequences; ++s) {
    const int position = c.positions[static_cast<size_t>(s)];
    const int first = c.window > 0 ? std::max(0, position - c.window + 1) : 0;
    for (int h = 0; h < p.heads; ++h) {
      const int kv_head = h / (p.heads / p.kv_heads);
      const auto element = [&](const std::vector<T>& cache, int head, int j, int d) -> double {
        if (j == position) return in.at(s, head + kv_head, d);
        return to_float(
            cache[static_cast<size_t>(((s * p.kv_heads + kv_head) * p.context + j) * p.head_dim + d)]);
      };
      std::vector<double> weights;
      double sum = 0;
      for (int j = first; j <= position; ++j) {
        double score = 0;
        for (int d = 0; d < p.head_dim; ++d) score += in.at(s, h, d) * element(keys, p.heads, j, d);
        score *= kScale;
        if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
        weights.push_back(score);
      }
      const double largest = *std::ranges::max_element(weights);
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (int d = 0; d < p.head_dim; ++d) {
        double mixed = 0;
        for (int j = first; j <= position; ++j)
          mixed +=
              weights[static_cast<size_t>(j - first)] / sum * element(values, p.heads + p.kv_heads, j, d);
        out.push_back(mixed);
      }
    }
  }
  return out;
}

// Element 0 of a head's vector makes its scores' level: queries have one, keys that of their token.
template <typename T>
void make_steep(const Case& c, std::vector<T>& qkv, std::vector<T>& keys) {
  const DecodeProblem& p = c.problem;
  const auto level = [](int token) {
    return from_float<T>(static_cast<float>(token / 16 * 37 % 63 * 2 - 62));
  };
  const auto first_of = [&](int row) { return static_cast<size_t>(row * p.head_dim); };
  for (int row = 0; row < p.sequences * p.kv_heads * p.context; ++row)
    keys[first_of(row)] = level(row % p.context);
  for (int s = 0; s < p.sequences; ++s) {
    for (int h = 0; h < p.heads + p.kv_heads; ++h)
      qkv[first_of(s * (p.heads + 2 * p.kv_heads) + h)] =
          h < p.heads ? from_float<T>(512.0f) : level(c.positions[static_cast<size_t>(s)]);
  }
}

template <typename T>
void check(const Case& c) {
  SCOPED_TRACE(fmt::format("{} of {}", c.name, kName<T>));
  const DecodeProblem& p = c.problem;
  const DecodeLaunch launch = decode_launch(p);
  EmulatedKernels kernels(source_of(c, kName<T>), {"decode", "parts"});
  const auto size = [](int n) { return static_cast<size_t>(n); };
  std::vector<T> qkv = random_numbers<T>(size(p.sequences * (p.heads + 2 * p.kv_heads) * p.head_dim), 1);
  const size_t cached = size(p.sequences * p.kv_heads * p.context * p.head_dim);
  std::vector<T> keys = random_numbers<T>(cached, 2), values = random_numbers<T>(cached, 3);
  if (c.steep) make_steep(c, qkv, keys);
  // What no query may read.
  for (int s = 0; s < p.sequences; ++s) {
    for (int row = s * p.kv_heads; row < (s + 1) * p.kv_heads; ++row) {
      for (int j = c.positions[size(s)]; j < p.context; ++j) {
        for (int d = 0; d < p.head_dim; ++d)
          keys[size((row * p.context + j) * p.head_dim + d)] =
              values[size((row * p.context + j) * p.head_dim + d)] =
                  from_float<T>(std::numeric_limits<float>::quiet_NaN());
      }
    }
  }
  const Angles angles(p);
  const std::vector<T> turned_qkv = turned(c, angles, qkv);
  const Operands<T> in{p, turned_qkv};
  const std::vector<double> expected = expected_out(c, in, keys, values);
  std::vector<T> out(size(p.sequences * p.heads * p.head_dim));
  std::vector<float> workspace(size(static_cast<int>(decode_workspace_bytes(p) / 4)) + 1,
                               std::numeric_limits<float>::quiet_NaN());
  const T* at_qkv = qkv.data();
  const int* at_positions = c.positions.data();
  const float *at_cos = angles.cos.data(), *at_sin = angles.sin.data();
  T *at_keys = keys.data(), *at_values = values.data(), *at_out = out.data();
  float* at_workspace = workspace.data();
  const int* at_pages = nullptr;
  const auto geometry = [](int blocks) {
    return Geometry{{static_cast<unsigned>(blocks), 1, 1}, {cuda::kDecodeThreads, 1, 1}};
  };
  const std::vector written{bytes_of(keys), bytes_of(values), bytes_of(out), bytes_of(workspace)};
  kernels.launch_both_orders(
      "decode", geometry(launch.blocks),
      addresses(at_qkv, at_positions, at_cos, at_sin, at_keys, at_values, at_out, at_workspace, at_pages),
      written);
  if (launch.parts > 1)
    kernels.launch_both_orders("parts", geometry(p.sequences * p.heads), addresses(at_workspace, at_out),
                               written);

  const double tolerance = c.steep                   ? 0x1p-7  // scores of 10,000 are rounded
                           : sizeof(T) == 4          ? 2e-6
                           : std::is_same_v<T, bf16> ? 0x1p-8
                                                     : 0x1p-10;
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_NEAR(to_float(out[i]), expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
  for (int s = 0; s < p.sequences; ++s) {
    for (int head = 0; head < p.kv_heads; ++head) {
      for (int d = 0; d < p.head_dim; ++d) {
        const size_t at = size(((s * p.kv_heads + head) * p.context + c.positions[size(s)]) * p.head_dim + d);
        ASSERT_EQ(to_float(keys[at]), in.at(s, p.heads + head, d));
        ASSERT_EQ(to_float(values[at]), in.at(s, p.heads + p.kv_heads + head, d));
      }
    }
  }
}

TEST(AttentionDecode, EqualsFloat64) {
  const Case cases[] = {
      {"llama", {2, 200, 8, 2, 64, 132}, {150, 3}},
      {"one part", {3, 128, 4, 4, 64, 1}, {0, 127, 64}},
      {"wide heads", {1, 300, 8, 1, 128, 8}, {299}},
      {"widest heads", {2, 130, 2, 1, 256, 8}, {129, 1}},
      {"odd heads", {2, 150, 6, 2, 80, 8}, {149, 70}},
      {"narrow heads", {2, 300, 14, 2, 8, 4}, {260, 5}},
      {"many query heads", {1, 140, 12, 1, 16, 8}, {139}},
      {"window", {2, 300, 4, 2, 32, 132}, {280, 10}, 37},
      {"softcap", {2, 130, 4, 2, 32, 132}, {129, 17}, 0, 2.5f},
      {"turned halves", {3, 200, 8, 2, 64, 132}, {150, 3, 0}, 0, 0, "halves"},
      {"turned neighbours", {2, 150, 6, 2, 40, 1}, {149, 0}, 0, 0, "neighbours"},
      {"turned odd heads", {2, 150, 4, 2, 80, 8}, {149, 70}, 20, 0, "halves"},
      {"steep scores", {2, 300, 4, 2, 32, 132}, {280, 10}, 0, 0, "none", true},
      {"steep scores of one part", {3, 300, 4, 4, 64, 1}, {299, 140, 70}, 0, 0, "none", true},
      {"steep scores in a window", {3, 300, 4, 2, 32, 132}, {280, 200, 10}, 20, 0, "none", true},
  };
  for (const Case& c : cases) {
    check<float>(c);
    check<bf16>(c);
  }
  check<f16>(cases[0]);
}

// A cache [S,K,M,D] as pages in another order, behind one that is nobody's; the last sequence has none.
template <typename T>
struct Paged {
  Paged(const DecodeProblem& p, const std::vector<T>& keys, const std::vector<T>& values) {
    const int count = p.sequences * pages_of_sequence(p), page_size = p.kv_heads * kPageTokens * p.head_dim;
    for (int i = 0; i < count; ++i)
      table.push_back(i / pages_of_sequence(p) == p.sequences - 1 ? -1 : 1 + i * 11 % count);
    pages.assign(static_cast<size_t>((count + 1) * page_size),
                 from_float<T>(std::numeric_limits<float>::quiet_NaN()));
    page_values = pages;
    for (size_t i = 0; i < keys.size(); ++i) {
      const int row = static_cast<int>(i) / p.head_dim, d = static_cast<int>(i) % p.head_dim;
      const int token = row % p.context, head = row / p.context % p.kv_heads,
                sequence = row / p.context / p.kv_heads;
      const int page = table[static_cast<size_t>(sequence * pages_of_sequence(p) + token / kPageTokens)];
      if (page < 0) continue;
      const auto at = static_cast<size_t>(
          ((page * p.kv_heads + head) * kPageTokens + token % kPageTokens) * p.head_dim + d);
      pages[at] = keys[i];
      page_values[at] = values[i];
    }
  }
  std::vector<int> table;
  std::vector<T> pages, page_values;
};

template <typename T>
void check_pages(const Case& c) {
  SCOPED_TRACE(fmt::format("{} of {}", c.name, kName<T>));
  const DecodeProblem& p = c.problem;
  const auto size = [](int n) { return static_cast<size_t>(n); };
  const std::vector<T> qkv =
      random_numbers<T>(size(p.sequences * (p.heads + 2 * p.kv_heads) * p.head_dim), 1);
  const size_t cached = size(p.sequences * p.kv_heads * p.context * p.head_dim);
  std::vector<T> keys = random_numbers<T>(cached, 2), values = random_numbers<T>(cached, 3);
  const Angles angles(p);
  Paged<T> paged(p, keys, values);
  // Parts are those of a context in whole pages.
  DecodeProblem whole_pages = p;
  whole_pages.context = pages_of_sequence(p) * kPageTokens;
  const DecodeLaunch launch = decode_launch(whole_pages);
  ASSERT_EQ(launch.parts, decode_launch(p).parts);
  ASSERT_EQ(launch.keys, decode_launch(p).keys);
  const auto run = [&](int page_tokens, std::vector<T>& all_keys, std::vector<T>& all_values) {
    EmulatedKernels kernels(source_of(c, kName<T>, page_tokens), {"decode", "parts"});
    std::vector<T> out(size(p.sequences * p.heads * p.head_dim));
    std::vector<float> workspace(size(static_cast<int>(decode_workspace_bytes(p) / 4)) + 1);
    const T* at_qkv = qkv.data();
    const int *at_positions = c.positions.data(), *at_pages = paged.table.data();
    const float *at_cos = angles.cos.data(), *at_sin = angles.sin.data();
    T *at_keys = all_keys.data(), *at_values = all_values.data(), *at_out = out.data();
    float* at_workspace = workspace.data();
    const auto geometry = [](int blocks) {
      return Geometry{{static_cast<unsigned>(blocks), 1, 1}, {cuda::kDecodeThreads, 1, 1}};
    };
    const std::vector written{bytes_of(all_keys), bytes_of(all_values), bytes_of(out), bytes_of(workspace)};
    kernels.launch_both_orders(
        "decode", geometry(launch.blocks),
        addresses(at_qkv, at_positions, at_cos, at_sin, at_keys, at_values, at_out, at_workspace, at_pages),
        written);
    if (launch.parts > 1)
      kernels.launch_both_orders("parts", geometry(p.sequences * p.heads), addresses(at_workspace, at_out),
                                 written);
    return out;
  };
  const auto same = [](const T& a, const T& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  const std::vector<T> expected = run(0, keys, values),
                       found = run(kPageTokens, paged.pages, paged.page_values);
  EXPECT_TRUE(std::ranges::equal(found, expected, same));
  const Paged<T> after(p, keys, values);
  EXPECT_TRUE(std::ranges::equal(paged.pages, after.pages, same));
  EXPECT_TRUE(std::ranges::equal(paged.page_values, after.page_values, same));
}

TEST(AttentionDecode, OverPagesHasTheSameBits) {
  const Case cases[] = {
      {"llama", {3, 200, 8, 2, 64, 132}, {150, 64, 0}},
      {"one part", {4, 128, 4, 4, 64, 1}, {63, 127, 64, 0}},
      {"wide heads", {2, 300, 8, 1, 128, 8}, {299, 0}},
      {"narrow heads", {3, 300, 14, 2, 8, 4}, {260, 5, 0}},
      {"odd heads", {2, 150, 6, 2, 80, 8}, {149, 0}},
      {"window", {3, 300, 4, 2, 32, 132}, {280, 10, 0}, 37},
      {"turned halves", {3, 200, 8, 2, 64, 132}, {150, 3, 0}, 0, 0, "halves"},
  };
  for (const Case& c : cases) {
    check_pages<float>(c);
    check_pages<bf16>(c);
  }
}

TEST(AttentionDecode, PartsDependOnTheProblemAlone) {
  EXPECT_EQ(cuda::decode_launch({64, 384, 32, 8, 64, 132}).parts, 1) << "enough blocks without";
  const DecodeLaunch few = cuda::decode_launch({3, 8192, 32, 8, 128, 132});
  EXPECT_GE(few.blocks, 2 * 132);
  EXPECT_GE(few.parts * few.keys, 8192);
  EXPECT_EQ(few.heads, 4);
  EXPECT_EQ(cuda::decode_launch({1, 64, 14, 2, 64, 0}).parts, 1) << "of a GPU that is not known";
  EXPECT_EQ(cuda::decode_workspace_bytes({64, 384, 32, 8, 64, 132}), 0);
}

template <typename T>
void check_append(int head_dim) {
  constexpr int A = 3, tokens = 5, K = 2, sequences = 4, context = 9;
  const std::string type = kName<T>;
  const int row = 3 * K * head_dim;
  EmulatedKernels kernels(
      fmt::format(R"(#include "cuda/cache_append.cuh"
using namespace hydrac;
extern "C" __global__ void append(const {0}* qkv, const int* rows, {0}* keys, {0}* values) {{
  cuda::cache_append<{0}, {1}, {2}, {3}, {4}, {5}>({{qkv + {6}, {8}, {9}, {5}}}, {{qkv + {7}, {8}, {9}, {5}}}, rows, keys, values);
}}
)",
                  type, A, tokens, K, context, head_dim, K * head_dim, 2 * K * head_dim, tokens * row, row),
      {"append"});
  const auto size = [](int n) { return static_cast<size_t>(n); };
  const std::vector<T> qkv = random_numbers<T>(size(A * tokens * row), 4);
  std::vector<T> keys = random_numbers<T>(size(sequences * K * context * head_dim), 5), values = keys;
  std::vector<T> expected_keys = keys, expected_values = values;
  const std::vector<int> rows = {2, -1, 0};
  for (int a = 0; a < A; ++a) {
    for (int i = 0; i < tokens * K * head_dim && rows[size(a)] >= 0; ++i) {
      const int token = i / (K * head_dim), head = i / head_dim % K, d = i % head_dim;
      const size_t at = size(((rows[size(a)] * K + head) * context + token) * head_dim + d);
      const int from = (a * tokens + token) * row + head * head_dim + d;
      expected_keys[at] = qkv[size(from + K * head_dim)];
      expected_values[at] = qkv[size(from + 2 * K * head_dim)];
    }
  }
  const T* at_qkv = qkv.data();
  const int* at_rows = rows.data();
  T *at_keys = keys.data(), *at_values = values.data();
  const unsigned blocks = static_cast<unsigned>((A * tokens * K * head_dim / 8 + 255) / 256);
  kernels.launch_both_orders("append", {{blocks, 1, 1}, {256, 1, 1}},
                             addresses(at_qkv, at_rows, at_keys, at_values),
                             std::vector{bytes_of(keys), bytes_of(values)});
  const auto same = [](const T& a, const T& b) { return to_float(a) == to_float(b); };
  EXPECT_TRUE(std::ranges::equal(keys, expected_keys, same));
  EXPECT_TRUE(std::ranges::equal(values, expected_values, same));
}

template <typename T>
void check_append_to_pages() {
  constexpr int A = 3, tokens = 5, K = 2, head_dim = 16, page_tokens = 2, of_sequence = 3;
  const std::string type = kName<T>;
  constexpr int row = 3 * K * head_dim;
  EmulatedKernels kernels(fmt::format(R"(#include "cuda/cache_append.cuh"
using namespace hydrac;
extern "C" __global__ void append(const {0}* qkv, const int* rows, const int* pages, {0}* keys, {0}* values) {{
  cuda::cache_append<{0}, {1}, {2}, {3}, {4}, {5}, {10}>({{qkv + {6}, {8}, {9}, {5}}}, {{qkv + {7}, {8}, {9}, {5}}}, rows, keys, values, pages);
}}
)",
                                      type, A, tokens, K, page_tokens, head_dim, K * head_dim,
                                      2 * K * head_dim, tokens * row, row, of_sequence),
                          {"append"});
  const auto size = [](int n) { return static_cast<size_t>(n); };
  const std::vector<T> qkv = random_numbers<T>(size(A * tokens * row), 4);
  std::vector<T> keys = random_numbers<T>(size(6 * K * page_tokens * head_dim), 5), values = keys;
  std::vector<T> expected_keys = keys, expected_values = values;
  const std::vector<int> rows = {1, -1, 0}, pages = {5, 0, 2, 1, 4, -1};
  for (int a = 0; a < A; ++a) {
    for (int i = 0; i < tokens * K * head_dim && rows[size(a)] >= 0; ++i) {
      const int token = i / (K * head_dim), head = i / head_dim % K, d = i % head_dim;
      const int page = pages[size(rows[size(a)] * of_sequence + token / page_tokens)];
      if (page < 0) continue;
      const size_t at = size(((page * K + head) * page_tokens + token % page_tokens) * head_dim + d);
      const int from = (a * tokens + token) * row + head * head_dim + d;
      expected_keys[at] = qkv[size(from + K * head_dim)];
      expected_values[at] = qkv[size(from + 2 * K * head_dim)];
    }
  }
  const T* at_qkv = qkv.data();
  const int *at_rows = rows.data(), *at_pages = pages.data();
  T *at_keys = keys.data(), *at_values = values.data();
  const unsigned blocks = static_cast<unsigned>((A * tokens * K * head_dim / 8 + 255) / 256);
  kernels.launch_both_orders("append", {{blocks, 1, 1}, {256, 1, 1}},
                             addresses(at_qkv, at_rows, at_pages, at_keys, at_values),
                             std::vector{bytes_of(keys), bytes_of(values)});
  const auto same = [](const T& a, const T& b) { return to_float(a) == to_float(b); };
  EXPECT_TRUE(std::ranges::equal(keys, expected_keys, same));
  EXPECT_TRUE(std::ranges::equal(values, expected_values, same));
}

TEST(CacheAppend, KeepsPromptsInTheirPages) {
  check_append_to_pages<float>();
  check_append_to_pages<bf16>();
}

TEST(CacheAppend, KeepsPromptsInTheirSequences) {
  for (const int head_dim : {8, 80}) {
    check_append<float>(head_dim);
    check_append<bf16>(head_dim);
  }
}

}  // namespace
}  // namespace hydrac::emulation
