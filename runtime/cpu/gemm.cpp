#include "runtime/cpu/gemm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <chrono>

#include "runtime/batch_stride.h"
#include "runtime/cache/choice_file.h"
#include "runtime/cpu/blas_choice.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/error.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime {
namespace {

// Replaces strides of 0, which mean dense, by the row's length.
Gemm with_strides(Gemm p) {
  if (p.lda == 0) p.lda = p.trans_a ? p.m : p.k;
  if (p.ldb == 0) p.ldb = p.trans_b ? p.k : p.n;
  if (p.ldc == 0) p.ldc = p.n;
  return p;
}

void check(const Gemm& p) {
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) {
    throw RunError(fmt::format("matmul with m {}, n {}, k {}: every size must be positive", p.m, p.n, p.k));
  }
  const auto check_stride = [](const char* name, std::int64_t stride, std::int64_t row) {
    if (stride < row) {
      throw RunError(fmt::format("matmul: {} is {}, less than its row of {} floats", name, stride, row));
    }
  };
  check_stride("lda", p.lda, p.trans_a ? p.m : p.k);
  check_stride("ldb", p.ldb, p.trans_b ? p.k : p.n);
  check_stride("ldc", p.ldc, p.n);
}

InputError missing(const BlasOptions& options) {
  std::vector<std::string> files;
  if (options.preference != "openblas") files = options.onednn_files;
  if (options.preference != "onednn") {
    files.insert(files.end(), options.openblas_files.begin(), options.openblas_files.end());
  }
  const std::string openblas = "apt-get install libopenblas0",
                    onednn = "apt-get install libdnnl2 (Debian 12) or libdnnl3 (Ubuntu 24.04)";
  return InputError(fmt::format("no library for matmuls: {} cannot be opened\nInstall one: {}",
                                fmt::join(files, ", "),
                                options.preference == "onednn"     ? onednn
                                : options.preference == "openblas" ? openblas
                                                                   : openblas + ", or " + onednn));
}

// Three matmuls of a small transformer, for a caller that names none: forward, weight gradient, input
// gradient.
std::vector<Gemm> common_shapes() {
  Gemm forward{.m = 4096, .n = 1536, .k = 384, .trans_b = true};
  Gemm weight_gradient{.m = 1536, .n = 384, .k = 4096, .trans_a = true};
  Gemm input_gradient{.m = 4096, .n = 384, .k = 1536};
  return {forward, weight_gradient, input_gradient};
}

}  // namespace

struct Blas::Impl {
  std::unique_ptr<BlasLibrary> library;
  std::vector<std::string> notes;
};

Blas::Blas(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Blas::Blas(Blas&&) noexcept = default;
Blas& Blas::operator=(Blas&&) noexcept = default;
Blas::~Blas() = default;

namespace {

constexpr const char* kSection = "blas";

// Between two libraries: the recorded choice, the remembered one, or the faster one. Says in a note which and
// why.
std::unique_ptr<BlasLibrary> choose(std::unique_ptr<BlasLibrary> first, std::unique_ptr<BlasLibrary> second,
                                    const BlasOptions& options, std::vector<std::string>& notes) {
  const auto take = [&](const std::optional<std::string>& word, const std::string& reason) {
    if (word == second->word()) std::swap(first, second);
    if (word != first->word()) return false;
    notes.push_back(fmt::format("matmuls: {}, {}", first->name(), reason));
    return true;
  };
  if (take(options.recorded.find(kSection, "library"), "as recorded")) return first;
  const std::vector<Gemm> shapes = options.shapes.empty() ? common_shapes() : options.shapes;
  const std::string key = choice_key({first->name(), second->name()}, shapes);
  ChoiceFile remembered(options.cache_file);
  if (take(remembered.find(key), fmt::format("as measured before ({})", options.cache_file))) return first;
  double first_ms = measure_ms(*first, shapes), second_ms = measure_ms(*second, shapes);
  if (second_ms < first_ms) {
    std::swap(first, second);
    std::swap(first_ms, second_ms);
  }
  notes.push_back(fmt::format("matmuls: {}, {:.2f} ms where {} needs {:.2f} ({} matmuls measured)",
                              first->name(), first_ms, second->name(), second_ms, shapes.size()));
  if (!remembered.remember(key, first->word())) {
    notes.push_back(fmt::format("the choice cannot be remembered: {} cannot be written", options.cache_file));
  }
  return first;
}

}  // namespace

Blas Blas::open(const BlasOptions& options) {
  const bool any = options.preference == "auto";
  if (!any && options.preference != "onednn" && options.preference != "openblas") {
    throw InputError(
        fmt::format("matmuls: unknown library '{}'; use auto, onednn or openblas", options.preference));
  }
  for (const Gemm& shape : options.shapes) check(with_strides(shape));
  auto impl = std::make_unique<Impl>();
  std::unique_ptr<BlasLibrary> onednn, openblas;
  if (any || options.preference == "onednn") onednn = open_onednn(options.onednn_files);
  if (any || options.preference == "openblas") openblas = open_openblas(options.openblas_files);
  if (onednn && openblas) {
    impl->library = choose(std::move(onednn), std::move(openblas), options, impl->notes);
  } else if (onednn || openblas) {
    if (any) {
      impl->notes.push_back(fmt::format("matmuls: {}; {} is not installed, so there was nothing to compare",
                                        (onednn ? onednn : openblas)->name(),
                                        onednn ? "OpenBLAS" : "oneDNN"));
    }
    impl->library = onednn ? std::move(onednn) : std::move(openblas);
  } else {
    throw missing(options);
  }
  for (std::string& warning : impl->library->warnings()) impl->notes.push_back(std::move(warning));
  return Blas(std::move(impl));
}

void Blas::gemm(const Gemm& matmul, const float* a, const float* b, float* c, Groups groups) const {
  const Gemm p = with_strides(matmul);
  check(p);
  before_call();
  if (groups.count > 0)
    run_groups(p, a, b, c, groups);
  else
    run(p, a, b, c);
  after_call();
}

// A group without rows has a sum of zeros.
void Blas::run_groups(const Gemm& matmul, const float* a, const float* b, float* c, Groups groups) const {
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const std::int64_t first = groups.offsets[g], rows = groups.offsets[g + 1] - first;
    Gemm p = matmul;
    const float *own_a = a + first * p.lda, *own_b = b;
    float* own_c = c;
    if (p.trans_a) {
      p.k = rows;
      own_b += first * p.ldb;
      own_c += g * p.m * p.ldc;
      if (rows == 0 && p.beta == 0) std::fill_n(own_c, p.m * p.ldc, 0.0f);
    } else {
      p.m = rows;
      own_b += g * p.n * p.k;
      own_c += first * p.ldc;
    }
    if (groups.row_by_row && !p.trans_a) {
      p.m = 1;
      for (std::int64_t r = 0; r < rows; ++r) run(p, own_a + r * p.lda, own_b, own_c + r * p.ldc);
    } else if (rows > 0) {
      run(p, own_a, own_b, own_c);
    }
  }
}

void Blas::run(const Gemm& p, const float* a, const float* b, float* c) const {
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const int status = impl_->library->gemm(p, a + i * batch_stride(p.m, p.k), b + i * batch_stride(p.k, p.n),
                                            c + i * batch_stride(p.m, p.n));
    if (status != 0)
      throw RunError(fmt::format("{} refused a matmul with m {}, n {}, k {} (status {})", name(), p.m, p.n,
                                 p.k, status));
  }
}

const std::string& Blas::name() const {
  return impl_->library->name();
}
const std::vector<std::string>& Blas::notes() const {
  return impl_->notes;
}

RecordedChoices Blas::choices() const {
  RecordedChoices choices;
  choices.set(kSection, "library", impl_->library->word());
  choices.set(kSection, "version", name());
  choices.set(kSection, "threads", std::to_string(omp_get_max_threads()));
  choices.set(kSection, "processor", cpu_model());
  return choices;
}

double Blas::peak_gflops() const {
  constexpr std::int64_t n = 1024;
  const Gemm square{.m = n, .n = n, .k = n};
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double best = 1e300;
  gemm(square, a.data(), b.data(), c.data());  // the first call starts threads and generates code
  for (int run = 0; run < 5 || Clock::now() - start < std::chrono::milliseconds(100); ++run) {
    const auto run_start = Clock::now();
    gemm(square, a.data(), b.data(), c.data());
    best = std::min(best, std::chrono::duration<double>(Clock::now() - run_start).count());
  }
  return square.flop() / best / 1e9;
}

}  // namespace hydrac::runtime
