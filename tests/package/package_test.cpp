// hydrac's runtime as other projects have it: installed, or carried along as a folder. A program is built on
// each, and trains.
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/data/token_shard.h"
#include "tests/unit/support/command.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::test {
namespace {

namespace fs = std::filesystem;

using Outcome = CommandOutcome;

// Errors are in the output too.
Outcome shell(const std::string& command) {
  return run_command(command + " 2>&1");
}

class Package : public testing::Test {
 protected:
  // Programs of tests/package, built with `options`.
  void build(const std::string& programs, const std::string& options) {
    const Outcome configured =
        shell("cmake -S " + hydrac::test::source_dir() + "/tests/package -B " + (folder_ / "build").string() +
              " -DCMAKE_CXX_COMPILER=" HYDRAC_COMPILER " -DCMAKE_CXX_COMPILER_LAUNCHER=" HYDRAC_LAUNCHER " " +
              options);
    ASSERT_EQ(configured.code, 0) << configured.output;
    const Outcome built =
        shell("cmake --build " + (folder_ / "build").string() + " --parallel 2 --target " + programs);
    ASSERT_EQ(built.code, 0) << built.output;
  }

  // 400 tokens, as written with the byte tokenizer.
  void write_tokens() {
    std::string tokens;
    for (int i = 0; i < 400; ++i) tokens += {static_cast<char>('a' + i * i % 7), '\0'};
    runtime::write_token_shard(folder_ / "tokens.bin", tokens, 2, 0, 0);
  }

  Outcome run(const std::string& words) {
    return shell("cd " + folder_.path().string() + " && build/" + words);
  }

  TempDir folder_;
};

TEST_F(Package, AProgramOnTheInstalledOneTrains) {
  const fs::path prefix = folder_ / "prefix";
  const Outcome installed =
      shell("cmake --install " HYDRAC_BINARY_DIR " --component hydrac-runtime --prefix " + prefix.string());
  ASSERT_EQ(installed.code, 0) << installed.output;
  build("tiny tiny-text tiny-cuda", "-DCMAKE_PREFIX_PATH=" + prefix.string());
  write_tokens();
  const Outcome trained = run("tiny");
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_TRUE(
      trained.output.starts_with("tiny: 256 parameters, 3.20 KiB of tensor memory, by hand\n"
                                 "49 sequences of 8 an epoch\n"))
      << trained.output;
  EXPECT_TRUE(fs::exists(folder_ / "runs/tiny/checkpoint-4/model.safetensors"));
  const Outcome libraries = shell("ldd " + (folder_ / "build/tiny").string());
  EXPECT_NE(libraries.output.find("libgomp"), std::string::npos) << libraries.output;
  EXPECT_EQ(libraries.output.find("pcre2"), std::string::npos) << libraries.output;
  EXPECT_EQ(libraries.output.find("utf8proc"), std::string::npos) << libraries.output;
  spill(folder_ / "text.txt", std::string(400, 'x'));
  const Outcome on_text = run("tiny-text --quiet --data text.txt --output runs/text");
  EXPECT_EQ(on_text.code, 0) << on_text.output;
  const Outcome wrong = run("tiny --stepz 3");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.output, "tiny: error: unknown option --stepz; --help lists them\n");
}

// The whole folder is configured, and what a small program needs of it is built.
TEST_F(Package, AProgramIsBuiltOnACopiedFolder) {
  const fs::path copy = folder_ / "hydrac";
  fs::create_directory(copy);
  fs::copy(hydrac::test::source_dir() + "/runtime", copy / "runtime", fs::copy_options::recursive);
  fs::copy(hydrac::test::source_dir() + "/templates", copy / "templates", fs::copy_options::recursive);
  build("shards", "-DHYDRAC_RUNTIME=" + copy.string());
  write_tokens();
  const Outcome read = run("shards tokens.bin");
  EXPECT_EQ(read.code, 0);
  EXPECT_EQ(read.output, "49 sequences of 8, the first begins with e\n");
}

}  // namespace
}  // namespace hydrac::test
