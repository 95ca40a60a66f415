// Matrix products on a real GPU against float64: types, transposes, odd sizes, epilogues; the choice of
// algorithms.
#include "runtime/cuda/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

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
  p.c = p.d = types.out;
  p.tf32 = types.tf32;
  return p;
}

class GpuGemm : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    GemmOptions quick;  // the many small products of these tests need the right result, not the fastest
    quick.candidates = 4;
    quick.search_ms = 0;
    library = std::make_unique<GemmLibrary>(*context, quick);
    workspace = DeviceBuffer(library->max_workspace_bytes());
    scratch = DeviceBuffer(std::int64_t{2} << 30);
  }

  DeviceRange scratch_range() const { return {scratch.data(), scratch.bytes()}; }

  // All that a product writes, beside what it should be.
  struct Outcome {
    Tensor d, bias, aux;
    test::GemmReference wanted;
  };

  // Runs on random operands, its outputs poisoned before; C is D itself. nullopt: cuBLASLt has no algorithm.
  std::optional<Outcome> outcome(const GemmProblem& p) {
    auto gemm = library->try_plan(p, *stream, scratch_range());
    if (!gemm) return std::nullopt;
    Tensor a(p.a, (p.lda != 0 ? p.lda : p.transpose_a ? p.m : p.k) * (p.transpose_a ? p.k : p.m));
    Tensor b(p.b, (p.ldb != 0 ? p.ldb : p.transpose_b ? p.k : p.n) * (p.transpose_b ? p.n : p.k));
    Tensor d(p.d, p.m * p.n), bias(p.d, std::max(p.m, p.n)), aux(p.d, p.m * p.n);
    a.fill_random(1), b.fill_random(2);
    if (p.beta != 0) d.fill_random(3);
    if (p.epilogue < Epilogue::dgelu) bias.fill_random(4);  // an input
    if (p.epilogue >= Epilogue::dgelu) aux.fill_random(5);  // an input
    test::GemmReference wanted = test::reference(p, a, b, d, bias, aux);
    const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes),
                       on_bias = on_device(bias.bytes), on_aux = on_device(aux.bytes);
    library->run(*gemm, {on_a.data(), on_b.data(), nullptr, on_d.data(), on_bias.data(), on_aux.data()},
                 *stream, workspace.data());
    d.bytes = on_host<std::uint8_t>(on_d);
    bias.bytes = on_host<std::uint8_t>(on_bias);
    aux.bytes = on_host<std::uint8_t>(on_aux);
    return Outcome{d, bias, aux, std::move(wanted)};
  }

  void expect_right(const GemmProblem& p, double tolerance) {
    const auto result = outcome(p);
    ASSERT_TRUE(result.has_value()) << "no algorithm for " << p.text();
    expect_right(p, *result, tolerance);
  }
  static void expect_right(const GemmProblem& p, const Outcome& result, double tolerance) {
    EXPECT_LT(test::relative_error(result.d, result.wanted.d), tolerance) << p.text();
    if (!result.wanted.bias.empty()) {
      EXPECT_LT(test::relative_error(result.bias, result.wanted.bias), tolerance) << "bias of " << p.text();
    }
    if (!result.wanted.aux.empty()) {
      EXPECT_LT(test::relative_error(result.aux, result.wanted.aux), tolerance) << "aux of " << p.text();
    }
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
        p.alignment = 256;
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
    p.beta = 1;
    expect_right(p, types.tolerance);
    p.alpha = 0.25f;
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
  d_weight.c = d_weight.d = ElementType::f32;
  d_weight.beta = 1;
  expect_right(d_weight, 2e-6);
}

TEST_F(GpuGemm, RowsMayLieApart) {
  const Types types = capability() >= 80 ? kTypes[2] : kTypes[4];
  GemmProblem p = problem(types, 100, 64, 96);  // one part of a packed qkv
  p.lda = 3 * 96;
  p.ldb = 72;
  expect_right(p, types.tolerance);
  p.transpose_a = true;
  p.lda = 112;
  expect_right(p, types.tolerance);
}

TEST_F(GpuGemm, EpiloguesAreRight) {
  for (const Types& types : kTypes) {
    if (types.in == ElementType::bf16 && capability() < 80) continue;
    for (int i = 0; i <= static_cast<int>(Epilogue::bias_gradient_b); ++i) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        GemmProblem p = problem(types, 136, 264, 72);
        p.epilogue = static_cast<Epilogue>(i);
        p.transpose_a = (transposes & 1) != 0;
        p.transpose_b = (transposes & 2) != 0;
        // cuBLASLt's gelu uses the fast tanh: 11 bits or so, for any type of output.
        const bool approximate = p.epilogue >= Epilogue::gelu && p.epilogue <= Epilogue::dgelu_bias_gradient;
        const auto result = outcome(p);
        if (!result) {
          std::printf("no algorithm on this GPU: %s\n", p.text().c_str());
          // It sums A's rows or B's columns only where they lie one after the other.
          EXPECT_TRUE((p.epilogue == Epilogue::bias_gradient_a && !p.transpose_a) ||
                      (p.epilogue == Epilogue::bias_gradient_b && p.transpose_b))
              << p.text();
          continue;
        }
        expect_right(p, *result, approximate ? std::max(types.tolerance, 1e-3) : types.tolerance);
      }
    }
  }
}

TEST_F(GpuGemm, Fp8IsRightWithScales) {
  if (capability() < 89) GTEST_SKIP() << "SKIPPED: fp8 needs compute capability 8.9";
  const std::vector<float> scales = {0.5f, 0, 0, 0, 4.0f};
  const DeviceBuffer on_scales = on_device(scales);
  for (ElementType a_type : {ElementType::fp8_e4m3, ElementType::fp8_e5m2}) {
    for (ElementType out : {ElementType::bf16, ElementType::f32}) {
      for (bool fast : {false, true}) {
        GemmProblem p;
        p.m = 160, p.n = 336, p.k = 512;
        p.a = a_type, p.b = ElementType::fp8_e4m3, p.c = p.d = out;
        p.transpose_b = true;
        p.fast_accumulate = fast;
        const auto unscaled = outcome(p);
        ASSERT_TRUE(unscaled.has_value()) << p.text();
        expect_right(p, *unscaled, fast ? 1e-2 : out == ElementType::f32 ? 1e-3 : 3e-3);
        // Both scales together are 2: the same bits but for the exponent.
        const Gemm gemm = library->plan(p, *stream, scratch_range());
        Tensor a(p.a, p.m * p.k), b(p.b, p.n * p.k), d(p.d, p.m * p.n);
        a.fill_random(1), b.fill_random(2);
        const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes);
        GemmArguments arguments{on_a.data(), on_b.data(), nullptr, on_d.data()};
        arguments.scale_a = reinterpret_cast<const float*>(on_scales.data());
        arguments.scale_b = arguments.scale_a + 4;
        library->run(gemm, arguments, *stream, workspace.data());
        d.bytes = on_host<std::uint8_t>(on_d);
        for (std::int64_t i = 0; i < d.size(); i += 97)
          EXPECT_EQ(d[i], 2 * unscaled->d[i]) << p.text() << " at " << i;
      }
    }
  }
}

TEST_F(GpuGemm, BatchesAreRight) {
  GemmProblem p = problem(kTypes[0], 33, 20, 17);
  p.batch = 3;
  p.stride_a = 33 * 17, p.stride_b = 0, p.stride_d = 700;
  const Gemm gemm = library->plan(p, *stream, scratch_range());
  Tensor a(p.a, 3 * 33 * 17), b(p.b, 17 * 20), d(p.d, 2 * 700 + 33 * 20);
  a.fill_random(1), b.fill_random(2);
  const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes);
  library->run(gemm, {on_a.data(), on_b.data(), nullptr, on_d.data()}, *stream, workspace.data());
  d.bytes = on_host<std::uint8_t>(on_d);
  for (int i = 0; i < 3; ++i) {
    GemmProblem one = problem(kTypes[0], 33, 20, 17);
    Tensor part_a(p.a, 33 * 17), part_d(p.d, 33 * 20);
    part_a.bytes.assign(a.bytes.begin() + i * 33 * 17 * 4, a.bytes.begin() + (i + 1) * 33 * 17 * 4);
    part_d.bytes.assign(d.bytes.begin() + i * 700 * 4, d.bytes.begin() + (i * 700 + 33 * 20) * 4);
    const auto wanted = test::reference(one, part_a, b, part_d, part_d, part_d);
    EXPECT_LT(test::relative_error(part_d, wanted.d), kTypes[0].tolerance) << i;
  }
}

// The shapes of a training step, searched as in a real run.
class GpuGemmSearch : public GpuGemm {
 protected:
  // D of a product on fixed operands, the same in every run.
  Tensor result(GemmLibrary& of, const Gemm& gemm, int runs = 1) {
    const GemmProblem& p = gemm.problem();
    Tensor a(p.a, p.m * p.k), b(p.b, p.k * p.n), d(p.d, p.m * p.n), bias(p.d, std::max(p.m, p.n)), aux = d;
    a.fill_random(1), b.fill_random(2), bias.fill_random(3);
    if (p.epilogue == Epilogue::dgelu || p.epilogue == Epilogue::dgelu_bias_gradient) aux.fill_random(4);
    const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d = on_device(d.bytes),
                       on_bias = on_device(bias.bytes), on_aux = on_device(aux.bytes);
    const GemmArguments arguments{on_a.data(), on_b.data(),    nullptr,
                                  on_d.data(), on_bias.data(), on_aux.data()};
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
                         Epilogue epilogue) {
      GemmProblem p;
      p.m = m, p.n = n, p.k = k, p.transpose_a = ta, p.transpose_b = tb;
      p.a = p.b = type, p.c = p.d = out;
      p.epilogue = epilogue;
      p.beta = out == ElementType::f32 ? 1 : 0;
      shapes.push_back(p);
    };
    add(8192, 2304, 768, false, true, type, Epilogue::none);
    add(8192, 3072, 768, false, true, type, Epilogue::gelu_aux_bias);
    add(8192, 768, 3072, false, true, type, Epilogue::bias);
    add(8192, 3072, 768, false, true, type, Epilogue::none);
    add(8192, 3072, 768, false, true, type, Epilogue::gelu_aux);
    add(8192, 3072, 768, false, false, type, Epilogue::none);
    add(8192, 3072, 768, false, false, type, Epilogue::dgelu);
    add(8192, 3072, 768, false, false, type, Epilogue::dgelu_bias_gradient);
    add(8192, 768, 3072, false, false, type, Epilogue::none);
    add(1024, 50304, 768, false, true, type, Epilogue::none);
    add(768, 3072, 8192, true, false, ElementType::f32, Epilogue::none);
    add(3072, 768, 8192, true, false, ElementType::f32, Epilogue::bias_gradient_a);
    add(768, 768, 8192, true, false, ElementType::f32, Epilogue::none);
    add(384, 384, 16384, true, false, ElementType::f32, Epilogue::none);
    return shapes;
  }
};

TEST_F(GpuGemmSearch, RememberedChoicesGiveTheSameBitsWithoutMeasuring) {
  const test::TempDir folder;
  GemmOptions options;
  options.cache_file = folder / "gemm.txt";
  GemmLibrary first(*context, options);
  const GemmProblem p = step_shapes(capability() >= 80 ? ElementType::bf16 : ElementType::f16)[12];
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

TEST_F(GpuGemmSearch, TheChosenAlgorithmsAreRightDeterministicAndNoSlowerThanTheFirstProposed) {
  GemmOptions first_only, all;
  first_only.candidates = 1;
  all.variants = true;
  all.search_ms = 400;
  GemmLibrary naive(*context, first_only), searching(*context), thorough(*context, all);
  std::printf("%-58s %9s %9s %9s %9s\n", "product", "first ms", "best ms", "variant", "TFLOP/s");
  const ElementType type = capability() >= 80 ? ElementType::bf16 : ElementType::f16;
  for (const GemmProblem& p : step_shapes(type)) {
    const auto start = std::chrono::steady_clock::now();
    const Gemm best = searching.plan(p, *stream, scratch_range());
    const double took =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const Gemm first = naive.plan(p, *stream, scratch_range());
    const Gemm variant = thorough.plan(p, *stream, scratch_range());
    std::printf("%-58s %9.4f %9.4f %9.4f %9.0f\n  searched %.0f ms: %s\n  with variants: %s\n",
                p.text().c_str(), first.ms(), best.ms(), variant.ms(), p.flop() / best.ms() * 1e-9, took,
                best.description().c_str(), variant.description().c_str());
    EXPECT_LT(best.ms(), first.ms() * 1.1) << p.text();  // 1.1: two measurements of one thing differ
    EXPECT_LT(variant.ms(), best.ms() * 1.1) << p.text();
    const Tensor theirs = result(naive, first);
    std::vector<double> wanted(p.m * p.n);
    for (std::int64_t i = 0; i < theirs.size(); ++i) wanted[i] = theirs[i];
    const double tolerance = p.d == type ? 3e-3 : 1e-5;  // sums in another order
    EXPECT_LT(test::relative_error(result(searching, best, 5), wanted), tolerance) << p.text();
    EXPECT_LT(test::relative_error(result(thorough, variant, 5), wanted), tolerance) << p.text();
  }
}

TEST_F(GpuGemmSearch, ProductsAreCaptured) {
  const GemmProblem p = problem(kTypes[0], 64, 48, 32);
  const Gemm gemm = library->plan(p, *stream, scratch_range());
  const std::vector<std::uint8_t> wanted = result(*library, gemm).bytes;
  Tensor a(p.a, p.m * p.k), b(p.b, p.k * p.n);
  a.fill_random(1), b.fill_random(2);
  const DeviceBuffer on_a = on_device(a.bytes), on_b = on_device(b.bytes), on_d(p.m * p.n * 4);
  const Graph graph = Graph::capture(*stream, [&] {
    fill_bytes(on_d.data(), 0xff, on_d.bytes(), *stream);
    library->run(gemm, {on_a.data(), on_b.data(), nullptr, on_d.data()}, *stream, workspace.data());
  });
  graph.launch(*stream);
  EXPECT_EQ(on_host<std::uint8_t>(on_d), wanted);
}

TEST_F(GpuGemmSearch, WrongArgumentsAreNamed) {
  GemmProblem p = problem(kTypes[0], 64, 64, 64);
  p.epilogue = Epilogue::bias;
  const Gemm gemm = library->plan(p, *stream, scratch_range());
  std::byte* at = scratch.data();
  const auto refusal = [&](const GemmArguments& arguments) {
    return message_of<RunError>([&] { library->run(gemm, arguments, *stream, workspace.data()); });
  };
  EXPECT_EQ(refusal({at, at, nullptr, at}),
            "matrix product 64x64x64 f32*f32->f32 bias: the address of bias is missing");
  EXPECT_EQ(refusal({at, at + 4, nullptr, at, at}),
            "matrix product 64x64x64 f32*f32->f32 bias: the address of b is no multiple of 16");
  GemmProblem impossible = p;
  impossible.a = impossible.b = ElementType::fp8_e4m3;
  impossible.transpose_a = true;
  EXPECT_FALSE(library->try_plan(impossible, *stream, scratch_range()).has_value());
  EXPECT_EQ(
      message_of<RunError>([&] { library->plan(impossible, *stream, scratch_range()); }),
      library->version() + " has no algorithm for the matrix product " + impossible.text() + " on this GPU");
}

}  // namespace
}  // namespace hydrac::runtime::cuda
