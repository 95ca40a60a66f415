// Matmuls on a real GPU against float64: types, transposes, odd sizes, sums, biases; the choice of
// algorithms.
#include "runtime/cuda/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>

#include "runtime/batch_stride.h"
#include "runtime/cuda/memory.h"
#include "tests/gpu/gemm_reference.h"
#include "tests/gpu/gpu_test.h"

namespace hydrac::runtime::cuda {
namespace {

using test::message_of;
using test::Tensor;

struct Types {
  const char* name;
  ElementType in, out;
  bool tf32;
  double tolerance;  // of the relative error: the output's rounding, or the operands' in tf32
};

constexpr Types kTypes[] = {
    {"f32", ElementType::f32, ElementType::f32, false, 2e-6},
    {"tf32", ElementType::f32, ElementType::f32, true, 1e-3},
    {"bf16", ElementType::bf16, ElementType::bf16, false, 3e-3},
    {"bf16 to f32", ElementType::bf16, ElementType::f32, false, 2e-6},
    {"f16", ElementType::f16, ElementType::f16, false, 4e-4},
    {"f16 to f32", ElementType::f16, ElementType::f32, false, 2e-6},
};

GemmProblem problem(const Types& types, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmProblem p;
  p.m = m, p.n = n, p.k = k;
  p.a = p.b = types.in;
  p.result = types.out;
  p.tf32 = types.tf32;
  return p;
}

class GpuGemm : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    GemmOptions quick;  // the many small matmuls of these tests need the right result, not the fastest
    quick.candidates = 4;
    quick.search_ms = 0;
    library = std::make_unique<GemmLibrary>(*context, quick);
    workspace = DeviceBuffer(library->max_workspace_bytes());
    scratch = DeviceBuffer(std::int64_t{2} << 30);
  }

  DeviceRange scratch_range() const { return {scratch.data(), scratch.bytes()}; }

  // Runs on random operands, its output poisoned before.
  void expect_right(const GemmProblem& p, double tolerance) {
    const Gemm gemm = library->plan(p, *stream, scratch_range());
    Tensor a(p.a, p.m * p.k), b(p.a, p.k * p.n), d(p.result, p.m * p.n), bias(p.result, p.n);
    a.fill_random(1), b.fill_random(2), bias.fill_random(4);
    if (p.accumulate) d.fill_random(3);
    const std::vector<double> wanted = test::reference(p, a, b, d, bias);
    const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes),
                       on_bias = on_device(bias.bytes);
    library->run(gemm, {on_a.data(), on_b.data(), on_d.data(), on_bias.data()}, *stream, workspace.data());
    d.bytes = on_host<std::uint8_t>(on_d);
    EXPECT_LT(test::relative_error(d, wanted), tolerance) << p.text();
  }

  std::unique_ptr<GemmLibrary> library;
  DeviceBuffer workspace, scratch;
};

TEST_F(GpuGemm, EveryTypeTransposeAndOddSizeIsRight) {
  const std::int64_t sizes[][3] = {{1, 1, 1},      {3, 1, 5},     {1, 1000, 3}, {1000, 3, 1000},
                                   {129, 257, 65}, {64, 96, 128}, {5, 1, 333}};
  for (const Types& types : kTypes) {
    if (types.in == ElementType::bf16 && capability() < 80) continue;
    for (const auto& [m, n, k] : sizes) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        GemmProblem p = problem(types, m, n, k);
        p.transpose_a = (transposes & 1) != 0;
        p.transpose_b = (transposes & 2) != 0;
        expect_right(p, types.tolerance);
      }
    }
  }
}

TEST_F(GpuGemm, SumsAreAddedToWhatIsThere) {
  for (const Types& types : kTypes) {
    if (types.in == ElementType::bf16 && capability() < 80) continue;
    GemmProblem p = problem(types, 192, 130, 777);
    p.transpose_a = true;
    p.accumulate = true;
    expect_right(p, types.tolerance);
  }
}

TEST_F(GpuGemm, AVocabularyOfAnyLengthIsRight) {
  const Types types = capability() >= 80 ? kTypes[2] : kTypes[4];
  GemmProblem logits = problem(types, 24, 50257, 64);
  logits.transpose_b = true;
  expect_right(logits, types.tolerance);
  GemmProblem d_hidden = problem(types, 24, 64, 50257);
  expect_right(d_hidden, types.tolerance);
  GemmProblem d_weight = problem(types, 50257, 64, 24);
  d_weight.transpose_a = true;
  d_weight.result = ElementType::f32;
  d_weight.accumulate = true;
  expect_right(d_weight, 2e-6);
}

TEST_F(GpuGemm, ABiasIsAddedToEachRow) {
  for (const Types& types : kTypes) {
    if (types.in == ElementType::bf16 && capability() < 80) continue;
    for (int transposes = 0; transposes < 4; ++transposes) {
      GemmProblem p = problem(types, 136, 264, 72);
      p.bias = true;
      p.transpose_a = (transposes & 1) != 0;
      p.transpose_b = (transposes & 2) != 0;
      expect_right(p, types.tolerance);
    }
  }
}

// Matrices of odd sizes too lie at multiples of 64 elements; what lies between is not read as a number.
TEST_F(GpuGemm, ABatchMultipliesMatricesSideBySide) {
  constexpr std::int64_t batch = 3;
  for (const Types& types : kTypes) {
    if (types.in == ElementType::bf16 && capability() < 80) continue;
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{33, 33, 77}, {96, 160, 64}, {5, 77, 33}}) {
      for (int transposes = 0; transposes < 3; ++transposes) {
        GemmProblem one = problem(types, m, n, k);
        one.transpose_a = transposes == 1;
        one.transpose_b = transposes == 2;
        GemmProblem all = one;
        all.batch = batch;
        const std::int64_t strides[] = {batch_stride(m, k), batch_stride(k, n), batch_stride(m, n)};
        Tensor a(types.in, batch * strides[0]), b(types.in, batch * strides[1]),
            d(types.out, batch * strides[2]);
        a.fill_random(1), b.fill_random(2);
        const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes);
        const Gemm gemm = library->plan(all, *stream, scratch_range());
        library->run(gemm, {on_a.data(), on_b.data(), on_d.data(), nullptr}, *stream, workspace.data());
        d.bytes = on_host<std::uint8_t>(on_d);
        for (std::int64_t i = 0; i < batch; ++i) {
          const auto matrix = [&](const Tensor& from, std::int64_t stride, std::int64_t elements) {
            Tensor part(from.type, elements);
            const std::int64_t size = from.bytes.size() / from.size();
            std::copy_n(from.bytes.begin() + i * stride * size, elements * size, part.bytes.begin());
            return part;
          };
          const Tensor found = matrix(d, strides[2], m * n);
          const std::vector<double> wanted =
              test::reference(one, matrix(a, strides[0], m * k), matrix(b, strides[1], k * n), found, found);
          EXPECT_LT(test::relative_error(found, wanted), types.tolerance) << all.text() << ", matrix " << i;
        }
      }
    }
  }
}

// The shapes of a training step, searched as in a real run.
class GpuGemmSearch : public GpuGemm {
 protected:
  // D of a matmul on fixed operands, the same in every run.
  Tensor result(GemmLibrary& of, const Gemm& gemm, int runs = 1) {
    const GemmProblem& p = gemm.problem();
    Tensor a(p.a, p.m * p.k), b(p.a, p.k * p.n), d(p.result, p.m * p.n), bias(p.result, p.n);
    a.fill_random(1), b.fill_random(2), bias.fill_random(3);
    const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes),
                       on_bias = on_device(bias.bytes);
    const GemmArguments arguments{on_a.data(), on_b.data(), on_d.data(), on_bias.data()};
    for (int i = 0; i < runs; ++i) {
      fill_bytes(on_d.data(), 0, on_d.bytes(), *stream);
      of.run(gemm, arguments, *stream, workspace.data());
      auto now = on_host<std::uint8_t>(on_d);
      EXPECT_TRUE(i == 0 || d.bytes == now) << "run " << i << " of " << p.text() << " differs";
      d.bytes = std::move(now);
    }
    return d;
  }

  static std::vector<GemmProblem> step_shapes(ElementType type) {
    std::vector<GemmProblem> shapes;
    const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, ElementType out,
                         bool bias) {
      GemmProblem p;
      p.m = m, p.n = n, p.k = k, p.transpose_a = ta, p.transpose_b = tb;
      p.a = p.b = type, p.result = out;
      p.bias = bias;
      p.accumulate = out == ElementType::f32;
      shapes.push_back(p);
    };
    add(8192, 2304, 768, false, true, type, false);
    add(8192, 3072, 768, false, true, type, true);
    add(8192, 768, 3072, false, true, type, true);
    add(8192, 3072, 768, false, true, type, false);
    add(8192, 3072, 768, false, false, type, false);
    add(8192, 768, 3072, false, false, type, false);
    add(1024, 50304, 768, false, true, type, false);
    add(768, 3072, 8192, true, false, ElementType::f32, false);
    add(768, 768, 8192, true, false, ElementType::f32, false);
    add(384, 384, 16384, true, false, ElementType::f32, false);
    return shapes;
  }
};

TEST_F(GpuGemmSearch, RememberedChoicesGiveTheSameBitsWithoutMeasuring) {
  const test::TempDir folder;
  GemmOptions options;
  options.cache_file = folder / "gemm.txt";
  GemmLibrary first(*context, options);
  const GemmProblem p = step_shapes(capability() >= 80 ? ElementType::bf16 : ElementType::f16)[8];
  EXPECT_FALSE(first.remembers(p));
  EXPECT_GE(first.scratch_bytes(p), first.max_workspace_bytes() + (2 * 8192 * 768 * 2 + 768 * 768 * 4));
  EXPECT_EQ(message_of<RunError>([&] {
              first.plan(p, *stream, {scratch.data(), 1024});
            }),
            "choosing an algorithm for " + p.text() + " needs " + std::to_string(first.scratch_bytes(p)) +
                " bytes of scratch memory and got 1024");
  const Gemm searched = first.plan(p, *stream, scratch_range());
  EXPECT_TRUE(first.remembers(p));
  GemmLibrary second(*context, options);
  EXPECT_TRUE(second.remembers(p));
  const Gemm remembered = second.plan(p, *stream, {scratch.data(), 1024});  // would throw if it had to search
  EXPECT_EQ(searched.description(), remembered.description());
  EXPECT_EQ(searched.workspace_bytes(), remembered.workspace_bytes());
  EXPECT_EQ(result(first, searched).bytes, result(second, remembered).bytes);
  GemmProblem other = p;
  other.k += 8;
  EXPECT_FALSE(second.remembers(other));
}

TEST_F(GpuGemmSearch, RecordedChoicesAreRepeatedWithoutMeasuringWhateverTheCacheSays) {
  const test::TempDir folder;
  GemmOptions first_proposed, resumed;
  first_proposed.candidates = 1;
  first_proposed.search_ms = 0;
  resumed.cache_file = folder / "gemm.txt";
  GemmLibrary first(*context, first_proposed);
  for (const GemmProblem& p : step_shapes(capability() >= 80 ? ElementType::bf16 : ElementType::f16)) {
    const Gemm wanted = first.plan(p, *stream, scratch_range());
    {
      GemmLibrary fills_the_cache(*context, resumed);
      fills_the_cache.plan(p, *stream, scratch_range());
    }
    GemmOptions options = resumed;
    options.recorded = first.choices();
    GemmLibrary second(*context, options);
    EXPECT_TRUE(second.remembers(p));
    const Gemm repeated = second.plan(p, *stream, {scratch.data(), 1024});  // would throw if it had to search
    EXPECT_EQ(second.choices().find("cublaslt", p.text()), first.choices().find("cublaslt", p.text()));
    EXPECT_EQ(result(first, wanted).bytes, result(second, repeated).bytes);
    options.recorded.set("cublaslt", "library", "cuBLASLt 1.2.3");  // whose numbers mean something else
    GemmLibrary other(*context, options);
    EXPECT_EQ(other.choices().find("cublaslt", "library"), first.version());
  }
}

TEST_F(GpuGemmSearch, TheChosenAlgorithmsAreRightDeterministicAndNoSlowerThanTheFirstProposed) {
  GemmOptions first_only, all;
  first_only.candidates = 1;
  all.search_ms = 400;
  GemmLibrary naive(*context, first_only), searching(*context), thorough(*context, all);
  std::printf("%-58s %9s %9s %9s %9s\n", "matmul", "first ms", "best ms", "longer", "TFLOP/s");
  const ElementType type = capability() >= 80 ? ElementType::bf16 : ElementType::f16;
  for (const GemmProblem& p : step_shapes(type)) {
    const auto start = std::chrono::steady_clock::now();
    const Gemm best = searching.plan(p, *stream, scratch_range());
    const double took =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const Gemm first = naive.plan(p, *stream, scratch_range());
    const Gemm longer = thorough.plan(p, *stream, scratch_range());
    std::printf("%-58s %9.4f %9.4f %9.4f %9.0f\n  searched %.0f ms: %s\n  longer: %s\n", p.text().c_str(),
                first.ms(), best.ms(), longer.ms(), p.flop() / best.ms() * 1e-9, took,
                best.description().c_str(), longer.description().c_str());
    EXPECT_LT(best.ms(), first.ms() * 1.1) << p.text();  // 1.1: two measurements of one thing differ
    EXPECT_LT(longer.ms(), best.ms() * 1.1) << p.text();
    const Tensor theirs = result(naive, first);
    std::vector<double> wanted(p.m * p.n);
    for (std::int64_t i = 0; i < theirs.size(); ++i) wanted[i] = theirs[i];
    const double tolerance = p.result == type ? 3e-3 : 1e-5;  // sums in another order
    EXPECT_LT(test::relative_error(result(searching, best, 5), wanted), tolerance) << p.text();
    EXPECT_LT(test::relative_error(result(thorough, longer, 5), wanted), tolerance) << p.text();
  }
}

TEST_F(GpuGemmSearch, AlternativesAreOtherAlgorithmsWithTheSameResult) {
  const ElementType type = capability() >= 80 ? ElementType::bf16 : ElementType::f16;
  GemmLibrary searching(*context);
  int found = 0;
  for (const GemmProblem& p : step_shapes(type)) {
    const Gemm best = searching.plan(p, *stream, scratch_range());
    const auto now = searching.choices().find("cublaslt", p.text());
    const Tensor theirs = result(searching, best);
    const std::vector<std::string> others = searching.alternatives(p, *stream, scratch_range(), 3);
    EXPECT_LE(others.size(), 3u);
    EXPECT_EQ(searching.choices().find("cublaslt", p.text()), now) << "they were only measured";
    for (const std::string& words : others) {
      EXPECT_NE(words, now);
      const Gemm other = searching.plan_as(p, words);
      EXPECT_EQ(searching.choices().find("cublaslt", p.text()), words);
      const Tensor ours = result(searching, other, 3);
      std::vector<double> expected(p.m * p.n);
      for (std::int64_t i = 0; i < theirs.size(); ++i) expected[i] = theirs[i];
      EXPECT_LT(test::relative_error(ours, expected), p.result == type ? 3e-3 : 1e-5) << p.text();
      ++found;
    }
    EXPECT_EQ(message_of<RunError>([&] { searching.plan_as(p, "no algorithm"); }),
              searching.version() + " does not take this algorithm for the matmul " + p.text() +
                  " on this GPU: no algorithm");
  }
  EXPECT_GT(found, 0);
}

TEST_F(GpuGemmSearch, MatmulsAreCaptured) {
  const GemmProblem p = problem(kTypes[0], 64, 48, 32);
  const Gemm gemm = library->plan(p, *stream, scratch_range());
  const std::vector<std::uint8_t> wanted = result(*library, gemm).bytes;
  Tensor a(p.a, p.m * p.k), b(p.a, p.k * p.n);
  a.fill_random(1), b.fill_random(2);
  const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d(p.m * p.n * 4);
  const Graph graph = Graph::capture(*stream, [&] {
    fill_bytes(on_d.data(), 0xff, on_d.bytes(), *stream);
    library->run(gemm, {on_a.data(), on_b.data(), on_d.data()}, *stream, workspace.data());
  });
  graph.launch(*stream);
  EXPECT_EQ(on_host<std::uint8_t>(on_d), wanted);
}

TEST_F(GpuGemmSearch, WrongArgumentsAreNamed) {
  GemmProblem p = problem(kTypes[0], 64, 64, 64);
  p.bias = true;
  const Gemm gemm = library->plan(p, *stream, scratch_range());
  std::byte* at = scratch.data();
  const auto refusal = [&](const GemmArguments& arguments) {
    return message_of<RunError>([&] { library->run(gemm, arguments, *stream, workspace.data()); });
  };
  EXPECT_EQ(refusal({at, at, at}), "matmul 64x64x64 f32*f32->f32 bias: the address of bias is missing");
  EXPECT_EQ(refusal({at, at + 4, at, at}),
            "matmul 64x64x64 f32*f32->f32 bias: the address of b is no multiple of 16");
}

}  // namespace
}  // namespace hydrac::runtime::cuda
