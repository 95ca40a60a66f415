// Matmuls through whichever libraries are installed, how one is chosen, and what is said when none is
// there.
#include "runtime/cpu/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "runtime/cache/choice_file.h"
#include "runtime/error.h"

namespace hydrac::runtime {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_floats(std::size_t size, std::uint32_t state) {
  std::vector<float> values(size);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
  return values;
}

// What a test of a library runs on: each installed one. A missing one is skipped loudly.
class BlasLibraries : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      blas_ = std::make_unique<Blas>(Blas::open({.preference = GetParam()}));
    } catch (const InputError& error) {
      std::printf("SKIPPED: %s\n", error.what());
      GTEST_SKIP();
    }
  }
  void TearDown() override { omp_set_num_threads(omp_get_num_procs()); }

  std::unique_ptr<Blas> blas_;
};

// C by the definition, in float64, from row-major memory with strides.
double wanted_element(const Gemm& p, const std::vector<float>& a, const std::vector<float>& b, double c,
                      std::int64_t row, std::int64_t column) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < p.k; ++k) {
    const double left = a[p.trans_a ? k * p.lda + row : row * p.lda + k];
    const double right = b[p.trans_b ? column * p.ldb + k : k * p.ldb + column];
    sum += left * right;
  }
  return p.alpha * sum + (p.beta == 0.0f ? 0.0 : p.beta * c);
}

void expect_right(const Blas& blas, Gemm p) {
  SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n << " x " << p.k << (p.trans_a ? " A'" : "")
                                    << (p.trans_b ? " B'" : "") << " beta " << p.beta);
  // Strides wider than the rows: what lies between must neither be read nor written.
  p.lda = (p.trans_a ? p.m : p.k) + 3;
  p.ldb = (p.trans_b ? p.k : p.n) + 5;
  p.ldc = p.n + 7;
  auto a = random_floats((p.trans_a ? p.k : p.m) * p.lda, 1),
       b = random_floats((p.trans_b ? p.n : p.k) * p.ldb, 2);
  const auto poison_gaps = [](std::vector<float>& x, std::int64_t stride, std::int64_t row) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (static_cast<std::int64_t>(i) % stride >= row) x[i] = kPoison;
    }
  };
  poison_gaps(a, p.lda, p.trans_a ? p.m : p.k);
  poison_gaps(b, p.ldb, p.trans_b ? p.k : p.n);
  auto c = random_floats(p.m * p.ldc, 3);
  if (p.beta == 0.0f) std::fill(c.begin(), c.end(), kPoison);
  const auto before = c;
  blas.gemm(p, a.data(), b.data(), c.data());
  double difference = 0.0, norm = 0.0;
  for (std::int64_t row = 0; row < p.m; ++row) {
    for (std::int64_t column = 0; column < p.ldc; ++column) {
      const std::size_t at = row * p.ldc + column;
      if (column >= p.n) {
        ASSERT_TRUE(c[at] == before[at] || (std::isnan(c[at]) && std::isnan(before[at])))
            << "a gap was written";
        continue;
      }
      const double wanted = wanted_element(p, a, b, before[at], row, column);
      difference += (c[at] - wanted) * (c[at] - wanted);
      norm += wanted * wanted;
    }
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-6);
}

TEST_P(BlasLibraries, MatmulsOfEveryLayoutMatchTheDefinition) {
  for (bool trans_a : {false, true}) {
    for (bool trans_b : {false, true}) {
      for (float beta : {0.0f, 1.0f, -0.5f}) {
        expect_right(
            *blas_,
            {.m = 37, .n = 53, .k = 71, .trans_a = trans_a, .trans_b = trans_b, .alpha = 1.5f, .beta = beta});
        expect_right(*blas_,
                     {.m = 1, .n = 130, .k = 1, .trans_a = trans_a, .trans_b = trans_b, .beta = beta});
      }
      expect_right(*blas_, {.m = 200, .n = 1, .k = 64, .trans_a = trans_a, .trans_b = trans_b});
    }
  }
}

TEST_P(BlasLibraries, StridesOfZeroMeanDense) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 2, 0, 1, 3};
  std::vector<float> c(4);
  blas_->gemm({.m = 2, .n = 2, .k = 3}, a.data(), b.data(), c.data());
  EXPECT_EQ(c, (std::vector<float>{8, 9, 20, 18})) << "A [2,3] x B [3,2]";
  blas_->gemm({.m = 2, .n = 2, .k = 3, .trans_b = true}, a.data(), b.data(), c.data());
  EXPECT_EQ(c, (std::vector<float>{7, 11, 16, 23})) << "A [2,3] x (B [2,3])'";
}

TEST_P(BlasLibraries, ABatchMultipliesMatricesSideBySide) {
  const Gemm one{.m = 5, .n = 9, .k = 7, .trans_b = true};
  Gemm all = one;
  all.batch = 3;
  const std::int64_t stride = 64;  // of all three: each has fewer elements
  const auto a = random_floats(3 * stride, 1), b = random_floats(3 * stride, 2);
  std::vector<float> c(3 * stride, kPoison), each = c;
  blas_->gemm(all, a.data(), b.data(), c.data());
  for (std::int64_t i = 0; i < 3; ++i) {
    blas_->gemm(one, &a[i * stride], &b[i * stride], &each[i * stride]);
    for (std::int64_t at = 0; at < one.m * one.n; ++at)
      EXPECT_EQ(c[i * stride + at], each[i * stride + at]) << "matrix " << i << " element " << at;
  }
}

// Three groups, the second without rows; what is behind the last one is neither read nor written.
TEST_P(BlasLibraries, GroupsOfRowsHaveAMatrixEach) {
  constexpr std::int64_t rows = 9, n = 5, k = 7;
  const std::vector<std::int32_t> offsets = {0, 2, 2, 6};
  const Groups groups{3, offsets.data()};
  auto x = random_floats(rows * k, 1), dy = random_floats(rows * n, 2);
  const auto weights = random_floats(3 * n * k, 3);
  std::fill(x.begin() + 6 * k, x.end(), kPoison);
  std::fill(dy.begin() + 6 * n, dy.end(), kPoison);
  std::vector<float> y(rows * n, 7.0f), wanted = y;
  blas_->gemm({.m = rows, .n = n, .k = k, .trans_b = true}, x.data(), weights.data(), y.data(), groups);
  for (const std::int64_t g : {0, 2})
    blas_->gemm({.m = offsets[g + 1] - offsets[g], .n = n, .k = k, .trans_b = true}, &x[offsets[g] * k],
                &weights[g * n * k], &wanted[offsets[g] * n]);
  EXPECT_EQ(y, wanted);
  std::vector<float> row_by_row(rows * n, 7.0f);
  blas_->gemm({.m = rows, .n = n, .k = k, .trans_b = true}, x.data(), weights.data(), row_by_row.data(),
              {3, offsets.data(), true});
  std::vector<float> one(n);
  for (std::int64_t row = 0; row < 6; ++row) {
    blas_->gemm({.m = 1, .n = n, .k = k, .trans_b = true}, &x[row * k], &weights[(row < 2 ? 0 : 2) * n * k],
                one.data());
    EXPECT_TRUE(std::equal(one.begin(), one.end(), &row_by_row[row * n])) << "row " << row;
  }
  for (const float beta : {0.0f, 1.0f}) {
    std::vector<float> dw(3 * n * k, beta == 0 ? kPoison : 1.0f), wanted_dw(3 * n * k, beta);
    const Gemm gemm{.m = n, .n = k, .k = rows, .trans_a = true, .beta = beta};
    blas_->gemm(gemm, dy.data(), x.data(), dw.data(), groups);
    for (const std::int64_t g : {0, 2}) {
      Gemm own = gemm;
      own.k = offsets[g + 1] - offsets[g];
      blas_->gemm(own, &dy[offsets[g] * n], &x[offsets[g] * k], &wanted_dw[g * n * k]);
    }
    EXPECT_EQ(dw, wanted_dw) << "beta " << beta;
  }
}

TEST_P(BlasLibraries, TheSameMatmulGivesTheSameBits) {
  const Gemm p{.m = 300, .n = 257, .k = 1500, .trans_a = true};
  const auto a = random_floats(p.m * p.k, 1), b = random_floats(p.k * p.n, 2);
  for (int threads : {1, 2}) {
    omp_set_num_threads(threads);
    std::vector<float> first(p.m * p.n), again(p.m * p.n);
    blas_->gemm(p, a.data(), b.data(), first.data());
    for (int run = 0; run < 10; ++run) {
      std::fill(again.begin(), again.end(), kPoison);
      blas_->gemm(p, a.data(), b.data(), again.data());
      ASSERT_EQ(first, again) << threads << " threads, run " << run;
    }
  }
}

TEST_P(BlasLibraries, MatmulsInsideAParallelRegionAreRight) {
  const Gemm p{.m = 64, .n = 96, .k = 128};
  const auto a = random_floats(p.m * p.k, 1), b = random_floats(p.k * p.n, 2);
  omp_set_num_threads(1);
  std::vector<float> wanted(p.m * p.n);
  blas_->gemm(p, a.data(), b.data(), wanted.data());
  std::vector<std::vector<float>> results(16, std::vector<float>(p.m * p.n));
#pragma omp parallel for num_threads(4)
  for (int i = 0; i < 16; ++i) blas_->gemm(p, a.data(), b.data(), results[i].data());
  for (const auto& result : results) EXPECT_EQ(result, wanted);
}

TEST_P(BlasLibraries, UnusableSizesAreErrorsThatSayWhich) {
  float x[4] = {};
  const auto message = [&](const Gemm& p) -> std::string {
    try {
      blas_->gemm(p, x, x, x);
    } catch (const RunError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({.m = 2, .n = 0, .k = 3}), "matmul with m 2, n 0, k 3: every size must be positive");
  EXPECT_EQ(message({.m = 2, .n = 2, .k = 2, .trans_a = true, .lda = 1}),
            "matmul: lda is 1, less than its row of 2 floats");
  EXPECT_EQ(message({.m = 1, .n = 4, .k = 1, .ldc = 3}), "matmul: ldc is 3, less than its row of 4 floats");
}

TEST_P(BlasLibraries, PeakIsPlausible) {
  const double peak = blas_->peak_gflops();
  EXPECT_GT(peak, 0.5);
  EXPECT_LT(peak, 100e3);
  std::printf("             %s: %.0f GFLOP/s on %d threads\n", blas_->name().c_str(), peak,
              omp_get_max_threads());
}

INSTANTIATE_TEST_SUITE_P(Installed, BlasLibraries, ::testing::Values("onednn", "openblas"),
                         [](const auto& info) { return std::string(info.param); });

std::string open_error(const BlasOptions& options) {
  try {
    Blas::open(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Blas, UnknownPreferenceIsAnErrorThatNamesTheChoices) {
  EXPECT_EQ(open_error({.preference = "mkl"}),
            "matmuls: unknown library 'mkl'; use auto, onednn or openblas");
}

TEST(Blas, MissingLibrariesAreAnErrorThatNamesThePackages) {
  const BlasOptions none{.onednn_files = {"libnone.so.3"}, .openblas_files = {"libnone.so.0"}};
  EXPECT_EQ(open_error(none),
            "no library for matmuls: libnone.so.3, libnone.so.0 cannot be opened\n"
            "Install one: apt-get install libopenblas0, or apt-get install libdnnl2 (Debian 12) or libdnnl3 "
            "(Ubuntu 24.04)");
  BlasOptions one = none;
  one.preference = "openblas";
  EXPECT_EQ(open_error(one),
            "no library for matmuls: libnone.so.0 cannot be opened\n"
            "Install one: apt-get install libopenblas0");
  one.preference = "onednn";
  EXPECT_EQ(open_error(one),
            "no library for matmuls: libnone.so.3 cannot be opened\n"
            "Install one: apt-get install libdnnl2 (Debian 12) or libdnnl3 (Ubuntu 24.04)");
}

TEST(Blas, ALibraryWithoutMatrixMatmulsIsNotTaken) {
  EXPECT_EQ(open_error({.preference = "onednn", .onednn_files = {"libm.so.6"}}),
            "no library for matmuls: libm.so.6 cannot be opened\n"
            "Install one: apt-get install libdnnl2 (Debian 12) or libdnnl3 (Ubuntu 24.04)");
}

// What "auto" does with two libraries; skipped where only one is installed.
class BlasChoice : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("hydrac-blas-choice-" + std::to_string(getpid()));
    options_.cache_file = (folder_ / "cache" / "blas.tsv").string();
    options_.shapes = {{.m = 64, .n = 64, .k = 64}};
    for (const char* word : {"onednn", "openblas"}) {
      try {
        names_.push_back(Blas::open({.preference = word}).name());
      } catch (const InputError& error) {
        std::printf("SKIPPED: %s\n", error.what());
        GTEST_SKIP();
      }
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string cache() const {
    std::stringstream text;
    text << std::ifstream(options_.cache_file).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  BlasOptions options_;
  std::vector<std::string> names_;
};

TEST_F(BlasChoice, IsMeasuredOnceAndThenRemembered) {
  const Blas measured = Blas::open(options_);
  ASSERT_GE(measured.notes().size(), 1u);
  EXPECT_NE(measured.notes()[0].find("matmuls: " + measured.name() + ", "), std::string::npos);
  EXPECT_NE(measured.notes()[0].find("(1 matmuls measured)"), std::string::npos);
  const std::string line = cache();
  const Blas again = Blas::open(options_);
  EXPECT_EQ(again.name(), measured.name());
  EXPECT_EQ(again.notes()[0],
            "matmuls: " + measured.name() + ", as measured before (" + options_.cache_file + ")");
  EXPECT_EQ(cache(), line);
}

TEST_F(BlasChoice, FollowsTheFileWhicheverLibraryItNames) {
  Blas::open(options_);
  const std::string key = cache().substr(0, cache().find('\t'));
  for (std::size_t i = 0; i < 2; ++i) {
    ChoiceFile(options_.cache_file).remember(key, i == 0 ? "onednn" : "openblas");
    EXPECT_EQ(Blas::open(options_).name(), names_[i]);
  }
}

TEST_F(BlasChoice, TheRecordedOneWinsOverTheFile) {
  Blas::open(options_);
  const std::string remembered = cache();
  for (std::size_t i = 0; i < 2; ++i) {
    options_.recorded.set("blas", "library", i == 0 ? "onednn" : "openblas");
    const Blas blas = Blas::open(options_);
    EXPECT_EQ(blas.name(), names_[i]);
    EXPECT_EQ(blas.notes()[0], "matmuls: " + names_[i] + ", as recorded");
    EXPECT_EQ(blas.choices().find("blas", "library"), options_.recorded.find("blas", "library"));
    EXPECT_EQ(blas.choices().find("blas", "version"), names_[i]);
  }
  EXPECT_EQ(cache(), remembered);
}

TEST_F(BlasChoice, ARecordedLibraryThatIsNotHereIsSeenInTheChoices) {
  options_.recorded.set("blas", "library", "onednn");
  options_.onednn_files = {"libnone.so"};
  const Blas blas = Blas::open(options_);
  EXPECT_EQ(blas.choices().find("blas", "library"), "openblas");
}

TEST_F(BlasChoice, ADamagedFileIsMeasuredAnew) {
  Blas::open(options_);
  std::string text = cache();
  text[text.find('\t') + 1] ^= 1;
  std::ofstream(options_.cache_file) << text;
  EXPECT_NE(Blas::open(options_).notes()[0].find("(1 matmuls measured)"), std::string::npos);
}

TEST_F(BlasChoice, IsMeasuredAnewForOtherShapesAndThreads) {
  Blas::open(options_);
  options_.shapes.push_back({.m = 32, .n = 32, .k = 32});
  EXPECT_NE(Blas::open(options_).notes()[0].find("(2 matmuls measured)"), std::string::npos);
  omp_set_num_threads(1);
  EXPECT_NE(Blas::open(options_).notes()[0].find("(2 matmuls measured)"), std::string::npos);
  omp_set_num_threads(omp_get_num_procs());
  const std::string text = cache();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\t'), 3);
}

TEST_F(BlasChoice, AFileThatCannotBeWrittenIsANote) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "cache") << "a file where the folder should be";
  const Blas blas = Blas::open(options_);
  ASSERT_GE(blas.notes().size(), 2u);
  EXPECT_EQ(blas.notes()[1],
            "the choice cannot be remembered: " + options_.cache_file + " cannot be written");
}

TEST_F(BlasChoice, IsNoChoiceWhenOnlyOneIsInstalled) {
  options_.onednn_files = {"libnone.so"};
  const Blas blas = Blas::open(options_);
  EXPECT_EQ(blas.notes()[0],
            "matmuls: " + names_[1] + "; oneDNN is not installed, so there was nothing to compare");
  EXPECT_FALSE(std::filesystem::exists(options_.cache_file));
}

TEST_P(BlasLibraries, AVariableThatChoosesItsInstructionsIsANote) {
  const std::string variable =
      std::string(GetParam()) == "onednn" ? "ONEDNN_MAX_CPU_ISA" : "OPENBLAS_CORETYPE";
  const char* old = std::getenv(variable.c_str());
  const std::string before = old != nullptr ? old : "";
  setenv(variable.c_str(), "AVX2", 1);
  const Blas blas = Blas::open({.preference = GetParam()});
  if (old != nullptr) {
    setenv(variable.c_str(), before.c_str(), 1);
  } else {
    unsetenv(variable.c_str());
  }
  ASSERT_FALSE(blas.notes().empty());
  EXPECT_EQ(blas.notes()[0],
            variable +
                "=AVX2 in the environment limits the instructions of matmuls, which may halve their speed: "
                "unset it if you did not set it on purpose");
}

}  // namespace
}  // namespace hydrac::runtime
