// `hydrac diff`, and `hydrac emit` into a folder that is there: what is current, edited, owned or somebody
// else's.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

TEST(Emit, DiffNamesWhatIsChangedMissingAndStale) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  std::ofstream(place / "program/forward.cpp", std::ios::app) << "// mine\n";
  fs::remove(place / "program/kernels/head.cpp");
  fs::copy(place / "program/kernels/block.cpp", place / "program/kernels/no_more.cpp");
  spill(place / "program/notes.txt", "the user's own");
  EXPECT_EQ(changed_files(place, {}),
            "edited   forward.cpp\nedited   kernels/no_more.cpp\nmissing  kernels/head.cpp\n");
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--force"}).code, 0);
  EXPECT_EQ(changed_files(place, {}), "");
  EXPECT_FALSE(fs::exists(place / "program/kernels/no_more.cpp"));
  EXPECT_EQ(slurp(place / "program/notes.txt"), "the user's own");
}

TEST(Emit, DiffShowsTheLinesThatEmitWouldChange) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path sizes = place / "program/dims.h";
  const std::string before = slurp(sizes);
  std::string edited = before;
  const std::string line = "inline constexpr std::int64_t kVocabSize = 256;  // tokens\n";
  ASSERT_NE(edited.find(line), std::string::npos);
  edited.replace(edited.find(line), line.size(),
                 "inline constexpr std::int64_t kVocabSize = 300;\n// mine\n");
  spill(sizes, edited);
  fs::remove(place / "program/kernels/head.cpp");
  const Outcome lines = place.run({"diff", "base.yaml", "program"});
  EXPECT_EQ(lines.code, 1);
  EXPECT_EQ(lines.out.find(
                "missing  kernels/head.cpp\n--- program/dims.h\n+++ program/dims.h (as emitted now)\n@@ -"),
            0u)
      << lines.out;
  EXPECT_NE(lines.out.find("\n-inline constexpr std::int64_t kVocabSize = 300;\n-// mine\n+" + line),
            std::string::npos)
      << lines.out;
  EXPECT_EQ(lines.out.find('\033'), std::string::npos);  // no colour but on a terminal
  EXPECT_EQ(place.run({"diff", "base.yaml", "program", "--stat"}).out,
            "edited   dims.h  +1 -2\nmissing  kernels/head.cpp\n");
  spill(sizes, before);
  EXPECT_EQ(place.run({"diff", "base.yaml", "program"}).out, "missing  kernels/head.cpp\n");
}

TEST(Emit, TakesTheThreadsThatTheFolderRecords) {
  const Workplace place;
  std::string open = base_spec();  // as specs are by default: as many threads as the machine has
  const std::string threads = "  threads: 1\n";
  open.replace(open.find(threads), threads.size(), "  threads: 0\n");
  spill(place / "open.yaml", open);
  ASSERT_EQ(place.run({"emit", "open.yaml", "-o", "program", "--threads", "3"}).code, 0);
  for (const Words& words :
       {Words{"diff", "open.yaml", "program"}, {"diff", "open.yaml", "program", "optimizations.threads=3"}}) {
    const Outcome same = place.run(words);
    EXPECT_EQ(same.code, 0) << same.err << same.out;
    EXPECT_EQ(same.out, "");
  }
  const Outcome again = place.run({"emit", "open.yaml", "-o", "program"});
  EXPECT_NE(again.out.find("all as they were\n"), std::string::npos) << again.out << again.err;
  EXPECT_EQ(place.run({"emit", "open.yaml", "-o", "program", "-q", "--threads", "2"}).code, 0);
  EXPECT_NE(slurp(place / "program/dims.h").find("kThreads = 2;"), std::string::npos);
  EXPECT_EQ(place.run({"diff", "open.yaml", "program", "-q"}).out, "");
}

TEST(Emit, OverwritesNoEditUnlessForced) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path file = place / "program/forward.cpp";
  const std::string written = slurp(file), edited = written + "// mine\n";
  spill(file, edited);
  // Also where the edited file is none of the program any more.
  fs::rename(place / "program/kernels/head.cpp", place / "head.cpp");
  for (const Words& overrides : {Words{}, {"model.num_hidden_layers=3"}}) {
    const Outcome refused = place.run(with({"emit", "base.yaml", "-o", "program"}, overrides));
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err,
              "hydrac: error: a file was edited since hydrac wrote it: forward.cpp\n"
              "`hydrac diff` shows the edits. --force overwrites them; a kernel whose file has the line "
              "\"// hydrac: keep\" stays as it is\n");
  }
  EXPECT_EQ(slurp(file), edited);
  EXPECT_FALSE(fs::exists(place / "program/kernels/head.cpp"));  // nothing was written
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--force"}).code, 0);
  EXPECT_EQ(slurp(file), written);
  EXPECT_EQ(changed_files(place, {}), "");
}

TEST(Emit, AMergeThatBrokeTheHashesIsToBeEmittedAnew) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path sums = place / "program/emitted.sum";
  const std::string written = slurp(sums);
  spill(sums, "# hashes\n<<<<<<< HEAD\n" + written);
  const Outcome outcome = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "hydrac: error: program/emitted.sum:2 is no hash of a file: <<<<<<< HEAD\nAfter a merge, emit "
            "the program "
            "again with --force, which overwrites all of it\n");
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--force"}).code, 0);
  EXPECT_EQ(slurp(sums), written);
}

TEST(Emit, DiffSaysWhereAnotherHydracWroteTheFolder) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path sums = place / "program/emitted.sum";
  const std::string written = slurp(sums), own = written.substr(0, written.find('\n'));
  EXPECT_TRUE(own.starts_with("# Written by hydrac ")) << own;
  spill(sums, "# Written by hydrac 0.0.1 (commit abc)" + written.substr(own.size()));
  const Outcome current = place.run({"diff", "base.yaml", "program"});
  EXPECT_EQ(current.code, 0);
  EXPECT_EQ(current.err, "");
  const Outcome other = place.run({"diff", "base.yaml", "program", "-q", "train.seed=7"});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.err, "hydrac: emitted by another hydrac: hydrac 0.0.1 (commit abc); this is " +
                           own.substr(std::string("# Written by ").size()) + "\n");
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program", "train.seed=7"}).code, 0);
  EXPECT_TRUE(slurp(sums).starts_with(own + "\n"));
}

// A file without a hash may hold anybody's work.
TEST(Emit, OverwritesNoFileWhoseHashIsNotThere) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path file = place / "program/kernels/update.cpp", sums = place / "program/emitted.sum";
  const std::string edited = slurp(file) + "// mine\n", listed = slurp(sums);
  spill(file, edited);
  const size_t end = listed.find("kernels/update.cpp\n"), line = listed.rfind('\n', end) + 1;
  spill(sums, listed.substr(0, line) + listed.substr(listed.find('\n', end) + 1));
  EXPECT_EQ(changed_files(place, {}), "edited   kernels/update.cpp\n");
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 2);
  fs::remove(sums);
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 2);
  EXPECT_EQ(slurp(file), edited);
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--force"}).code, 0);
  EXPECT_EQ(slurp(sums), listed);
}

// It names numbers of the spec, which stand in hyper.h.
TEST(Emit, AKeptKernelFollowsTheSpec) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path file = place / "program/kernels/update.cpp";
  const std::string owned = "// hydrac: keep\n" + slurp(file);
  EXPECT_NE(owned.find("constexpr double kLearningRate = hyper::learning_rate;"), std::string::npos) << owned;
  spill(file, owned);
  const Words changed = {"base.yaml",
                         "-o",
                         "program",
                         "train.optimizer.learning_rate=2e-3",
                         "train.optimizer.weight_decay=0.05",
                         "train.max_grad_norm=0.5"};
  const Outcome outcome = place.run(with({"emit"}, changed));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(slurp(file), owned);
  const std::string numbers = slurp(place / "program/hyper.h");
  for (const char* number :
       {"double learning_rate = 0.002;", "double weight_decay = 0.05;", "double max_grad_norm = 0.5;"})
    EXPECT_NE(numbers.find(number), std::string::npos) << numbers;
}

// It contains what follows from the spec otherwise, such as the logarithm of a beta.
TEST(Emit, AKeptKernelDoesNotGoStaleInSilence) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path file = place / "program/kernels/update.cpp";
  const std::string owned = "// hydrac: keep\n" + slurp(file), spec = slurp(place / "program/spec.inc");
  spill(file, owned);
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const std::string betas = "train.optimizer.betas=[0.9, 0.99]";
  for (const bool forced : {false, true}) {
    const Outcome stale =
        place.run(with({"emit", "base.yaml", "-o", "program", betas}, forced ? Words{"--force"} : Words{}));
    EXPECT_EQ(stale.code, 1);
    EXPECT_NE(stale.out.find("+  constexpr double kLogBeta2 = -0.01005"), std::string::npos) << stale.out;
    EXPECT_NE(stale.err.find("would write there has changed: kernels/update.cpp\n"), std::string::npos)
        << stale.err;
  }
  EXPECT_EQ(place.run({"build", "base.yaml", "-o", "program", betas}).code, 2);
  EXPECT_EQ(slurp(place / "program/spec.inc"), spec);  // nothing was written
  const Outcome diff = place.run({"diff", "base.yaml", "program", "-q", betas});
  EXPECT_EQ(diff.code, 1);
  EXPECT_NE(diff.out.find("outdated kernels/update.cpp\n"), std::string::npos) << diff.out;
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program", betas, "--accept"}).code, 0);
  EXPECT_EQ(slurp(file), owned);
  for (const Words& words :
       {Words{"diff", "base.yaml", "program", betas}, Words{"emit", "base.yaml", "-o", "program", betas}})
    EXPECT_EQ(place.run(words).code, 0);
}

TEST(Emit, KeepsAnOwnedKernelThatFits) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path file = place / "program/kernels/head.cpp";
  const std::string written = slurp(file);
  const std::string owned = "// hydrac: keep\n" + written + "// tuned by hand\n";
  spill(file, owned);
  const Outcome kept = place.run({"diff", "base.yaml", "program"});
  EXPECT_EQ(kept.code, 0);
  EXPECT_EQ(kept.out, "kept     kernels/head.cpp\n");
  const Outcome again = place.run({"emit", "base.yaml", "-o", "program", "train.max_steps=24"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("kept     kernels/head.cpp\n"), std::string::npos) << again.out;
  EXPECT_EQ(slurp(file), owned);
  // Its parameters' names are the owner's.
  const std::string parameter = "const float* logits";
  ASSERT_NE(owned.find(parameter), std::string::npos) << owned;
  std::string renamed = owned;
  renamed.replace(owned.find(parameter), parameter.size(), "const float *scores /* [R,V] */");
  spill(file, renamed);
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
}

TEST(Emit, RefusesAnOwnedKernelThatDoesNotFit) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const fs::path file = place / "program/kernels/head.cpp";
  std::string owned = "// hydrac: keep\n" + slurp(file);
  const std::string parameter = "const float* logits";
  ASSERT_NE(owned.rfind(parameter), std::string::npos) << owned;
  owned.replace(owned.rfind(parameter), parameter.size(), "const double* logits");
  spill(file, owned);
  const Outcome other_type = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_EQ(other_type.code, 2);
  EXPECT_NE(
      other_type.err.find("has the line \"// hydrac: keep\", but the program calls another function than it "
                          "defines\n  called:  void "),
      std::string::npos)
      << other_type.err;
  EXPECT_NE(other_type.err.find("const double* logits"), std::string::npos) << other_type.err;
  spill(file, "// hydrac: keep\n");
  const Outcome none = place.run({"emit", "base.yaml", "-o", "program", "--force"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("  defined: none of that name\n"), std::string::npos) << none.err;
  fs::remove(file);
  // What defines no kernels has no signature to hold.
  const fs::path other = place / "program/forward.cpp";
  spill(other, "// hydrac: keep\n" + slurp(other));
  const Outcome no_kernel = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_EQ(no_kernel.code, 2);
  EXPECT_NE(no_kernel.err.find("only files that kernels/kernels.h lists can be kept"), std::string::npos)
      << no_kernel.err;
}

TEST(Emit, OverwritesNoFileThatItDidNotWrite) {
  const Workplace place;
  fs::create_directories(place / "program");
  spill(place / "program/train.cpp", "int main() {}\n");
  const Outcome outcome = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(
      outcome.err,
      "hydrac: error: program/train.cpp was not written by hydrac: choose another folder, or move it away\n");
  EXPECT_EQ(files_below(place / "program"), Words{"train.cpp"});
  EXPECT_EQ(slurp(place / "program/train.cpp"), "int main() {}\n");
}

TEST(Emit, PutsNoProgramBesideOtherWork) {
  const Workplace place;
  fs::create_directories(place / "program");
  spill(place / "program/.gitignore", "build/\n");
  spill(place / "program/notes.txt", "the user's own");
  const Outcome outcome = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(
      outcome.err,
      "hydrac: error: program holds no program that hydrac wrote, but other files, such as notes.txt: name a "
      "new folder or an empty one\n");
  EXPECT_EQ(files_below(place / "program"), (Words{".gitignore", "notes.txt"}));
  fs::remove(place / "program/notes.txt");
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program", "-q"}).code, 0);
}

}  // namespace
}  // namespace hydrac::e2e
