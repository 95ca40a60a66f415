// Compiled kernels are tried beside the interpreter before they run: right ones pass, a compiler that is
// wrong once is asked for less, one that is always wrong is an error, and what was found is kept.
#include "targets/cpu/try_kernels.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "codegen/cpu/program.h"
#include "runtime/error.h"
#include "targets/cpu/executor.h"
#include "tests/unit/core/small_models.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

using test::TempDir;

constexpr const char* kSmall =
    "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 12, vocab_size: 13";
constexpr const char* kTrain = "sequence_len: 8, micro_batch_size: 2";

KernelLibrary kernels_of(const spec::Spec& spec, const TempDir& cache) {
  return CpuProgram(driver::compile(spec, {2, ""}), cache.path()).kernels();
}

// A C++ compiler, by $CXX, that makes 1 / sqrt(x) too large by a twentieth: always, or where it is asked for
// `only_with`.
class WrongCompiler {
 public:
  explicit WrongCompiler(const std::string& only_with = "") {
    const std::filesystem::path script = folder_ / "wrong-c++";
    test::spill(script, R"(#!/bin/sh
case "$*" in *')" + only_with +
                            R"('*) ;; *) exec g++ "$@" ;; esac
for source; do case $source in */kernels.cpp) sed 's/rsqrt(/1.05f * rsqrt(/' "$source" >"$source.wrong.cpp" ;; esac; done
exec g++ $(printf '%s\n' "$@" | sed 's/kernels\.cpp$/kernels.cpp.wrong.cpp/')
)");
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    if (const char* before = ::getenv("CXX")) before_ = before;
    ::setenv("CXX", script.c_str(), 1);
  }
  ~WrongCompiler() {
    if (before_.empty())
      ::unsetenv("CXX");
    else
      ::setenv("CXX", before_.c_str(), 1);
  }
  WrongCompiler(const WrongCompiler&) = delete;
  WrongCompiler& operator=(const WrongCompiler&) = delete;

 private:
  TempDir folder_;
  std::string before_;
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TryKernels, RightOnesPass) {
  spec::Spec adapter = test::small_spec(
      "hidden_size: 96, num_hidden_layers: 2, num_attention_heads: 6, num_key_value_heads: 2, "
      "intermediate_size: 200, vocab_size: 256",
      "sequence_len: 40, micro_batch_size: 2");
  adapter.adapter.type = spec::AdapterType::lora;
  adapter.adapter.r = 4;
  adapter.adapter.dropout = 0.1;
  spec::Spec codes =
      test::small_spec(kSmall, "sequence_len: 8, micro_batch_size: 2, optimizer: {name: lion}");
  codes.optimizations.optimizer_state = spec::StateType::int8;
  for (const spec::Spec& spec :
       {test::small_spec(
            std::string(kSmall) + ", norm: layernorm, position: learned, hidden_act: gelu, dropout: 0.1",
            kTrain),
        adapter, codes}) {
    const TempDir cache;
    const KernelLibrary library = kernels_of(spec, cache);
    EXPECT_EQ(library.note, "");
    EXPECT_TRUE(says(library.tried, "kernels are what their definitions say")) << library.tried;
    EXPECT_TRUE(says(library.tried, "not tried: attention_forward, attention_backward")) << library.tried;
  }
}

// Its tokens are sums of the places that match: of invented ones these can be far behind the sequence.
TEST(TryKernels, InventedPlacesDoNotLeadOutOfMemory) {
  const TempDir cache;
  const KernelLibrary library =
      kernels_of(test::small_spec("hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
                                  "intermediate_size: 64, vocab_size: 256, mod: {capacity: 0.5, every: 2}",
                                  "sequence_len: 2048, micro_batch_size: 1"),
                 cache);
  EXPECT_EQ(library.note, "");
  EXPECT_FALSE(says(library.tried, "tokens")) << "kernels of chosen tokens are tried: " << library.tried;
}

TEST(TryKernels, AWrongKernelIsCompiledWithLess) {
  const TempDir cache;
  const WrongCompiler compiler("-O3");
  const spec::Spec spec = test::small_spec(kSmall, kTrain);
  const KernelLibrary library = kernels_of(spec, cache);
  EXPECT_FALSE(library.from_cache);
  EXPECT_TRUE(says(library.note, "rmsnorm wrong: ")) << library.note;
  EXPECT_TRUE(says(library.note, "with -O3 ")) << library.note;
  EXPECT_TRUE(says(library.note, "compiled with -O2 ")) << library.note;
  EXPECT_TRUE(says(library.compiler, ", -O2 ")) << "a checkpoint records it: " << library.compiler;

  // The seconds that it says would differ if it were tried again.
  const KernelLibrary again = kernels_of(spec, cache);
  EXPECT_TRUE(again.from_cache);
  EXPECT_EQ(again.tried, library.tried);
  EXPECT_EQ(again.note, library.note);
  EXPECT_EQ(again.compiler, library.compiler);
}

TEST(TryKernels, ACompilerThatIsAlwaysWrongIsAnError) {
  const TempDir cache;
  const WrongCompiler compiler;
  const spec::Spec spec = test::small_spec(kSmall, kTrain);
  std::string message;
  try {
    kernels_of(spec, cache);
  } catch (const runtime::RunError& error) {
    message = error.what();
  }
  for (const char* part : {"wrong-c++", "compiles kernel ", "rmsnorm wrong: ", " instead of ", "with -O3 ",
                           "with -O2 ", "Name another compiler in $CXX."})
    EXPECT_TRUE(says(message, part)) << message;
  EXPECT_THROW(kernels_of(spec, cache), runtime::RunError) << "nothing of it is kept";
}

// As a version of hydrac that tried nothing, or a process that was killed, may have left it.
TEST(TryKernels, WrongCodeInTheCacheIsNotUsed) {
  const TempDir cache;
  const spec::Spec spec = test::small_spec(kSmall, kTrain);
  const WrongCompiler compiler("-O3");
  const driver::Compiled compiled = driver::compile(spec, {2, ""});
  const std::string source = codegen::cpu_source(compiled.graph, compiled.program);
  compile_kernels(source, cache.path(), [](const KernelLibrary&) { return Tried{}; });
  for (const auto& entry : std::filesystem::directory_iterator(cache.path())) {
    if (entry.path().extension() == ".tried") std::filesystem::remove(entry.path());
  }
  const KernelLibrary library = kernels_of(spec, cache);
  EXPECT_FALSE(library.from_cache);
  EXPECT_TRUE(says(library.note, "compiled with -O2 ")) << library.note;
}

}  // namespace
}  // namespace hydrac::targets
