// `hydrac emit` and `hydrac diff`: what they write, what they leave alone, and which files a change touches.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>

#include "tests/unit/support/source_dir.h"

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

// What `diff -q` names of a folder that was emitted before, with base.yaml changed; but README.md, whose
// command has the overrides.
std::string difference(const Workplace& place, const Words& overrides) {
  const Outcome outcome = place.run(with({"diff", "base.yaml", "program", "-q"}, overrides));
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.code, outcome.out.empty() ? 0 : 1);
  return std::regex_replace(outcome.out, std::regex("changed  README.md\n"), "");
}

TEST(Emit, WritesAProgramAndLeavesACurrentOneUntouched) {
  const Workplace place;
  const Outcome first = place.run({"emit", "base.yaml", "-o", "program"});
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* name :
       {"CMakeLists.txt", "PLAN.md",           "backward.cpp",      "calls.inc",
        "dims.h",         "forward.cpp",       "layout.cpp",        "memory.h",
        "optimizer.cpp",  "program.cpp",       "program.h",         "settings.cpp",
        "spec.inc",       "identity.inc",      "train.cpp",         "train.h",
        "library.cpp",    "kernels/kernels.h", "kernels/block.cpp", "kernels/attention_forward.cpp"}) {
    EXPECT_TRUE(fs::exists(place / "program" / name)) << name;
    EXPECT_NE(first.out.find(std::string("new      ") + name + "\n"), std::string::npos) << name;
  }
  const auto written = fs::last_write_time(place / "program/forward.cpp");
  const Outcome second = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_NE(second.out.find("all as they were\n"), std::string::npos) << second.out;
  EXPECT_EQ(fs::last_write_time(place / "program/forward.cpp"), written);
  EXPECT_EQ(difference(place, {}), "");
}

TEST(Emit, IsTheSameFromAnyFolderAndInAnyLocale) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  fs::create_directories(place / "elsewhere/deep");
  fs::copy(place / "base.yaml", place / "elsewhere/base.yaml");
  fs::copy(place / "corpus.txt", place / "elsewhere/corpus.txt");
  Process elsewhere(place / "elsewhere", {"emit", "base.yaml", "-o", "deep/other"},
                    {{"LC_ALL", "de_DE.UTF-8"}, {"TZ", "Asia/Tokyo"}, {"OMP_NUM_THREADS", "3"}});
  ASSERT_EQ(elsewhere.finish().code, 0);
  const Words files = files_below(place / "program");
  EXPECT_EQ(files_below(place / "elsewhere/deep/other"), files);
  for (const std::string& name : files)
    EXPECT_EQ(slurp(place / "elsewhere/deep/other" / name), slurp(place / "program" / name)) << name;
}

TEST(Emit, DiffNamesWhatIsChangedMissingAndStale) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  std::ofstream(place / "program/forward.cpp", std::ios::app) << "// mine\n";
  fs::remove(place / "program/kernels/head.cpp");
  fs::copy(place / "program/kernels/block.cpp", place / "program/kernels/no_more.cpp");
  spill(place / "program/notes.txt", "the user's own");
  EXPECT_EQ(difference(place, {}),
            "edited   forward.cpp\nmissing  kernels/head.cpp\nstale    kernels/no_more.cpp\n");
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--force"}).code, 0);
  EXPECT_EQ(difference(place, {}), "");
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
  EXPECT_EQ(difference(place, {}), "");
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
  ASSERT_NE(owned.find(parameter), std::string::npos) << owned;
  owned.replace(owned.find(parameter), parameter.size(), "const double* logits");
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

TEST(Emit, SaysWhatItNeeds) {
  const Workplace place;
  EXPECT_EQ(place.run({"emit", "base.yaml"}).err,
            "hydrac: error: where to? Name the folder: hydrac emit SPEC -o FOLDER\n");
  const Outcome threads = place.run({"emit", "base.yaml", "-o", "program", "optimizations.threads=0"});
  EXPECT_EQ(threads.code, 2);
  EXPECT_EQ(threads.err,
            "hydrac: error: an emitted program runs with a fixed number of threads, and "
            "optimizations.threads is 0, this "
            "machine's cores: give a number, such as --threads 8, or name the cores in train.cpu_affinity\n");
  EXPECT_EQ(place.run({"diff", "base.yaml", "nowhere"}).err,
            "hydrac: error: nowhere is no folder: `hydrac emit` makes one\n");
  EXPECT_FALSE(fs::exists(place / "program"));
}

// Which files a change of each kind of key may touch. A reviewer who changes a learning rate wants to read
// one kernel.
TEST(Emit, AChangeOfAKeyTouchesFewFiles) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const std::map<std::string, std::string> touched = {
      {"train.max_steps=24", "changed  kernels/update.cpp\nchanged  settings.cpp\nchanged  spec.inc\n"},
      {"train.save_steps=3", "changed  settings.cpp\nchanged  spec.inc\n"},
      {"train.seed=7",
       "changed  identity.inc\nchanged  layout.cpp\nchanged  settings.cpp\nchanged  "
       "spec.inc\n"},
      {"train.optimizer.learning_rate=1e-3",
       "changed  identity.inc\nchanged  kernels/update.cpp\nchanged  spec.inc\n"},
      {"train.optimizer.weight_decay=0.05",
       "changed  identity.inc\nchanged  kernels/update.cpp\nchanged  spec.inc\n"},
      {"train.max_grad_norm=0.5", "changed  identity.inc\nchanged  kernels/update.cpp\nchanged  spec.inc\n"},
      {"train.optimizer.name=lion",
       "changed  PLAN.md\nchanged  calls.inc\nchanged  identity.inc\nchanged  kernels/kernels.h\nchanged  "
       "kernels/update.cpp\nchanged  "
       "layout.cpp\nchanged  memory.h\nchanged  optimizer.cpp\nchanged  spec.inc\n"},
      // The width of a head, in what attention's kernels share and in their scratch memory.
      {"model.hidden_size=128",
       "changed  PLAN.md\nchanged  calls.inc\nchanged  dims.h\nchanged  identity.inc\nchanged  "
       "kernels/attention.h\nchanged  "
       "kernels/attention_backward.cpp\nchanged  kernels/attention_forward.cpp\nchanged  "
       "kernels/attention_forward_evaluate.cpp\nchanged  kernels/attention_forward_generate.cpp\nchanged  "
       "kernels/block_backward.cpp\nchanged  "
       "kernels/update.cpp\nchanged  layout.cpp\nchanged  "
       "memory.h\nchanged  program.cpp\nchanged  settings.cpp\nchanged  spec.inc\n"},
      {"model.num_hidden_layers=3",
       "changed  PLAN.md\nchanged  calls.inc\nchanged  dims.h\nchanged  identity.inc\nchanged  "
       "kernels/update.cpp\n"
       "changed  layout.cpp\nchanged  memory.h\nchanged  settings.cpp\nchanged  spec.inc\n"},
  };
  for (const auto& [override, files] : touched) EXPECT_EQ(difference(place, {override}), files) << override;
}

// The same on a GPU, where a precision is the type of most tensors, and an attention by cuDNN has no kernels.
TEST(Emit, AChangeOfPrecisionOrAttentionTouchesWhatComputesWithIt) {
  const Workplace place;
  const auto words = [](const std::string& verb, const std::string& precision, const std::string& attention) {
    return Words{verb,
                 "base.yaml",
                 "target=h100",
                 "model.num_attention_heads=2",
                 "model.num_key_value_heads=2",
                 "model.attention_dropout=0",
                 "optimizations.loss=fused_linear",
                 "optimizations.precision=" + precision,
                 "optimizations.attention=" + attention};
  };
  const auto changes = [&](const std::string& precision, const std::string& attention) {
    Words diff = words("diff", precision, attention);
    diff.insert(diff.begin() + 2, "program");
    diff.push_back("--stat");
    return std::regex_replace(place.run(diff).out, std::regex("  [+][0-9]+ -[0-9]+\n"), "\n");  // names alone
  };
  ASSERT_EQ(place.run(with(words("emit", "bf16", "cudnn"), {"-o", "program"})).code, 0);
  const std::string attention = changes("bf16", "generated");
  EXPECT_NE(attention.find("missing  kernels/attention_forward.cu\n"), std::string::npos) << attention;
  EXPECT_NE(attention.find("missing  kernels/attention_key_gradients.cu\n"), std::string::npos) << attention;
  for (const char* other :
       {"dims.h", "layout.cpp", "optimizer.cpp", "kernels/block.cu", "kernels/head.cu", "kernels/update.cu"})
    EXPECT_EQ(attention.find(std::string("  ") + other + "\n"), std::string::npos) << attention;
  const std::string precision = changes("fp16", "cudnn");
  for (const char* other :
       {"CMakeLists.txt", "dims.h", "backward.cpp", "evaluate.cpp", "generate.cpp", "program.h", "step.h"})
    EXPECT_EQ(precision.find(std::string("  ") + other + "\n"), std::string::npos) << precision;
  EXPECT_NE(precision.find("changed  kernels/block.cu\n"), std::string::npos) << precision;
}

// Each has a file for its epilogue, over the template in the runtime.
TEST(Emit, MatmulsWithEpiloguesReadLikeTheRest) {
  const Workplace place;
  const Outcome outcome =
      place.run({"emit", "base.yaml", "-o", "program", "target=h100", "model.num_attention_heads=2",
                 "optimizations.precision=bf16", "optimizations.fused_matmuls=all"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string kernel = slurp(place / "program/kernels/matmul_swiglu.cu");
  EXPECT_NE(kernel.find("#include \"cuda/matmul/matmul.cuh\"\n"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("// gate_up = left right^T\n// y = act(gate) * up\n"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("struct matmul_swiglu_epilogue {\n"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("tensor_map(left, {B * T, C, kBoxRows, kDepth}"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("{kBlocks, kThreads, kSharedBytes}, stream"), std::string::npos) << kernel;
  EXPECT_EQ(kernel.find("namespace hydrac {"), std::string::npos) << kernel;
  const std::string backward = slurp(place / "program/backward.cpp");
  EXPECT_NE(backward.find("main.wait(run.after_weight_gradients);"), std::string::npos) << backward;
  EXPECT_NE(backward.find("  // It reads "), std::string::npos) << backward;
  const std::string forward = slurp(place / "program/forward.cpp");
  EXPECT_NE(forward.find("  // gate_up = mlp_normed · mlp_up_weightᵀ    [B,T,C] x [2F,C]ᵀ\n"
                         "  // y = act(gate) * up\n"
                         "  matmul_swiglu(act.mlp_normed[l], copies.mlp_up_weight[l], "),
            std::string::npos)
      << forward;
}

// A matmul that nothing is fused to is a call of its kernel.
TEST(Emit, MatmulsOfOneTileReadLikeTheRest) {
  const Workplace place;
  const Outcome outcome =
      place.run({"emit", "base.yaml", "-o", "program", "target=h100", "model.num_attention_heads=2",
                 "optimizations.precision=bf16", "train.sequence_len=64", "train.micro_batch_size=32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string kernel = slurp(place / "program/kernels/plain_matmul.cu");
  EXPECT_NE(kernel.find("#include \"cuda/matmul/matmul.cuh\"\n"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("// matmul = left right^T\n"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("    store(matmul + first, matmul_in);\n  }\n};\n"), std::string::npos) << kernel;
  EXPECT_EQ(kernel.find("for (int j"), std::string::npos) << kernel;
  const std::string forward = slurp(place / "program/forward.cpp");
  EXPECT_NE(forward.find("  plain_matmul"), std::string::npos) << forward;
  EXPECT_EQ(forward.find("main.gemm_"), std::string::npos) << forward;
}

// A norm behind a matmul: passes over the row in one struct, of which none is the template's.
TEST(Emit, MatmulsWithNormsReadLikeTheRest) {
  const Workplace place;
  const Outcome outcome =
      place.run({"emit", "base.yaml", "-o", "program", "target=h100", "model.hidden_size=256",
                 "model.num_attention_heads=2", "model.dropout=0", "model.attention_dropout=0",
                 "optimizations.precision=bf16", "optimizations.fused_matmuls=all"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string kernel = slurp(place / "program/kernels/matmul_add_rmsnorm.cu");
  EXPECT_NE(kernel.find("#include \"cuda/matmul/matmul.cuh\"\n"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("  template <int pass>\n  __device__ void apply(std::int64_t r, int c, "),
            std::string::npos)
      << kernel;
  EXPECT_NE(kernel.find("      if (c == 0) rstd[r] = row_rstd;\n"), std::string::npos) << kernel;
  EXPECT_EQ(kernel.find("namespace hydrac {"), std::string::npos) << kernel;
  const std::string forward = slurp(place / "program/forward.cpp");
  EXPECT_NE(forward.find("  matmul_add_rmsnorm(act.attn_mixed[l], copies.attn_out_weight[l], "),
            std::string::npos)
      << forward;
}

TEST(Emit, TwoSpecsAreComparedByKernelsWorkAndMemory) {
  const Workplace place;
  std::string wider = base_spec();
  wider.replace(wider.find("hidden_size: 64"), 15, "hidden_size: 128");
  spill(place / "wider.yaml", wider);
  const Outcome outcome = place.run({"diff", "base.yaml", "wider.yaml"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("  model.hidden_size: 64 -> 128\n"), std::string::npos) << outcome.out;
  for (const char* row :
       {"\nkernels\n", "\ncalls ", "\nflop ", "\nbytes moved ", "\narena ", "\n  parameter "})
    EXPECT_NE(outcome.out.find(row), std::string::npos) << row << "\n" << outcome.out;
}

// Strings of a spec stay strings: nothing in them ends a literal, a comment or a line.
TEST(Emit, NothingInASpecBecomesCode) {
  const Workplace place;
  const std::string hostile = "corpus\\\"); std::system(\\\"touch owned\\\"); (\\\"";
  std::string spec = base_spec();
  spec.replace(spec.find("path: corpus.txt"), 16,
               "path: [corpus.txt, \"" + hostile + "\", \"*/ int x; /*\", \"a\\nb?\"]");
  spec.replace(
      spec.find("max_new_tokens: 0"), 17,
      "max_new_tokens: 0\n  prompt: \")\\\" R\\\"(x\\\\\\nint main() { return 1; }\\n#error owned\"");
  spill(place / "base.yaml", spec);
  const Outcome outcome = place.run({"emit", "base.yaml", "-o", "program", "x-note=\n#error owned \\"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;  // every file was parsed
  for (const std::string& name : files_below(place / "program")) {
    std::ifstream file(place / "program" / name);
    for (std::string line; std::getline(file, line);) {
      EXPECT_FALSE(line.starts_with("#error")) << name;
      EXPECT_FALSE(line.starts_with("int main() { return 1")) << name;
      EXPECT_FALSE(line.ends_with("\\")) << name << ": " << line;
    }
  }
  const std::string train = slurp(place / "program/settings.cpp");
  EXPECT_NE(train.find("corpus\\\"); std::system(\\\"touch owned\\\"); (\\\""), std::string::npos);
  EXPECT_EQ(place.run({"emit", "base.yaml", "-o", "program2", "name=a/../b"}).code, 2);
  EXPECT_FALSE(fs::exists(place / "program2"));
}

// Every spec that comes with hydrac becomes files that parse, without a GPU.
TEST(Emit, EveryShippedSpecIsEmitted) {
  const Workplace place;
  for (const fs::directory_entry& spec :
       fs::directory_iterator(fs::path(hydrac::test::source_dir()) / "specs")) {
    if (spec.path().extension() != ".yaml") continue;
    for (const char* target : {"cpu", "h200", "gtx1650ti"}) {
      const bool cpu = std::string(target) == "cpu", old = std::string(target) == "gtx1650ti";
      Words words = {"emit",
                     spec.path().string(),
                     "-o",
                     "program",
                     "--memory",
                     "100",
                     "--threads",
                     "4",
                     "-q",
                     std::string("target=") + target,
                     "data.path=corpus.txt",
                     "data.tokenizer=byte",
                     "train.micro_batch_size=1",
                     "train.gradient_accumulation_steps=1"};
      words.push_back(cpu   ? "optimizations.precision=fp32"
                      : old ? "optimizations.precision=fp16"
                            : "optimizations.precision=bf16");
      if (cpu) words.push_back("optimizations.loss=materialized");
      if (!cpu && !old) words.push_back("optimizations.fused_matmuls=all");
      const std::string name = spec.path().stem().string();
      if (name.starts_with("series")) continue;  // its data is made by a test of its own
      const Outcome outcome = place.run(words);
      EXPECT_EQ(outcome.code, 0) << name << " on " << target << ": " << outcome.err;
    }
  }
}

// Gradients of two types are two packs, and everything else is of 16 bits.
TEST(Emit, NarrowStateIsEmitted) {
  const Workplace place;
  Words words = {"emit",       hydrac::test::source_dir() + "/specs/llama-1b.yaml", "-o", "program", "-q",
                 "target=h200"};
  for (const char* key : {"train.gradient_accumulation_steps=1", "optimizations.weights=bf16",
                          "optimizations.gradients=compute", "optimizations.optimizer_state=bf16"})
    words.emplace_back(key);
  const Outcome outcome = place.run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string memory = slurp(place / "program/memory.h");
  for (const char* line :
       {"using Weights = Parameters<bf16>;", "bf16* matmuls = ", "float* sums = ", "bf16* adam_v = "})
    EXPECT_NE(memory.find(line), std::string::npos) << line;
  EXPECT_EQ(memory.find("using Copies"), std::string::npos);
}

// Weights of 8 bits are a group of their own; matmuls are told what 8 bits stand for.
TEST(Emit, MatmulsOfEightBitsAreEmitted) {
  for (const char* weights : {"fp32", "bf16"}) {
    const Workplace place;
    const Outcome outcome =
        place.run({"emit", hydrac::test::source_dir() + "/specs/gpt2-124m.yaml", "-o", "program", "-q",
                   "target=h200", "optimizations.precision=fp8", "optimizations.fp8_matmuls=all",
                   std::string("optimizations.weights=") + weights});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string memory = slurp(place / "program/memory.h"),
                      forward = slurp(place / "program/forward.cpp");
    for (const char* line : {"using hydrac::f8e5m2;\n", "Slots<f8e4m3> mlp_up_weight = ",
                             "Slots<f8e4m3> mlp_up_weight_transposed = ", "float* fp8_forward_history = "})
      EXPECT_NE(memory.find(line), std::string::npos) << line;
    EXPECT_NE(forward.find(".a_scale = state.fp8_forward_inverses_mlp_up_weight[l]"), std::string::npos);
    EXPECT_NE(slurp(place / "program/load.cpp").find("narrow_weights(m, run, l);"), std::string::npos);
  }
}

// A rank's part of the fp32 weights, whose copies of 16 bits all ranks get; the whole ones are addresses.
TEST(Emit, ASharedUpdateIsEmitted) {
  const Workplace place;
  const Outcome outcome = place.run({"emit", hydrac::test::source_dir() + "/specs/llama-1b.yaml", "-o",
                                     "program", "-q", "target=h200", "parallel.data=4", "parallel.zero=1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string memory = slurp(place / "program/memory.h"),
                    update = slurp(place / "program/optimizer.cpp"),
                    layout = slurp(place / "program/layout.cpp");
  for (const char* line : {"struct Master {", "using Copies = Parameters<bf16>;", "float* own_parameters = "})
    EXPECT_NE(memory.find(line), std::string::npos) << line;
  for (const char* line : {"run.ranks.reduce_scatter(", "run.ranks.all_gather({shared_elements(copies.all, ",
                           "run.ranks.all_reduce({elements(master.vectors, "})
    EXPECT_NE(update.find(line), std::string::npos) << line;
  for (const char* line :
       {"layout.state.rank = place(", "divided(m.weights.all, m.master.own_parameters, 4, ",
        "shared_by_ranks(named(\"adam.m\", "})
    EXPECT_NE(layout.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace hydrac::e2e
