// `hydrac emit`: what it writes.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/support/source_dir.h"

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

TEST(Emit, WritesAProgramAndLeavesACurrentOneUntouched) {
  const Workplace place;
  const Outcome first = place.run({"emit", "base.yaml", "-o", "program"});
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* name : {"CMakeLists.txt",
                           "PLAN.md",
                           "backward.cpp",
                           "calls.inc",
                           "dims.h",
                           "forward.cpp",
                           "hyper.h",
                           "layout.cpp",
                           "memory.h",
                           "optimizer.cpp",
                           "program.cpp",
                           "program.h",
                           "settings.cpp",
                           "spec.inc",
                           "identity.inc",
                           "train.cpp",
                           "train.h",
                           "library.cpp",
                           "kernels/kernels.h",
                           "kernels/block.cpp",
                           "kernels/attention_forward.cpp"}) {
    EXPECT_TRUE(fs::exists(place / "program" / name)) << name;
    EXPECT_NE(first.out.find(std::string("new      ") + name + "\n"), std::string::npos) << name;
  }
  const auto written = fs::last_write_time(place / "program/forward.cpp");
  const Outcome second = place.run({"emit", "base.yaml", "-o", "program"});
  EXPECT_NE(second.out.find("all as they were\n"), std::string::npos) << second.out;
  EXPECT_EQ(fs::last_write_time(place / "program/forward.cpp"), written);
  EXPECT_EQ(changed_files(place, {}), "");
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

// Convolutions and shifted values of documents, in training and in functions of one token; one key head is a
// dimension of one row.
TEST(Emit, RepliesOfCompressedModelsAreEmitted) {
  const Workplace place;
  test::spill(
      place / "replies.yaml",
      "name: replies\n"
      "model: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 1, "
      "vocab_size: 256, attention_kind: ccgqa, ccgqa: {compression: 2}}\n"
      "objective: {name: polychromic, prompt_tokens: 32, max_new_tokens: 32}\n"
      "data: {path: pairs.jsonl, format: chat}\n"
      "train: {sequence_len: 128, micro_batch_size: 2, max_steps: 10}\n");
  for (const Words& target :
       {Words{"target=cpu", "--threads", "2"}, Words{"target=h200", "optimizations.precision=bf16"},
        Words{"target=gtx1650ti", "optimizations.precision=fp16"}}) {
    const Outcome outcome = place.run(with({"emit", "replies.yaml", "-o", "program", "-q"}, target));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string end = target[0] == "target=cpu" ? ".cpp" : ".cu";
    EXPECT_NE(slurp(place / ("program/kernels/block" + end)).find("document_begin"), std::string::npos);
    EXPECT_EQ(slurp(place / ("program/kernels/decode" + end)).find("document_begin"), std::string::npos);
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

// A rank's part of the fp32 weights, whose copies of 16 bits all ranks get; the whole ones are addresses. A
// layer's gradients are summed in its iteration, which waits for those that had the same memory two layers
// before.
TEST(Emit, ASharedUpdateIsEmitted) {
  const Workplace place;
  const Outcome outcome =
      place.run({"emit", hydrac::test::source_dir() + "/specs/llama-1b.yaml", "-o", "program", "-q",
                 "target=h200", "parallel.data=4", "parallel.zero=2", "train.micro_batch_size=2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string memory = slurp(place / "program/memory.h"),
                    update = slurp(place / "program/optimizer.cpp"),
                    backward = slurp(place / "program/backward.cpp"),
                    layout = slurp(place / "program/layout.cpp");
  for (const char* line : {"struct Master {", "using Copies = Parameters<bf16>;", "float* own_parameters = "})
    EXPECT_NE(memory.find(line), std::string::npos) << line;
  for (const char* line : {"{Collective::all_gather}", ", copies.token_embedding, ",
                           "run.ranks.run({Collective::all_reduce}, {elements(master.vectors, "})
    EXPECT_NE(update.find(line), std::string::npos) << line;
  for (const char* line : {"{Collective::reduce_scatter}", "side.wait(run.after_", "_by_turns[l % 2]);"})
    EXPECT_NE(backward.find(line), std::string::npos) << line;
  for (const char* line :
       {"layout.state.rank = place(", "divide(layout, m.weights.all + 0, m.master.own_parameters + 0, {4, ",
        "shared_by_ranks(", "named(\"adam.m\", "})
    EXPECT_NE(layout.find(line), std::string::npos) << line;
}

// The next layer's weights come, from ranks or from the host, while one computes: a call waits for those of
// the layer before last, and a backward loop that gathers begins behind a function of its own.
TEST(Emit, WeightsThatLayersFetchAreEmitted) {
  const Workplace place;
  const auto emitted = [&](const std::string& folder, const Words& words) {
    const Outcome outcome = place.run(
        with({"emit", hydrac::test::source_dir() + "/specs/llama-1b.yaml", "-o", folder, "-q", "target=h200"},
             words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  const auto expect_lines = [&](const std::string& file, const Words& lines) {
    const std::string text = slurp(place / file);
    for (const std::string& line : lines)
      EXPECT_NE(text.find(line), std::string::npos) << file << ": " << line;
  };
  emitted("gathered", {"parallel.data=4", "parallel.zero=3", "train.micro_batch_size=2"});
  expect_lines("gathered/forward.cpp", {"communication.wait(run.after_mlp_out_by_turns[l % 2]);",
                                        "elements(copies.own_parameters_bf16_attn_qkv_weight[l], "
                                        "act.attn_qkv_weight_block[l], "});
  expect_lines("gathered/backward.cpp",
               {"void block_backward_gather(", "act.mlp_down_weight_block_backward[l + 1]",
                "communication.mark(run.after_mlp_down_weight_block_backward_in_block_backward);"});
  expect_lines("gathered/memory.h",
               {"Slots<bf16> weights_block = ", "  // [C,F], in turn, inside weights_block"});
  expect_lines("gathered/layout.cpp", {"layout.gathers_weights = true;"});
  emitted("held", {"optimizations.offload.weights=4"});
  expect_lines("held/forward.cpp",
               {"host_copies.copy(act.attn_qkv_weight_12_block12[l], copies.attn_qkv_weight_12[l], ",
                "host_copies.wait(run.after_attn_qkv_by_turns[l % 2]);"});
  expect_lines("held/optimizer.cpp", {"copies.host_parameters_bf16_from"});
}

// Layers that recompute and layers that keep what they made are two loops.
TEST(Emit, SomeLayersThatRecomputeAreALoopOfTheirOwn) {
  const Workplace place;
  const Words words = {"base.yaml", "optimizations.recompute=block", "optimizations.recompute_layers=1",
                       "model.num_hidden_layers=4"};
  ASSERT_EQ(place.run(with({"emit", "-o", "program", "-q"}, words)).code, 0);
  const std::string forward = slurp(place / "program/forward.cpp"),
                    backward = slurp(place / "program/backward.cpp");
  for (const char* line : {"void block0(", "void block1(", "weights.attn_qkv_weight[l + 1]"})
    EXPECT_NE(forward.find(line), std::string::npos) << line;
  const size_t kept = backward.find("void block1_backward("), again = backward.find("void block0_backward(");
  ASSERT_NE(kept, std::string::npos);
  ASSERT_NE(again, std::string::npos);
  EXPECT_EQ(backward.substr(kept, again - kept).find("_again"), std::string::npos);
  EXPECT_NE(backward.find("mlp_up_again", again), std::string::npos);
}

}  // namespace
}  // namespace hydrac::e2e
