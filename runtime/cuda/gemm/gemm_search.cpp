#include "runtime/cuda/gemm/gemm_search.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/random_fill.h"

namespace hydrac::runtime::cuda {
namespace {

constexpr double kHopeless = 1.5;        // times the best one's first run: not measured further
constexpr double kClearlyFaster = 0.99;  // of the best one's time: less replaces it
constexpr int kFewest = 3;               // candidates measured whatever the budget
constexpr double kLongMs = 1;            // longer matmuls are run three times
constexpr int kSamples = 5;              // shorter ones so often ...
constexpr double kSampleMs = 0.25;       // ... and each time repeated to fill this
constexpr int kMostRepeats = 32;
constexpr std::int64_t kMostSets = 16;

// Offsets of the operands of one matmul in one set, in bytes from its start.
struct SetLayout {
  std::int64_t a = 0, b = 0, d = 0, bias = 0, scale = 0, bytes = 0;

  explicit SetLayout(const GemmProblem& p) {
    const auto place = [&](std::int64_t size) {
      const std::int64_t at = bytes;
      bytes += aligned(size);
      return at;
    };
    a = place(stored_a(p).bytes());
    b = place(stored_b(p).bytes());
    d = place(stored_d(p).bytes());
    bias = place(p.bias ? p.n * element_bytes(p.result) : 0);
    scale = place(is_f8(p.a) ? kOperandAlignment : 0);
  }
};

void fill_operands(const GemmProblem& p, const SetLayout& layout, std::byte* set, const Stream& stream) {
  fill_random(set + layout.a, stored_a(p).bytes(), p.a, stream);
  fill_random(set + layout.b, stored_b(p).bytes(), p.b, stream);
  fill_random(set + layout.d, stored_d(p).bytes(), p.result, stream);
  fill_random(set + layout.bias, layout.scale - layout.bias, p.result, stream);
  fill_random(set + layout.scale, layout.bytes - layout.scale, ElementType::f32, stream);
}

GemmArguments operands(const SetLayout& layout, std::byte* set) {
  const auto* const scale = reinterpret_cast<const float*>(set + layout.scale);
  return {set + layout.a, set + layout.b, set + layout.d, set + layout.bias, scale, scale};
}

// Measures candidates on operands in scratch memory.
class Bench {
 public:
  Bench(const GemmSearch& search, const GemmProblem& problem, GemmDescriptors& descriptors,
        const Stream& stream, DeviceRange scratch)
      : search_(search), descriptors_(descriptors), stream_(stream), workspace_(scratch.data) {
    const SetLayout layout(problem);
    const std::int64_t start = aligned(search.workspace_bytes);
    const std::int64_t room = (scratch.bytes - start) / layout.bytes;
    const std::int64_t sets = std::min(room, useful_operand_sets(problem, search.l2_bytes));
    std::byte* first = scratch.data + start;
    stream.synchronize();  // what was in scratch may still be in use
    fill_operands(problem, layout, first, stream);
    for (std::int64_t i = 0; i < sets; ++i) {
      std::byte* set = first + i * layout.bytes;
      if (i > 0) copy_on_device(set, first, layout.bytes, stream);
      sets_.push_back(operands(layout, set));
    }
    stream.synchronize();
  }

  struct Timing {
    double first_ms = 1e300, median_ms = 1e300;
  };

  // nullopt for a candidate that does not run, or whose first run takes far longer than the best one's.
  std::optional<Timing> measure(const abi::cublasLtMatmulHeuristicResult_t& candidate, const Timing& best) {
    const auto once = [&] { check_blas(run(candidate), "cublasLtMatmul"); };
    if (run(candidate) != abi::kBlasSuccess) return std::nullopt;  // it loads the kernel, too
    const double first = ms_of(once);
    if (first > kHopeless * best.first_ms) return std::nullopt;
    std::vector<double> samples;
    if (first >= kLongMs) {
      samples = {first, ms_of(once), ms_of(once)};
    } else {
      // A graph: the host needs longer to queue a short matmul than the GPU to do it.
      const int repeats = std::clamp(static_cast<int>(kSampleMs / first), 1, kMostRepeats);
      const Graph graph = Graph::capture(stream_, [&] {
        for (int i = 0; i < repeats; ++i) once();
      });
      graph.launch(stream_);
      for (int i = 0; i < kSamples; ++i) samples.push_back(ms_of([&] { graph.launch(stream_); }) / repeats);
    }
    std::sort(samples.begin(), samples.end());
    return Timing{first, samples[samples.size() / 2]};
  }

 private:
  abi::cublasStatus_t run(const abi::cublasLtMatmulHeuristicResult_t& candidate) {
    const GemmArguments& set = sets_[next_++ % sets_.size()];
    return descriptors_.run(search_.handle, candidate.algo, set, stream_, workspace_,
                            static_cast<std::int64_t>(candidate.workspace_bytes));
  }
  template <class Work>
  double ms_of(const Work& work) {
    start_.record(stream_);
    work();
    end_.record(stream_);
    end_.synchronize();
    return end_.ms_since(start_);
  }

  const GemmSearch& search_;
  GemmDescriptors& descriptors_;
  const Stream& stream_;
  std::byte* workspace_;
  std::vector<GemmArguments> sets_;
  std::size_t next_ = 0;
  Event start_{Event::Use::timing}, end_{Event::Use::timing};
};

bool same_algorithm(const GemmChoice& a, const GemmChoice& b) {
  return std::ranges::equal(a.algorithm.data, b.algorithm.data);
}

// `best` and, by their time, what else was measured, each algorithm once.
std::vector<GemmChoice> ranking(const GemmChoice& best, std::vector<GemmChoice> measured) {
  std::ranges::stable_sort(measured, {}, &GemmChoice::ms);
  std::vector<GemmChoice> all = {best};
  for (GemmChoice& choice : measured) {
    const bool is_known = std::ranges::any_of(all, [&](const auto& c) { return same_algorithm(c, choice); });
    choice.candidates = best.candidates;
    if (!is_known) all.push_back(choice);
  }
  return all;
}

}  // namespace

std::int64_t operand_bytes(const GemmProblem& problem) {
  return SetLayout(problem).bytes;
}

std::int64_t useful_operand_sets(const GemmProblem& problem, std::int64_t l2_bytes) {
  return std::clamp<std::int64_t>(4 * l2_bytes / operand_bytes(problem), 1, kMostSets);
}

std::vector<GemmChoice> search_gemm(const GemmSearch& search, const GemmProblem& problem,
                                    GemmDescriptors& descriptors, const Stream& stream, DeviceRange scratch) {
  const auto proposals = descriptors.propose(search.handle, search.workspace_bytes, search.candidates);
  if (proposals.empty()) return {};
  Bench bench(search, problem, descriptors, stream, scratch);
  const auto start = std::chrono::steady_clock::now();
  const auto in_budget = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() <
           search.budget_ms;
  };
  std::vector<GemmChoice> measured;
  GemmChoice best;
  Bench::Timing best_timing;
  const auto try_all = [&](const std::vector<abi::cublasLtMatmulHeuristicResult_t>& candidates) {
    for (const auto& candidate : candidates) {
      if (best.candidates >= kFewest && (!in_budget() || best.candidates >= search.candidates)) return;
      const auto timing = bench.measure(candidate, best_timing);
      ++best.candidates;
      if (!timing) continue;
      measured.push_back({.algorithm = candidate.algo,
                          .workspace_bytes = static_cast<std::int64_t>(candidate.workspace_bytes),
                          .ms = timing->median_ms});
      if (timing->median_ms >= kClearlyFaster * best_timing.median_ms) continue;
      best.algorithm = candidate.algo;
      best.workspace_bytes = measured.back().workspace_bytes;
      best_timing = *timing;
    }
  };
  try_all(proposals);
  if (measured.empty()) return {};
  // cuBLASLt proposes few: from the best of them, one attribute after the other.
  using Vary = GemmDescriptors::Vary;
  for (Vary what : {Vary::tile, Vary::cluster, Vary::split_k, Vary::swizzle}) {
    if (in_budget())
      try_all(descriptors.variants(search.handle, best.algorithm, what, search.workspace_bytes));
  }
  best.ms = best_timing.median_ms;
  return ranking(best, std::move(measured));
}

}  // namespace hydrac::runtime::cuda
