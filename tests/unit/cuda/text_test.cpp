// The text of generated kernels is checked into people's repositories: what their reviewers would frown at.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "codegen/cuda/body.h"
#include "gpu_model.h"
#include "tests/unit/support/test_name.h"

namespace hydrac::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line.substr(0, line.find("//")));
  return lines;
}

const targets::Target& gpu_of(const std::string& spec) {
  return *targets::find(spec == "chatgot-small-char" ? "sm_75" : "sm_90");
}

struct Kernel {
  std::string name, text;
  codegen::CudaLaunch launch;
};

// Every kernel of a shipped spec.
std::vector<Kernel> kernels_of(const std::string& spec, ir::DType activations) {
  std::vector<std::string> overrides;
  if (spec == "shakespeare-char" || spec == "chatgot-small-char") overrides = {"model.vocab_size=100"};
  if (spec == "series") overrides = {"model.num_features=30", "model.num_labels=2"};
  const targets::Target& gpu = gpu_of(spec);
  const GpuModel model(shipped_spec(spec, overrides), activations);
  std::vector<Kernel> all;
  for (const ir::Function& function : model.graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op != ir::Op::fused) continue;
        for (const codegen::CudaKernel& kernel : codegen::cuda_body_kernels(model.graph, node, gpu).kernels)
          all.push_back({kernel.name, to_text(kernel.text), kernel.launch});
      }
    }
  }
  return all;
}

std::vector<Kernel> kernels_of(const std::string& spec) {
  return kernels_of(spec, gpu_of(spec).has_bf16() ? ir::DType::bf16 : ir::DType::f16);
}

class KernelText : public testing::TestWithParam<const char*> {};

TEST_P(KernelText, IsShortAndWithoutNoise) {
  for (const Kernel& kernel : kernels_of(GetParam())) {
    const std::string sizes = "_sizes\n\n";  // the end of the namespace before the kernel
    const size_t behind = kernel.text.find(sizes);
    ASSERT_NE(behind, std::string::npos) << kernel.text;
    EXPECT_LE(lines_of(kernel.text.substr(behind + sizes.size())).size(), 150u) << kernel.text;
    for (const char* noise :
         {"[[maybe_unused]]", "hydrac::", "static_cast<std::int64_t>", "[(", "_value_value"})
      EXPECT_EQ(kernel.text.find(noise), std::string::npos) << noise << " in\n" << kernel.text;
  }
}

// A kernel that is kept while the batch or the GPU changes has the partial sums that the other one has, or
// its launch does not compile.
TEST_P(KernelText, CountsPartialSumsInSizesOfTheProgram) {
  const std::regex digits(R"(constexpr int k(Blocks|Partials) = \d+;)");
  int sums = 0;
  for (const Kernel& kernel : kernels_of(GetParam())) {
    if (kernel.text.find("float* __restrict__ workspace") == std::string::npos &&
        kernel.text.find("const float* workspace") == std::string::npos)
      continue;
    ++sums;
    EXPECT_FALSE(std::regex_search(kernel.text, digits)) << kernel.text;
    EXPECT_TRUE(std::ranges::any_of(kernel.launch.bounds, [](const std::string& bound) {
      return bound.find(" * 4 <= kWorkspaceBytes") != std::string::npos;
    })) << kernel.text;
  }
  EXPECT_GT(sums, 0);
}

// Sizes are symbols or named constants.
TEST_P(KernelText, HasNoMagicNumbers) {
  const std::regex number(R"((^|[^\w.])(\d{2,})u?(?![\w.]))");
  for (const Kernel& kernel : kernels_of(GetParam())) {
    for (const std::string& line : lines_of(kernel.text)) {
      if (line.find("constexpr") != std::string::npos ||
          line.find("__launch_bounds__") != std::string::npos ||
          line.find("__align__(16)") != std::string::npos)
        continue;
      EXPECT_FALSE(std::regex_search(line, number)) << line << "\nin\n" << kernel.text;
    }
  }
}

// A name that is declared is used.
TEST_P(KernelText, DeclaresWhatItUses) {
  const std::regex declaration(R"(^ *(?:constexpr|const)?[ \w:<>,*]*?[ *](\w+)(?:\[\w+\])* = .*;)");
  for (const Kernel& kernel : kernels_of(GetParam())) {
    for (const std::string& line : lines_of(kernel.text)) {
      std::smatch match;
      if (!std::regex_match(line, match, declaration)) continue;
      const std::regex word("\\b" + match[1].str() + "\\b");
      const std::string all = kernel.text + kernel.launch.grid_text.text + " kSharedBytes";  // and its launch
      const auto uses = std::distance(std::sregex_iterator(all.begin(), all.end(), word), {});
      EXPECT_GE(uses, 2) << line << "\nin\n" << kernel.text;
    }
  }
}

// Or else a compiler draws each element's bits anew.
TEST(RandomBits, AreDrawnTogetherForTheNeighboursInAThread) {
  int kernels = 0;
  for (const Kernel& kernel : kernels_of("shakespeare-char")) {
    if (kernel.text.find("random_16_bits(") == std::string::npos) continue;
    EXPECT_NE(kernel.text.find("random_16_bits(key, r * C + c, j)"), std::string::npos) << kernel.text;
    EXPECT_EQ(kernel.text.find("c + j)"), std::string::npos) << kernel.text;
    ++kernels;
  }
  EXPECT_GE(kernels, 4);
}

// What a GPU's own functions lack is lost in the rounding of 16-bit numbers only.
TEST(Sigmoids, AreApproximatedOfNumbersOf16BitsAlone) {
  for (const ir::DType activations : {ir::DType::f32, ir::DType::bf16, ir::DType::f16}) {
    std::string all;
    for (const Kernel& kernel : kernels_of("gpt2-124m", activations)) all += kernel.text;
    const bool is_coarse = activations != ir::DType::f32;
    EXPECT_EQ(all.find(" sigmoid_of_16_bits(") != std::string::npos, is_coarse) << to_string(activations);
    EXPECT_EQ(all.find(" sigmoid(") != std::string::npos, !is_coarse) << to_string(activations);
  }
}

// Where a row's sum is only summed over the rows, no row makes threads wait for each other.
TEST(GradientNorm, MeetsOnceBehindAllRows) {
  int kernels = 0;
  for (const Kernel& kernel : kernels_of("gpt2-124m")) {
    if (kernel.name != "grad_square") continue;
    const size_t walk = kernel.text.find("for (std::int64_t r"), end = kernel.text.find("\n  }\n", walk);
    EXPECT_EQ(kernel.text.find("lanes.sum("), kernel.text.rfind("lanes.sum(")) << kernel.text;
    EXPECT_GT(kernel.text.find("lanes.sum("), end) << kernel.text;
    EXPECT_NE(kernel.text.find("#pragma unroll 4"), std::string::npos) << kernel.text;
    ++kernels;
  }
  EXPECT_EQ(kernels, 1);
}

// Moments and parameters of 32 bits beside a copy of 16: 16 bytes of the former are four numbers.
TEST(Optimizers, MoveSixteenBytesOfMostTensorsAtOnce) {
  int seen = 0;
  for (const Kernel& kernel : kernels_of("gpt2-124m")) {
    if (kernel.name != "adamw") continue;
    ++seen;
    EXPECT_NE(kernel.text.find("constexpr int kVector = 4;"), std::string::npos) << kernel.text;
    EXPECT_NE(kernel.text.find("load_columns<kVector>(adam_m + first)"), std::string::npos) << kernel.text;
  }
  EXPECT_EQ(seen, 1);
}

// From sm_90 on it may be launched while that one still runs.
TEST_P(KernelText, WaitsForTheKernelBeforeItWhereTheGpuStartsItEarly) {
  const bool waits = std::string(GetParam()) != "chatgot-small-char";
  for (const Kernel& kernel : kernels_of(GetParam())) {
    const size_t body = kernel.text.find('\n', kernel.text.find(") {")) + 1;
    const std::string opening = "  wait_for_previous_kernel();\n  launch_next_kernel();\n";
    EXPECT_EQ(kernel.text.compare(body, opening.size(), opening) == 0, waits) << kernel.text;
    if (!waits) {
      EXPECT_EQ(kernel.text.find("_kernel()"), std::string::npos) << kernel.text;
      continue;
    }
    for (const std::string& line : lines_of(kernel.text))
      EXPECT_FALSE(line.find("const ") != std::string::npos && line.find("__restrict__") != std::string::npos)
          << "may be loaded before the wait: " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, KernelText,
                         testing::Values("gpt2-124m", "llama-1b", "shakespeare-char", "chatgot-small-char",
                                         "series"),
                         [](const auto& info) { return without_dashes(info.param); });

}  // namespace
}  // namespace hydrac::test
