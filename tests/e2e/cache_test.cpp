// What is cached is checked before it is trusted, results do not depend on it, and what the machine lacks is
// said in so many words.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <sstream>

#include "runtime/cache/choice_file.h"
#include "runtime/cache/sealed_file.h"
#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

using Environment = std::map<std::string, std::string>;

// With a cache of its own, which one run has filled: runs/first.
class Cache : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { filled_ = std::make_unique<Workplace>(); }
  static void TearDownTestSuite() { filled_.reset(); }
  // Kernels are compiled once for all tests.
  void SetUp() override {
    if (!fs::exists(*filled_ / "cache")) {
      const Outcome outcome = filled_->run({"base.yaml", "-q", "output.dir=runs/first"},
                                           {{"HYDRAC_CACHE", (*filled_ / "cache").string()}});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
    }
    for (const char* folder : {"cache", "runs"})
      fs::copy(*filled_ / folder, place_ / folder, fs::copy_options::recursive);
  }
  Outcome run(Words words, Environment environment = {}) const {
    environment.try_emplace("HYDRAC_CACHE", (place_ / "cache").string());
    words.insert(words.begin(), {"base.yaml", "-q"});
    return place_.run(words, environment);
  }
  fs::path kernels() const {
    for (const auto& entry : fs::directory_iterator(place_ / "cache")) {
      if (entry.path().extension() == ".so") return entry.path();
    }
    throw std::runtime_error("no kernels in the cache");
  }
  // A program that stands for a C++ compiler: a shell script, whose --version answers.
  std::string compiler(const std::string& script) const {
    const fs::path path = place_ / "fake-c++";
    spill(path, "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 1.0; exit; fi\n" + script + "\n");
    ::chmod(path.c_str(), 0755);
    return path.string();
  }
  // What a new run says with that compiler and an empty cache.
  Outcome compiled_by(const std::string& command) const {
    return run({"output.dir=runs/new"}, {{"CXX", command}, {"HYDRAC_CACHE", (place_ / "empty").string()}});
  }
  void expect_as_first(const std::string& dir) const {
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json", "choices.json"}) {
      EXPECT_EQ(slurp(place_ / dir / "checkpoint-12" / file),
                slurp(place_ / "runs/first/checkpoint-12" / file))
          << dir << " " << file;
    }
  }

  const Workplace place_;
  static inline std::unique_ptr<Workplace> filled_;
};

TEST_F(Cache, ADamagedKernelLibraryIsCompiledAnew) {
  const fs::path library = kernels();
  const std::string whole = slurp(library);
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 4);
  int number = 0;
  for (const std::string& damaged : {flipped, whole.substr(0, whole.size() / 3)}) {
    spill(library, damaged);
    const std::string dir = "runs/damaged-" + std::to_string(number++);
    const Outcome outcome = run({"output.dir=" + dir});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err,
              "warning: " + library.string() + ": does not match its checksum; it is made anew\n");
    expect_as_first(dir);
    EXPECT_TRUE(runtime::read_sealed(library));
  }
}

TEST_F(Cache, NoCompilerIsNeededWhereEveryKernelIsCached) {
  for (const char* compiler : {"", "no-such-compiler"}) {
    const Outcome outcome = run({"output.dir=runs/second"}, {{"PATH", "/nonexistent"}, {"CXX", compiler}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_as_first("runs/second");
    fs::remove_all(place_ / "runs/second");
  }
}

// ccache hashes the words -march=native, not the processor: what another machine left in it may not run on
// this one.
TEST_F(Cache, KernelsAreCompiledPastCcache) {
  const std::string past = compiler("[ \"$CCACHE_DISABLE\" = 1 ] || exit 1\nexec g++ \"$@\"");
  const Outcome outcome = compiled_by(past);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Cache, FoldersOfBuildsThatWereKilledAreRemoved) {
  fs::create_directories(place_ / "cache/build-killed/templates");
  fs::create_directory(place_ / "cache/build-running");
  const int lock = ::open((place_ / "cache/build-running").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  fs::remove(kernels());
  ASSERT_EQ(run({"output.dir=runs/second"}).code, 0);
  ::close(lock);
  EXPECT_FALSE(fs::exists(place_ / "cache/build-killed"));
  EXPECT_TRUE(fs::exists(place_ / "cache/build-running"));
  for (const auto& entry : fs::directory_iterator(place_ / "cache"))
    EXPECT_EQ(entry.path().string().find("build-", place_.path().string().size()) == std::string::npos,
              entry.path().filename() != "build-running");
}

// Nobody can write into /proc, nor root.
TEST_F(Cache, AFolderThatCannotBeWrittenIsDoneWithout) {
  const Outcome outcome = run({"output.dir=runs/second"}, {{"HYDRAC_CACHE", "/proc/sys"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(
      outcome.err,
      "warning: the cache folder /proc/sys cannot be written, so nothing new is remembered: is the disk "
      "full or the folder read-only? $HYDRAC_CACHE names another\n");
  expect_as_first("runs/second");
}

// The choice between libraries is by timing, so it may fall out either way in a fresh cache.
TEST_F(Cache, AResumedRunRepeatsTheRecordedChoiceWhateverTheCacheSays) {
  const fs::path file = place_ / "cache/blas-choices";
  if (!fs::exists(file)) GTEST_SKIP() << "only one library for matmuls is installed";
  const std::string lines = *runtime::read_sealed(file);
  const std::string key = lines.substr(0, lines.find('\t'));
  const auto force = [&](const std::string& word) { return runtime::ChoiceFile(file).remember(key, word); };
  for (const auto& [word, other] : {std::pair("onednn", "openblas"), std::pair("openblas", "onednn")}) {
    ASSERT_TRUE(force(word));
    fs::remove_all(place_ / "runs/first");
    ASSERT_EQ(run({"output.dir=runs/first"}).code, 0);
    for (const std::string cached : {"other", "none"}) {
      const std::string dir = "runs/" + cached;
      fs::remove_all(place_ / dir);
      fs::copy(place_ / "runs/first", place_ / dir, fs::copy_options::recursive);
      for (const char* later : {"8", "10", "12"})
        fs::remove_all(place_ / dir / ("checkpoint-" + std::string(later)));
      if (cached == "none") {
        fs::remove(file);
      } else {
        ASSERT_TRUE(force(other));
      }
      const Outcome outcome = run({"output.dir=" + dir, "--resume"});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(outcome.err, "");
      expect_as_first(dir);
      EXPECT_NE(
          slurp(place_ / dir / "checkpoint-12/choices.json").find("\"library\": \"" + std::string(word)),
          std::string::npos);
    }
  }
}

TEST_F(Cache, SamplingRepeatsTheRecordedChoiceWhateverTheCacheSays) {
  const fs::path file = place_ / "cache/blas-choices";
  if (!fs::exists(file)) GTEST_SKIP() << "only one library for matmuls is installed";
  const auto logits = [&] {
    const Outcome outcome = place_.run({"sample", "runs/first", "--prompt", "a", "--logits"},
                                       {{"HYDRAC_CACHE", (place_ / "cache").string()}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const auto logits_with = [&](const std::string& cached) {
    std::istringstream lines(*runtime::read_sealed(file));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(runtime::ChoiceFile(file).remember(line.substr(0, line.find('\t')), cached));
    return logits();
  };
  logits();  // now the file has every key that sampling asks for
  EXPECT_EQ(logits_with("onednn"), logits_with("openblas"));
}

TEST_F(Cache, AResumedRunThatCannotRepeatAChoiceSaysWhich) {
  for (const char* later : {"8", "10", "12"})
    fs::remove_all(place_ / ("runs/first/checkpoint-" + std::string(later)));
  const Words resume = {"output.dir=runs/first", "--resume", "--threads", "2"};
  const std::string problem =
      "results will differ in their last bits from those that runs/first/checkpoint-6 would have led to:\n"
      "  blas threads: 1 in the checkpoint, 2 now\n";
  Words exact = resume;
  exact.push_back("--exact");
  Outcome outcome = run(exact);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: " + problem +
                             "run it where they are the same, or without --exact to continue all the same\n");
  EXPECT_FALSE(fs::exists(place_ / "runs/first/checkpoint-12"));
  outcome = run(resume);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "warning: " + problem);
  EXPECT_TRUE(fs::exists(place_ / "runs/first/checkpoint-12"));
}

TEST_F(Cache, AsManyThreadsAsTheMachineHasMeansTheRecordedNumberToAResumedRun) {
  for (const char* later : {"8", "10", "12"})
    fs::remove_all(place_ / ("runs/first/checkpoint-" + std::string(later)));
  const Outcome outcome = run({"output.dir=runs/first", "--resume", "--exact", "--threads", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(slurp(place_ / "runs/first/checkpoint-12/choices.json").find("\"threads\": \"1\""),
            std::string::npos);
}

TEST_F(Cache, ACompilerMayBeSeveralWords) {
  const Outcome outcome = compiled_by("env -u NOTHING  g++");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Cache, WhatIsWrongWithACompilerIsSaid) {
  const std::string install = "\nInstall one (Debian, Ubuntu: apt-get install g++) or name yours in $CXX.\n";
  std::string name = compiler("kill -9 $$");
  Outcome outcome = compiled_by(name);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err,
            "hydrac: the run failed: the C++ compiler " + name +
                " was killed: signal 9 (Killed); is the machine short of memory? Run it again, or "
                "name another compiler in $CXX\n");
  name = compiler("exit 0");
  outcome = compiled_by(name);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: the C++ compiler " + name +
                             " cannot be used: it ends well but writes no library" + install);
  name = compiler("echo from a file; echo \"c++: error: unrecognized option '-fopenmp'\"; echo more; exit 1");
  outcome = compiled_by(name);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: the C++ compiler " + name +
                             " cannot be used: c++: error: unrecognized option '-fopenmp'" + install);
  EXPECT_FALSE(fs::exists(place_ / "runs/new"));
}

TEST_F(Cache, SourcesThatChangeWhileTheyAreCompiledAreNotTrusted) {
  // Changes the sources and writes what is no library.
  const std::string damage =
      "for word; do case $word in */kernels.cpp) echo '// changed' >>$word;; esac; done\n"
      "while [ \"$1\" != -o ]; do shift; done; echo junk >\"$2\"; exit 0\n";
  const std::string marker = (place_ / "seen").string();
  Outcome outcome = compiled_by(
      compiler("if [ ! -e " + marker + " ]; then touch " + marker + "\n" + damage + "fi\nexec g++ \"$@\""));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(
      outcome.err.find(": something else changed its files while they were compiled; it is made anew\n"),
      std::string::npos)
      << outcome.err;
  fs::remove_all(place_ / "empty");
  fs::remove_all(place_ / "runs/new");
  outcome = compiled_by(compiler(damage));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find(" change while they are compiled: is the disk failing?"), std::string::npos)
      << outcome.err;
}

TEST(BadMachine, ALoopOfLinksInPlaceOfTheFolderToEmitInto) {
  const Workplace place;
  fs::create_symlink("loop", place / "loop");
  const Outcome outcome = place.run({"emit", "base.yaml", "-o", "loop"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: cannot look at loop: Too many levels of symbolic links\n");
}

TEST(BadMachine, AFullDiskBehindTheStandardOutput) {
  const Workplace place;
  for (const std::string verb : {"check base.yaml", "keys", "schema", "explain base.yaml"}) {
    const std::string command =
        "cd '" + place.path().string() + "' && '" + hydrac_program() + "' " + verb + " >/dev/full 2>err";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 3) << verb;
    const std::string err = slurp(place / "err");
    EXPECT_TRUE(err.starts_with("hydrac: the run failed: cannot write standard output"))
        << verb << ": " << err;
    EXPECT_TRUE(err.ends_with(": No space left on device\n")) << verb << ": " << err;
  }
}

}  // namespace
}  // namespace hydrac::e2e
