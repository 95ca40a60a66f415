#include "runtime/cpu/blas_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <tuple>

namespace hydrac::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A smaller matmul of the same character, for one that would take long to measure or much memory.
Gemm shrunk(Gemm shape) {
  constexpr double most_flop = 2e9;
  constexpr std::int64_t most_floats = 32 << 20;
  const auto floats = [&] { return shape.m * shape.k + shape.k * shape.n + shape.m * shape.n; };
  while (shape.flop() > most_flop || floats() > most_floats) {
    std::int64_t& longest = std::max({std::ref(shape.m), std::ref(shape.n), std::ref(shape.k)}).get();
    longest = (longest + 1) / 2;
  }
  shape.lda = shape.trans_a ? shape.m : shape.k;
  shape.ldb = shape.trans_b ? shape.k : shape.n;
  shape.ldc = shape.n;
  return shape;
}

// Any values but zeros and denormals: some processors are slow or fast on those.
void fill(std::vector<float>& values) {
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
}

double best_ms(BlasLibrary& library, const Gemm& shape) {
  std::vector<float> a(static_cast<std::size_t>(shape.m * shape.k)),
      b(static_cast<std::size_t>(shape.k * shape.n)), c(static_cast<std::size_t>(shape.m * shape.n));
  fill(a);
  fill(b);
  library.gemm(shape, a.data(), b.data(), c.data());
  double best = 1e300;
  const auto start = Clock::now();
  for (int run = 0; run < 3 || (run < 20 && ms_since(start) < 20.0); ++run) {
    const auto run_start = Clock::now();
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(c.size()); ++i) c[i] *= 0.5f;
    library.gemm(shape, a.data(), b.data(), c.data());
    best = std::min(best, ms_since(run_start));
  }
  return best;
}

auto as_tuple(const Gemm& shape) {
  return std::make_tuple(shape.m, shape.n, shape.k, shape.trans_a, shape.trans_b, shape.beta != 0.0f);
}

// FNV-1a over the text of the shapes: keys stay short however many matmuls a program has.
std::uint64_t digest(const std::vector<Gemm>& shapes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const Gemm& shape : shapes) {
    for (char letter : fmt::format("{};", fmt::join(as_tuple(shape), ","))) {
      hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
    }
  }
  return hash;
}

}  // namespace

double measure_ms(BlasLibrary& library, const std::vector<Gemm>& shapes) {
  std::map<decltype(as_tuple(Gemm{})), double> measured;
  double total = 0.0;
  for (const Gemm& shape : shapes) {
    const auto [found, is_new] = measured.try_emplace(as_tuple(shape), 0.0);
    if (is_new) {
      const Gemm smaller = shrunk(shape);
      found->second = best_ms(library, smaller) * (shape.flop() / smaller.flop());
    }
    total += found->second;
  }
  return total;
}

std::string choice_key(const std::vector<std::string>& libraries, const std::vector<Gemm>& shapes) {
  return fmt::format("{}; {}; {} threads; shapes {:016x}", fmt::join(libraries, ", "), cpu_model(),
                     omp_get_max_threads(), digest(shapes));
}

// The lines that tell one model from another, of the first processor.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, model;
  while (std::getline(file, line) && !line.empty()) {
    for (const char* field :
         {"vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part"}) {
      if (!line.starts_with(field)) continue;
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) break;
      if (!model.empty()) model += ' ';
      model.append(line, colon + 2);
      break;
    }
  }
  std::replace(model.begin(), model.end(), '\t', ' ');
  return model;
}

}  // namespace hydrac::runtime
