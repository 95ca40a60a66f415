// Tests the CUDA attention kernels on a GPU against float64: every tensor's relative error, that all of each
// output is written and nothing past it, and that a second run gives the same bits. `--time` times them
// instead. One program tests the kernels that chips of HYDRAC_ATTENTION_CAPABILITY (75, 80, 90) use, on any
// chip that can run them:
//   nvcc -std=c++20 -O3 -I. -Itemplates -Itemplates/include -Itests/gpu
//     -DHYDRAC_ATTENTION_CAPABILITY=80 -arch=sm_80 tests/gpu/attention_test.cu -o attention_test
// 90 needs -gencode arch=compute_90a,code=sm_90a instead of -arch; 75 runs on newer chips as compute_75 PTX.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "attention_device.cuh"
#include "attention_reference.h"
#include "device_array.cuh"

namespace hydrac::test {
namespace {

constexpr int kCapability = HYDRAC_ATTENTION_CAPABILITY;
int failures = 0;

// [B,T,heads,D] out of [B,T,all_heads,D], widened.
template <class Storage>
std::vector<double> slice(const std::vector<Storage>& from, const AttentionCase& c, int all_heads, int first,
                          int heads) {
  std::vector<double> to;
  to.reserve(static_cast<std::size_t>(c.batch) * c.tokens * heads * c.head_dim);
  for (std::size_t token = 0; token < static_cast<std::size_t>(c.batch) * c.tokens; ++token) {
    const auto row = from.begin() + (token * all_heads + first) * c.head_dim;
    for (auto x = row; x != row + heads * c.head_dim; ++x) to.push_back(to_float(*x));
  }
  return to;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

// |x - reference| / |reference|; of a reference that is 0 (d_q and d_k of one token), over `scale`.
double relative_error(const std::vector<double>& x, const std::vector<double>& reference, double scale) {
  double difference = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference += (x[i] - reference[i]) * (x[i] - reference[i]);
  }
  const double size = norm(reference);
  return std::sqrt(difference) / (size > 1e-9 * scale ? size : scale);
}

// Errors that rounding the operands to Storage explains, with room of about two.
template <class Storage>
constexpr double error_bound() {
  return sizeof(Storage) == 4 ? 3e-6 : __is_same(Storage, bf16) ? 6e-3 : 8e-4;
}

template <class Storage>
struct CaseTensors {
  std::vector<Storage> qkv, d_out;
  AttentionTensors reference;
};

// The kernels that compute the backward pass.
enum class Backward { pair, pieces, heads, heads_with_sums };
constexpr const char* kBackwardNames[] = {"pair", "pieces", "heads", "sums"};

// The error of sums [rows,3,H,D] of which each element's sum over the rows is one of d_qkv over its tokens,
// in units of the last digits of what is summed.
template <class Storage>
double sums_error(const std::vector<float>& sums, const std::vector<Storage>& d_qkv, std::size_t width) {
  double error = 0;
  for (std::size_t c = 0; c < width; ++c) {
    double sum = 0, reference = 0, size = 0;
    for (std::size_t i = c; i < sums.size(); i += width) sum += sums[i];
    for (std::size_t i = c; i < d_qkv.size(); i += width) {
      reference += to_float(d_qkv[i]), size += std::abs(to_float(d_qkv[i]));
    }
    const double off = std::abs(sum - reference) / std::max(size, 1e-30);
    error = off > error || off != off ? off : error;
  }
  return error;
}

template <class Storage, int head_dim, class Mask, class Scores, bool has_dropout, Backward backward>
void check_kernels(const char* type, const AttentionCase& c, const CaseTensors<Storage>& tensors) {
  using Kernels = Attention<Storage, head_dim, kCapability, Mask, Scores, has_dropout>;
  const int all_heads = c.heads + 2 * c.kv_heads;
  const std::size_t tokens = static_cast<std::size_t>(c.batch) * c.tokens;
  const auto& [qkv, d_out, reference] = tensors;

  DeviceArray<Storage> device_qkv(qkv), device_d_out(d_out);
  DeviceArray<Storage> out(d_out.size()), d_qkv(qkv.size());
  DeviceArray<float> lse(tokens * c.heads);
  const AttentionShape shape{
      {c.tokens, c.heads, c.kv_heads, static_cast<float>(c.scale()), c.window, static_cast<float>(c.softcap)},
      c.batch};
  const AttentionDropout dropout{c.key, c.threshold(), static_cast<float>(1 / (1 - c.dropout))};
  constexpr bool has_sums = backward == Backward::heads_with_sums;
  const std::size_t width = static_cast<std::size_t>(all_heads) * head_dim;
  const std::size_t sums = has_sums ? attention_sums_rows(Kernels::problem_of(shape)) * width : 0;
  DeviceArray<unsigned char> workspace(has_sums ? sums * 4
                                       : backward == Backward::pieces
                                           ? attention_gradients_workspace(Kernels::problem_of(shape))
                                           : tokens * c.heads * sizeof(QueryTerms));
  DeviceArray<std::int32_t> documents(c.documents());
  const DeviceTensors<Storage> x{device_qkv.get(), device_d_out.get(), out.get(),      d_qkv.get(),
                                 lse.get(),        workspace.get(),    documents.get()};
  std::vector<Storage> outs[2], d_qkvs[2];
  std::vector<float> lses[2];
  std::vector<unsigned char> workspaces[2];
  bool intact = true;
  for (int run = 0; run < 2; ++run) {
    out.poison(), d_qkv.poison(), lse.poison(), workspace.poison();
    Kernels::run_forward(shape, x, dropout);
    if constexpr (backward == Backward::heads || has_sums) {
      Kernels::template run_head_gradients<has_sums>(shape, x, dropout);
    } else if constexpr (backward == Backward::pieces) {
      Kernels::run_gradients(shape, x, dropout);
    } else {
      Kernels::run_query_gradients(shape, x, dropout);
      Kernels::run_key_gradients(shape, x, dropout);
    }
    check(cudaDeviceSynchronize(), "kernels");
    bool whole[4];
    outs[run] = out.read(whole[0]), d_qkvs[run] = d_qkv.read(whole[1]), lses[run] = lse.read(whole[2]);
    workspaces[run] = workspace.read(whole[3]);
    intact = intact && whole[0] && whole[1] && whole[2] && whole[3];
  }
  const auto same = [](const auto& a, const auto& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
  };
  const bool repeatable = same(outs[0], outs[1]) && same(d_qkvs[0], d_qkvs[1]) && same(lses[0], lses[1]) &&
                          (!has_sums || same(workspaces[0], workspaces[1]));
  std::vector<float> found(sums);
  if (has_sums) std::memcpy(found.data(), workspaces[0].data(), sums * sizeof(float));
  const double error_of_sums = has_sums ? sums_error(found, d_qkvs[0], width) : 0;

  const double scale = norm(reference.d_out);
  const double errors[] = {
      relative_error(slice(outs[0], c, c.heads, 0, c.heads), reference.out, scale),
      relative_error(std::vector<double>(lses[0].begin(), lses[0].end()), reference.lse, scale),
      relative_error(slice(d_qkvs[0], c, all_heads, 0, c.heads), reference.d_q, scale),
      relative_error(slice(d_qkvs[0], c, all_heads, c.heads, c.kv_heads), reference.d_k, scale),
      relative_error(slice(d_qkvs[0], c, all_heads, c.heads + c.kv_heads, c.kv_heads), reference.d_v, scale)};
  bool close = error_of_sums < 1e-6;
  for (double error : errors) close = close && error < error_bound<Storage>();  // NaN fails
  const bool passed = close && repeatable && intact;
  failures += !passed;
  std::printf(
      "%s %-4s D=%-3d B=%d T=%-4d H=%d K=%d p=%.1f %s window %-4d documents %-4d cap %-3g %-6s out %.1e lse "
      "%.1e d_q %.1e "
      "d_k %.1e d_v %.1e sums %.0e%s%s\n",
      passed ? "ok  " : "FAIL", type, head_dim, c.batch, c.tokens, c.heads, c.kv_heads, c.dropout,
      Mask::hides_later ? "causal" : "full  ", c.window, c.document, c.softcap,
      kBackwardNames[static_cast<int>(backward)], errors[0], errors[1], errors[2], errors[3], errors[4],
      error_of_sums, repeatable ? "" : " NOT REPEATABLE", intact ? "" : " WROTE PAST THE END");
  std::fflush(stdout);
}

template <class Storage, int head_dim, class Mask, class Scores, bool has_dropout>
void check_case(const char* type, AttentionCase c, std::uint64_t seed) {
  c.head_dim = head_dim, c.causal = Mask::hides_later, c.key = static_cast<std::uint32_t>(seed * 2654435761u);
  const int all_heads = c.heads + 2 * c.kv_heads;
  const std::size_t tokens = static_cast<std::size_t>(c.batch) * c.tokens;
  CaseTensors<Storage> tensors{random_values<Storage>(tokens * all_heads * head_dim, seed),
                               random_values<Storage>(tokens * c.heads * head_dim, seed + 1),
                               {}};
  AttentionTensors& reference = tensors.reference;
  reference.q = slice(tensors.qkv, c, all_heads, 0, c.heads);
  reference.k = slice(tensors.qkv, c, all_heads, c.heads, c.kv_heads);
  reference.v = slice(tensors.qkv, c, all_heads, c.heads + c.kv_heads, c.kv_heads);
  reference.d_out = slice(tensors.d_out, c, c.heads, 0, c.heads);
  attention_reference(c, reference);
  check_kernels<Storage, head_dim, Mask, Scores, has_dropout, Backward::pair>(type, c, tensors);
  using Kernels = Attention<Storage, head_dim, kCapability, Mask, Scores, has_dropout>;
  if constexpr (Kernels::can_fuse) {
    check_kernels<Storage, head_dim, Mask, Scores, has_dropout, Backward::pieces>(type, c, tensors);
    if (c.heads == c.kv_heads && c.tokens <= (Mask::hides_later ? 256 : 192)) {  // as few as there are
      check_kernels<Storage, head_dim, Mask, Scores, has_dropout, Backward::heads>(type, c, tensors);
      check_kernels<Storage, head_dim, Mask, Scores, has_dropout, Backward::heads_with_sums>(type, c,
                                                                                             tensors);
    }
  }
}

template <class Storage, int head_dim>
void check_sizes(const char* type) {
  std::uint64_t seed = 17 * head_dim + sizeof(Storage);
  for (int tokens : {1, 37, 64, 128, 1000}) {
    check_case<Storage, head_dim, CausalMask, LinearScores, false>(type, {2, tokens, 2, 2, 0, 0.0}, ++seed);
  }
  check_case<Storage, head_dim, CausalMask, LinearScores, true>(type, {2, 150, 3, 3, 0, 0.2}, ++seed);
  check_case<Storage, head_dim, CausalMask, LinearScores, false>(type, {1, 333, 6, 2, 0, 0.0}, ++seed);
  check_case<Storage, head_dim, CausalMask, LinearScores, true>(type, {2, 200, 4, 2, 0, 0.2}, ++seed);
}

// Each mask and each score rule, forward and by every backward pass there is: windows shorter than a tile, as
// long as one, across several and longer than the sequence; sequences that tiles divide and that they do not.
template <class Storage, int head_dim>
void check_rules(const char* type) {
  std::uint64_t seed = 31 * head_dim + sizeof(Storage);
  const auto with = [](AttentionCase c, int window, double softcap) {
    c.window = window, c.softcap = softcap;
    return c;
  };
  for (int tokens : {1, 37, 128, 250, 1000}) {
    const AttentionCase c{2, tokens, 4, 4, 0, 0.0};
    for (int window : {1, 17, 64, 200, 2000}) {
      check_case<Storage, head_dim, WindowMask, LinearScores, false>(type, with(c, window, 0), ++seed);
    }
    check_case<Storage, head_dim, FullMask, LinearScores, false>(type, c, ++seed);
    check_case<Storage, head_dim, FullMask, CappedScores, false>(type, with(c, 0, 1.5), ++seed);
    check_case<Storage, head_dim, CausalMask, CappedScores, false>(type, with(c, 0, 50), ++seed);
  }
  const AttentionCase grouped{2, 700, 6, 2, 0, 0.2};
  check_case<Storage, head_dim, WindowMask, LinearScores, true>(type, with(grouped, 130, 0), ++seed);
  check_case<Storage, head_dim, WindowMask, CappedScores, true>(type, with(grouped, 300, 0.7), ++seed);
  check_case<Storage, head_dim, CausalMask, CappedScores, true>(type, with(grouped, 0, 2), ++seed);
  check_case<Storage, head_dim, FullMask, LinearScores, true>(type, grouped, ++seed);
}

// Documents shorter than a tile, as long as one, across several, and as long as the sequence.
template <class Storage, int head_dim>
void check_documents(const char* type) {
  std::uint64_t seed = 47 * head_dim + sizeof(Storage);
  for (int tokens : {1, 37, 128, 250, 1000}) {
    for (int length : {1, 20, 64, 300, 2000}) {
      AttentionCase c{3, tokens, 4, 2, 0, 0.0};
      c.document = length;
      check_case<Storage, head_dim, DocumentMask<CausalMask>, LinearScores, false>(type, c, ++seed);
      check_case<Storage, head_dim, DocumentMask<FullMask>, LinearScores, false>(type, c, ++seed);
      c.window = 50;
      check_case<Storage, head_dim, DocumentMask<WindowMask>, LinearScores, false>(type, c, ++seed);
      c.softcap = 1.5, c.dropout = 0.2;
      check_case<Storage, head_dim, DocumentMask<WindowMask>, CappedScores, true>(type, c, ++seed);
    }
  }
}

// Median milliseconds of a launch, over inputs that take turns and are together larger than the L2 cache.
template <class Run>
float median_ms(int inputs, Run run) {
  constexpr int repeats = 15;
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<float> times(repeats);
  for (int i = 0; i < inputs; ++i) run(i);
  for (int i = 0; i < repeats; ++i) {
    check(cudaEventRecord(start), "cudaEventRecord");
    run(i % inputs);
    check(cudaEventRecord(stop), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&times[i], start, stop), "cudaEventElapsedTime");
  }
  std::sort(times.begin(), times.end());
  return times[repeats / 2];
}

// Visible in the first sequence.
template <class Mask>
std::int64_t pairs_of(const SequenceShape& shape, const std::vector<std::int32_t>& documents) {
  if constexpr (Mask::has_documents) {
    return visible_pairs<Mask>(cuda::PackedShape{shape, documents.data()});
  } else {
    return visible_pairs<Mask>(shape);
  }
}

template <class Storage, int head_dim, int batch, int tokens, int heads, int kv_heads, bool drops = false,
          class Mask = CausalMask, class Scores = LinearScores, int window = 0, int document = 0>
void time_shape(const char* name) {
  constexpr int inputs = 3;
  constexpr AttentionShape shape{{tokens, heads, kv_heads, 0.125f, window, 50.0f}, batch};
  using Kernels = Attention<Storage, head_dim, kCapability, Mask, Scores, drops, shape>;
  constexpr AttentionDropout dropout{7, drops ? 13107u : 0u, drops ? 1.25f : 1.0f};
  const std::size_t rows = static_cast<std::size_t>(batch) * tokens;
  const auto values = random_values<Storage>(rows * (heads + 2 * kv_heads) * head_dim, 5);
  const auto d_values = random_values<Storage>(rows * heads * head_dim, 6);
  std::vector<DeviceArray<Storage>> arrays;
  std::vector<DeviceTensors<Storage>> x;
  AttentionCase documents_case{batch, tokens, heads, kv_heads, head_dim, 0.0};
  documents_case.document = document;
  DeviceArray<std::int32_t> documents(documents_case.documents());
  DeviceArray<float> lse(rows * heads);
  DeviceArray<unsigned char> workspace(attention_gradients_workspace(Kernels::problem_of(shape)));
  arrays.reserve(4 * inputs);
  for (int i = 0; i < inputs; ++i) {
    arrays.emplace_back(values), arrays.emplace_back(d_values);
    arrays.emplace_back(d_values.size()), arrays.emplace_back(values.size());
    DeviceArray<Storage>* a = &arrays[4 * i];
    x.push_back(
        {a[0].get(), a[1].get(), a[2].get(), a[3].get(), lse.get(), workspace.get(), documents.get()});
  }
  const float forward = median_ms(inputs, [&](int i) { Kernels::run_forward(shape, x[i], dropout); });
  const float queries = median_ms(inputs, [&](int i) { Kernels::run_query_gradients(shape, x[i], dropout); });
  const float keys = median_ms(inputs, [&](int i) { Kernels::run_key_gradients(shape, x[i], dropout); });
  const double matmul = 2e-9 * batch * heads * head_dim *
                        static_cast<double>(pairs_of<Mask>(shape, documents_case.documents()));  // GFLOP
  std::printf("%-6s forward %.4f ms %.0f TFLOP/s; backward %.4f ms (queries %.4f + keys %.4f) %.0f TFLOP/s\n",
              name, forward, 2 * matmul / forward, queries + keys, queries, keys,
              5 * matmul / (queries + keys));
  if constexpr (Kernels::can_fuse) {
    const float fused = median_ms(inputs, [&](int i) { Kernels::run_gradients(shape, x[i], dropout); });
    std::printf("%-6s backward by pieces %.4f ms %.0f TFLOP/s\n", name, fused, 5 * matmul / fused);
    if constexpr (attention_owns_heads(Kernels::problem_of(shape))) {
      const float heads_ms = median_ms(
          inputs, [&](int i) { Kernels::template run_head_gradients<tokens, false>(shape, x[i], dropout); });
      const float with_sums = median_ms(
          inputs, [&](int i) { Kernels::template run_head_gradients<tokens, true>(shape, x[i], dropout); });
      std::printf("%-6s backward by heads %.4f ms %.0f TFLOP/s, with sums %.4f ms\n", name, heads_ms,
                  5 * matmul / heads_ms, with_sums);
    }
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace hydrac::test

int main(int argc, char** argv) {
  using namespace hydrac;
  using namespace hydrac::test;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 0;
  }
  if (argc > 1 && std::string(argv[1]) == "--time") {
#if HYDRAC_ATTENTION_CAPABILITY >= 80
    time_shape<bf16, 64, 64, 1024, 12, 12>("gpt2");
    time_shape<bf16, 64, 16, 2048, 12, 4>("hydra");
    time_shape<bf16, 64, 4, 4096, 32, 8>("llama");
    time_shape<bf16, 128, 4, 4096, 16, 4>("D=128");
    time_shape<bf16, 64, 64, 256, 6, 6>("T=256");
    time_shape<bf16, 64, 64, 256, 6, 6, true>("drops");
    time_shape<bf16, 64, 64, 128, 12, 12>("T=128");
    time_shape<bf16, 64, 32, 64, 4, 4>("T=64");
    time_shape<bf16, 16, 16, 2048, 12, 4>("D=16");
    time_shape<bf16, 64, 1, 16384, 12, 12>("T=16k");
    time_shape<bf16, 64, 1, 16384, 12, 12, false, WindowMask, LinearScores, 1024>("w=1024");
    time_shape<bf16, 64, 1, 16384, 12, 12, false, DocumentMask<CausalMask>, LinearScores, 0, 1024>("d=1024");
    time_shape<bf16, 128, 1, 16384, 12, 4, false, DocumentMask<CausalMask>, LinearScores, 0, 1024>("d=1024");
    time_shape<bf16, 64, 4, 4096, 32, 8, false, CausalMask, CappedScores>("capped");
#endif
    time_shape<float, 64, 16, 1024, 12, 12>("float");
    return 0;
  }
  check_sizes<float, 64>("f32");
  check_rules<float, 64>("f32");
  check_documents<float, 64>("f32");
#if HYDRAC_ATTENTION_CAPABILITY == 75
  check_case<float, 256, CausalMask, LinearScores, false>("f32", {1, 333, 4, 2, 0, 0.0}, 9);
#endif
#if HYDRAC_ATTENTION_CAPABILITY == 90
  check_sizes<bf16, 64>("bf16");
  check_rules<bf16, 64>("bf16");
  check_rules<bf16, 128>("bf16");
  check_documents<bf16, 64>("bf16");
  check_documents<bf16, 128>("bf16");
  check_rules<f16, 64>("f16");
  check_sizes<f16, 64>("f16");
  check_sizes<bf16, 128>("bf16");
  check_sizes<f16, 128>("f16");
  check_sizes<bf16, 16>("bf16");
  check_rules<bf16, 16>("bf16");
  check_case<bf16, 64, FullMask, LinearScores, false>("bf16", {2, 777, 3, 3, 0, 0.0}, 3);
  check_case<bf16, 64, CausalMask, LinearScores, false>("bf16", {3, 2048, 12, 4, 0, 0.0}, 4);
  check_case<bf16, 64, CausalMask, LinearScores, false>("bf16", {3, 700, 5, 1, 0, 0.0}, 5);
  // More heads than blocks: each takes several.
  check_case<bf16, 64, CausalMask, LinearScores, false>("bf16", {50, 256, 6, 6, 0, 0.0}, 6);
  check_case<bf16, 64, CausalMask, LinearScores, true>("bf16", {48, 250, 6, 6, 0, 0.2}, 7);
  check_case<bf16, 64, CausalMask, LinearScores, false>("bf16", {90, 65, 6, 6, 0, 0.0}, 8);
  check_case<bf16, 64, CausalMask, LinearScores, false>("bf16", {90, 64, 6, 6, 0, 0.0}, 9);
  check_case<bf16, 64, FullMask, LinearScores, false>("bf16", {50, 177, 3, 3, 0, 0.0}, 10);
  check_case<bf16, 64, FullMask, LinearScores, true>("bf16", {2, 100, 3, 3, 0, 0.1}, 11);
  // Windows over so many pieces of work that blocks take several each, some with one tile.
  for (int window : {1, 128, 129, 1000}) {
    AttentionCase c{8, 2048, 8, 4, 0, 0.0};
    c.window = window;
    check_case<bf16, 64, WindowMask, LinearScores, false>("bf16", c, 12 + window);
  }
#else
  check_sizes<f16, 64>("f16");
  check_rules<f16, 64>("f16");
  check_documents<f16, 64>("f16");
#if HYDRAC_ATTENTION_CAPABILITY >= 80
  check_rules<bf16, 80>("bf16");
  check_documents<bf16, 80>("bf16");
  check_rules<bf16, 256>("bf16");
#endif
  check_sizes<f16, 256>("f16");
  check_sizes<bf16, 64>("bf16");
#if HYDRAC_ATTENTION_CAPABILITY >= 80
  check_sizes<float, 40>("f32");
  check_sizes<float, 128>("f32");
  check_sizes<float, 256>("f32");
  check_sizes<f16, 96>("f16");
  check_sizes<bf16, 8>("bf16");
  check_sizes<bf16, 16>("bf16");
  check_sizes<bf16, 32>("bf16");
  check_sizes<bf16, 40>("bf16");
  check_sizes<bf16, 80>("bf16");
  check_sizes<bf16, 96>("bf16");
  check_sizes<bf16, 128>("bf16");
  check_sizes<bf16, 136>("bf16");
  check_sizes<bf16, 256>("bf16");
  check_case<float, 64, FullMask, LinearScores, false>("f32", {1, 300, 2, 1, 0, 0.0}, 3);
  check_case<bf16, 64, FullMask, LinearScores, true>("bf16", {2, 777, 3, 3, 0, 0.1}, 3);
#endif
#endif
  std::printf("%s\n", failures == 0 ? "all passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}
