// Parsing from memory: what is found wrong, where, and that nothing of the machine is needed.
#include "specialize/parse.h"

#include <gtest/gtest.h>

namespace hydrac::specialize {
namespace {

std::vector<std::string> problems(const ParseRequest& request) {
  std::vector<std::string> texts;
  for (const Problem& problem : problems_of(request)) texts.push_back(text_of(problem));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Parse, CppWithStandInsForTheStandardHeadersHasNoProblems) {
  const std::string source =
      "#include <algorithm>\n#include <cmath>\n#include <cstddef>\n#include <cstdint>\n#include <omp.h>\n"
      "#include <type_traits>\n#include <utility>\n"
      "float f(float x) { return x > 0 ? std::exp(std::max(x, 1.0f)) : expf(x) + std::tanh(x); }\n"
      "std::uint64_t g(uint32_t x) { return std::size_t{x} + omp_get_max_threads(); }\n";
  EXPECT_EQ(problems({.source = {"a.cpp", source}}), Texts{});
}

TEST(Parse, AProblemHasItsFileLineColumnAndMessage) {
  EXPECT_EQ(problems({.source = {"kernels/a.cpp", "int f() {\n  return missing + 1;\n}\n"}}),
            Texts{"kernels/a.cpp:2:10: use of undeclared identifier 'missing'"});
}

TEST(Parse, AllProblemsAreListedInTheirOrder) {
  EXPECT_EQ(problems({.source = {"a.cpp", "int f() { return a; }\nint g() { return 1 }\n"}}),
            (Texts{"a.cpp:1:18: use of undeclared identifier 'a'",
                   "a.cpp:2:19: expected ';' after return statement"}));
}

TEST(Parse, AProblemInAHeaderNamesTheHeader) {
  EXPECT_EQ(
      problems({.source = {"a.cpp", "#include \"lib/b.h\"\n"}, .headers = {{"lib/b.h", "\nint x = y;\n"}}}),
      Texts{"lib/b.h:2:9: use of undeclared identifier 'y'"});
}

TEST(Parse, AHeaderThatWasNotGivenIsNotLookedForOnTheDisk) {
  EXPECT_EQ(problems({.source = {"a.cpp", "#include <unistd.h>\n"}}),
            Texts{"a.cpp:1:10: 'unistd.h' file not found"});
}

TEST(Parse, TypesAreChecked) {
  EXPECT_EQ(problems({.source = {"a.cpp", "struct A {};\nfloat f(A a) {\n  return a * 2;\n}\n"}}),
            Texts{"a.cpp:3:12: invalid operands to binary expression ('A' and 'int')"});
}

TEST(Parse, CudaKernelsPtxAndLaunchesHaveNoProblems) {
  const std::string source =
      "__global__ void __launch_bounds__(256, 2) twice(float* __restrict__ x) {\n"
      "  __shared__ float part[256];\n  extern __shared__ __align__(1024) unsigned char all[];\n"
      "  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x] + all[0];\n  __syncthreads();\n"
      "  float y;\n  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(part[0]));\n"
      "  x[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, y, 1);\n}\n"
      "void launch(float* x, cudaStream_t stream) {\n  twice<<<16, 256, 1024, stream>>>(x);\n}\n";
  EXPECT_EQ(problems({.source = {"a.cu", source}, .dialect = Dialect::cuda}), Texts{});
}

TEST(Parse, AHostFunctionInAKernelIsAProblem) {
  const Texts found = problems(
      {.source = {"a.cu", "void host();\n__global__ void k() {\n  host();\n}\n"}, .dialect = Dialect::cuda});
  EXPECT_EQ(found, Texts{"a.cu:3:3: no matching function for call to 'host'"});
}

TEST(Parse, AKernelLaunchedWithTheWrongArgumentsIsAProblem) {
  const std::string source = "__global__ void k(int* x) {}\nvoid f(float* x) {\n  k<<<1, 32>>>(x);\n}\n";
  EXPECT_EQ(
      problems({.source = {"a.cu", source}, .dialect = Dialect::cuda}),
      Texts{"a.cu:3:16: cannot initialize a parameter of type 'int *' with an lvalue of type 'float *'"});
}

TEST(Parse, TheArchitectureIsTheOneAskedFor) {
  const std::string source = "__device__ void f() {\n#if __CUDA_ARCH__ != 750\n  wrong();\n#endif\n}\n";
  EXPECT_EQ(problems({.source = {"a.cu", source}, .dialect = Dialect::cuda, .capability = 75}), Texts{});
  EXPECT_EQ(problems({.source = {"a.cu", source}, .dialect = Dialect::cuda, .capability = 90}),
            Texts{"a.cu:3:3: use of undeclared identifier 'wrong'"});
}

TEST(Parse, TheCudaTemplatesParseForEveryArchitecture) {
  for (const int capability : {75, 80, 86, 89, 90, 100, 120}) {
    const std::string source =
        "#include \"cuda/attention/attention.cuh\"\n#include \"cuda/embedding_backward.cuh\"\n"
        "#include \"cuda/reduce.cuh\"\n#include \"cuda/vector.cuh\"\n#include \"hydrac/random.h\"\n";
    EXPECT_EQ(problems({.source = {"a.cu", source},
                        .dialect = Dialect::cuda,
                        .capability = capability,
                        .headers = template_headers()}),
              Texts{})
        << capability;
  }
}

TEST(Parse, TheCpuTemplatesParseForEveryVectorWidth) {
  const std::string source =
      "#include \"cpu/attention.h\"\n#include \"cpu/embedding.h\"\n"
      "template void hydrac::cpu::attention_forward<64, hydrac::CausalMask, "
      "hydrac::LinearScores, true>(const AttentionShape&, ConstHeads, "
      "ConstHeads,\n"
      "  ConstHeads, MutableHeads, float*, const AttentionDropout&, AttentionWorkspace);\n";
  for (const char* processor : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    EXPECT_EQ(problems({.source = {"a.cpp", source}, .headers = template_headers(), .processor = processor}),
              Texts{})
        << processor;
  }
}

}  // namespace
}  // namespace hydrac::specialize
