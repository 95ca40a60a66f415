// An emitted program for a GPU, built as its CMakeLists.txt says, computes what hydrac's own kernels compute:
// the same floating-point instructions in the same order. Needs no GPU.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <regex>
#include <semaphore>
#include <set>
#include <sstream>
#include <thread>

#include "../support/temp_dir.h"
#include "emit/emit.h"
#include "emit/kernels/kernels.h"
#include "process/run_program.h"
#include "runtime/error.h"
#include "spec/load.h"
#include "targets/cuda/kernels.h"
#include "targets/cuda/machine.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::emit {
namespace {

constexpr int kCapability = 90;

// Kernels of every kind: rows, sums over rows, an optimizer's, and of templates attention, its gradients, the
// embedding's and matmuls with epilogues.
constexpr const char* kStep =
    "name: test\n"
    "target: h100\n"
    "model: {hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256, position: "
    "learned, "
    "norm: layernorm, hidden_act: gelu_tanh, dropout: 0.1}\n"
    "data: {path: corpus.txt}\n"
    "train: {sequence_len: 128, micro_batch_size: 4, max_steps: 10}\n"
    "optimizations: {precision: bf16, attention: generated, fused_matmuls: all}\n";

// And of those that sample and score replies: the cache's, and the search for the largest logits.
constexpr const char* kReplies =
    "name: test\n"
    "target: h100\n"
    "model: {hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256}\n"
    "adapter: {type: lora, r: 8}\n"
    "objective: {name: polychromic, kl: 0.1, prompt_tokens: 32, max_new_tokens: 32}\n"
    "data: {path: pairs.jsonl, format: chat}\n"
    "train: {sequence_len: 128, micro_batch_size: 4, max_steps: 10}\n"
    "optimizations: {precision: bf16, attention: generated}\n";

// And an encoder that embeds them.
const spec::Encoder kEncoder = {.folder = "bert",
                                .hidden_size = 64,
                                .num_hidden_layers = 3,
                                .num_attention_heads = 2,
                                .intermediate_size = 128,
                                .vocab_size = 100,
                                .max_position_embeddings = 64,
                                .type_vocab_size = 2,
                                .norm_eps = 1e-12,
                                .max_tokens = 64};

struct Program {
  const char* name;
  const char* spec;
  bool encodes = false;
};

spec::Spec spec_of(const Program& program) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text("test.yaml", program.spec, {}, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  if (program.encodes) spec->encoder = kEncoder;
  return *spec;
}

class CudaBuild : public testing::TestWithParam<Program> {
 protected:
  CudaBuild()
      : compiled_(
            driver::compile(spec_of(GetParam()), targets::offline_compile_options(spec_of(GetParam()), ""))),
        files_(emit(compiled_, {}, {"test.yaml", {}})) {}

  // The sources that CMakeLists.txt has compiled with --fmad=false.
  std::set<std::string> uncontracted() const {
    const std::string& text = files_.at("CMakeLists.txt");
    const std::regex list(R"(set_source_files_properties\(([^)]*)PROPERTIES COMPILE_OPTIONS --fmad=false\))");
    std::smatch match;
    EXPECT_TRUE(std::regex_search(text, match, list)) << text;
    std::istringstream words(match[1].str());
    return {std::istream_iterator<std::string>(words), {}};
  }

  // What the mangled name of its function has in it, or of its family's template.
  std::string symbol_of(const std::string& kernel) const {
    const auto symbol = [](const std::string& name, char behind) {
      return fmt::format("{}{}_kernel{}", name.size() + std::string("_kernel").size(), name, behind);
    };
    for (const KernelFamily& family : kernel_families(compiled_.program)) {
      for (const KernelVariant& variant : family.variants) {
        if (compiled_.program.kernels[static_cast<size_t>(variant.kernel)].name == kernel)
          return symbol(compiled_.program.kernels[static_cast<size_t>(family.variants.front().kernel)].name,
                        'I');
      }
    }
    return symbol(kernel, 'E');
  }

  const driver::Compiled compiled_;
  const Files files_;
};

INSTANTIATE_TEST_SUITE_P(Programs, CudaBuild,
                         testing::Values(Program{"Step", kStep}, Program{"Replies", kReplies},
                                         Program{"EmbeddedReplies", kReplies, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CudaBuild, ContractsWhatHydracItselfContracts) {
  std::set<std::string> expected;
  int contracted = 0;
  for (const auto& [file, kernels] : kernel_files(compiled_.program, kernel_families(compiled_.program))) {
    for (const int kernel : kernels) {
      if (may_contract(compiled_.program.kernels[static_cast<size_t>(kernel)]))
        ++contracted;
      else
        expected.insert("kernels/" + file + ".cu");
    }
  }
  EXPECT_EQ(uncontracted(), expected);
  EXPECT_GT(contracted, 0);
}

// Floating-point instructions in their order, by the kernel's name.
using Arithmetic = std::map<std::string, std::vector<std::string>>;

Arithmetic arithmetic(const std::string& ptx) {
  const std::regex function(R"(\.(entry|func)\s+(\([^)]*\)\s*)?(\w+)\()"),
      instruction(R"(\n\s+(?:@!?%p\d+ )?([a-z][\w.:]+))"), floating(R"(\.(b?f(16|32|64)(x2)?|tf32)\b)"),
      moving(R"((mov|ld|st)\..*)");
  Arithmetic kernels;
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), function), end; it != end; ++it) {
    if (it->str(1) != "entry") continue;
    const auto begin = ptx.begin() + it->position();
    const auto stop = std::next(it) == end ? ptx.end() : ptx.begin() + std::next(it)->position();
    std::vector<std::string>& list = kernels[it->str(3)];
    for (std::sregex_iterator line(begin, stop, instruction); line != end; ++line) {
      const std::string word = line->str(1);
      if (std::regex_search(word, floating) && !std::regex_match(word, moving)) list.push_back(word);
    }
  }
  return kernels;
}

// Of an instance of a family's template, which names values that the kernel itself writes out: independent
// instructions may stand in another order, and what was computed in a branch be selected instead.
std::vector<std::string> unordered(std::vector<std::string> list) {
  std::erase_if(list, [](const std::string& word) { return word.starts_with("selp."); });
  std::ranges::sort(list);
  return list;
}

// That of the emitted kernels as nvcc compiles them, as many at a time as there are processors.
Arithmetic by_nvcc(const Files& files, const std::set<std::string>& uncontracted) {
  const test::TempDir folder;
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((folder / name).parent_path());
    test::spill(folder / name, text);
  }
  std::counting_semaphore<> processors(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::future<std::string>> compiled;
  for (const auto& [name, text] : files) {
    if (!name.ends_with(".cu")) continue;
    const std::string source = (folder / name).string(), ptx = source + ".ptx";
    std::vector<std::string> words = {"nvcc",
                                      "-ptx",
                                      "-std=c++20",
                                      "-O3",
                                      fmt::format("-arch=compute_{}a", kCapability),
                                      "-I" + folder.path().string(),
                                      "-I" + hydrac::test::source_dir(),
                                      "-I" + hydrac::test::source_dir() + "/templates",
                                      "-I" + hydrac::test::source_dir() + "/templates/include"};
    if (uncontracted.contains(name)) words.push_back("--fmad=false");
    words.insert(words.end(), {source, "-o", ptx});
    compiled.push_back(std::async(std::launch::async, [&processors, words, ptx] {
      processors.acquire();
      const Ended ended = run_program(words, Says::all_to_caller);
      processors.release();
      EXPECT_EQ(ended.code, 0) << ended.said;
      return ended.code == 0 ? test::slurp(ptx) : "";
    }));
  }
  Arithmetic kernels;
  for (std::future<std::string>& ptx : compiled) kernels.merge(arithmetic(ptx.get()));
  return kernels;
}

TEST_P(CudaBuild, KernelsByNvccDoTheArithmeticOfThoseByNvrtc) {
  try {
    device_code::nvrtc_version();
  } catch (const runtime::InputError& error) {
    GTEST_SKIP() << "SKIPPED: " << error.what();
  }
  if (run_program({"nvcc", "--version"}, Says::to_caller).code != 0)
    GTEST_SKIP() << "SKIPPED: there is no nvcc";
  const Arithmetic emitted = by_nvcc(files_, uncontracted());
  const test::TempDir cache;
  size_t instructions = 0;
  const auto code =
      targets::compile_kernels(compiled_.program, kCapability, device_code::CodeKind::ptx, cache.path());
  for (const device_code::DeviceCode& kernel : code) {
    for (const auto& [name, expected] : arithmetic(kernel.image)) {
      const std::string symbol = symbol_of(name);
      const bool is_instance = symbol.ends_with('I');
      const auto is_it = [&](const auto& other) {
        return other.first.find(symbol) != std::string::npos &&
               (is_instance ? unordered(other.second) == unordered(expected) : other.second == expected);
      };
      EXPECT_TRUE(std::ranges::any_of(emitted, is_it)) << name;
      instructions += expected.size();
    }
  }
  EXPECT_EQ(emitted.size(), compiled_.program.kernels.size());
  EXPECT_GT(instructions, 1000u);
}

}  // namespace
}  // namespace hydrac::emit
