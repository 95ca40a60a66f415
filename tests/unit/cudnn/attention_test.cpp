// Plans of attention without a GPU: which problems are refused, which graphs cuDNN is given, which engines
// are taken. cuDNN is a stand-in (fake_cudnn.cpp); tests/gpu checks the numbers with the real one.
#include "runtime/cudnn/attention.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime::cudnn {
namespace {

using test::message_of;

namespace fs = std::filesystem;

AttentionProblem problem(std::int64_t tokens = 256, std::int64_t kv_heads = 2) {
  AttentionProblem p{
      .batch = 2, .tokens = tokens, .heads = 4, .kv_heads = kv_heads, .head_dim = 64, .scale = 0.125f};
  p.q = p.out = p.d_out = p.d_q = dense(tokens, 4, 64);
  p.k = p.v = p.d_k = p.d_v = dense(tokens, kv_heads, 64);
  return p;
}

class CudnnPlan : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("FAKE_CUDNN_ENGINES");
    unsetenv("FAKE_CUDNN_NO_CONTEXT");
  }
  CudnnAttention open(const std::string& folder = "v9_14", int capability = 90, const fs::path& cache = {},
                      const RecordedChoices& recorded = {}) {
    file_ = std::string(FAKE_CUDNN_FOLDER "/") + folder;
    setenv("HYDRAC_CUDA_LIBRARIES", file_.c_str(), 1);
    return CudnnAttention({.name = "NVIDIA H200", .capability = capability, .sms = 132}, cache, recorded);
  }
  void engines(const char* words) { setenv("FAKE_CUDNN_ENGINES", words, 1); }
  // The last graph that the stand-in was given, an operation a line.
  std::string graph() const {
    void* library = dlopen((file_ + "/libcudnn.so.9").c_str(), RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<const char* (*)()>(dlsym(library, "fake_cudnn_graph"))();
  }

 private:
  std::string file_;
};

TEST(CudnnSupport, WhatHopperRunsIsNotRefused) {
  for (const std::int64_t head_dim : {8, 40, 64, 96, 128, 256}) {
    AttentionProblem p = problem();
    p.head_dim = head_dim;
    EXPECT_EQ(unsupported_reason(p, 90), std::nullopt) << head_dim;
  }
  EXPECT_EQ(unsupported_reason(problem(1000, 1), 80), std::nullopt);
}

TEST(CudnnSupport, ARefusalSaysWhatToChange) {
  const auto reason = [](auto change, int capability = 90) {
    AttentionProblem p = problem();
    change(p);
    return unsupported_reason(p, capability).value_or("supported");
  };
  const auto nothing = [](AttentionProblem&) {};
  EXPECT_EQ(
      reason(nothing, 75),
      "cuDNN's attention needs a GPU of compute capability 8.0 or newer; this one has 7.5: use the generated "
      "attention");
  EXPECT_EQ(reason([](AttentionProblem& p) { p.head_dim = 264; }),
            "cuDNN's attention on a GPU of compute capability 9.0 needs a head_dim that is a multiple of 8 "
            "and at most "
            "256; this one is 264: use the generated attention or another head_dim");
  EXPECT_EQ(reason([](AttentionProblem& p) { p.head_dim = 136; }, 89),
            "cuDNN's attention on a GPU of compute capability 8.9 needs a head_dim that is a multiple of 8 "
            "and at most "
            "128; this one is 136: use the generated attention or another head_dim");
  EXPECT_EQ(reason([](AttentionProblem& p) { p.head_dim = 20; }),
            "cuDNN's attention on a GPU of compute capability 9.0 needs a head_dim that is a multiple of 8 "
            "and at most "
            "256; this one is 20: use the generated attention or another head_dim");
  EXPECT_EQ(reason([](AttentionProblem& p) { p.tokens = 1; }),
            "cuDNN's attention needs at least 2 tokens, not 1: use the generated attention");
  EXPECT_EQ(reason([](AttentionProblem& p) { p.kv_heads = 3; }),
            "cuDNN's attention needs a number of heads (4) that the number of key and value heads (3) "
            "divides, and a "
            "batch (2) of at least 1");
  EXPECT_EQ(reason([](AttentionProblem& p) { p.scale = std::numeric_limits<float>::infinity(); }),
            "cuDNN's attention needs a positive scale, not inf");
  EXPECT_EQ(
      reason([](AttentionProblem& p) { p.v.token = 100; }),
      "cuDNN's attention needs strides of v that are positive multiples of 8 elements: use the generated "
      "attention or pad the tensor");
}

TEST(CudnnSupport, TheForwardPassNeedsNoStridesOfGradients) {
  AttentionProblem p = problem();
  p.d_out = p.d_q = p.d_k = p.d_v = {};
  EXPECT_EQ(unsupported_reason(p, 90, false), std::nullopt);
  EXPECT_EQ(
      unsupported_reason(p, 90),
      "cuDNN's attention needs strides of d_out that are positive multiples of 8 elements: use the generated "
      "attention or pad the tensor");
}

// Numbers of modes: 0 add, 1 multiply, 6 divide, 9 subtract, 13 exp, 15 log, 303 >=, 501 index, 601 select
// (x, b, y, t).
TEST_F(CudnnPlan, TheForwardGraphIsTheOneThatFusedEnginesKnow) {
  CudnnAttention attention = open();
  attention.forward(problem());
  EXPECT_EQ(graph(),
            "matmul 1:bf16[2,4,256,64] 2:bf16[2,2,64,256] 1000\n"
            "pointwise mode 1 1000 =1001 1002\n"
            "pointwise mode 501 1002 1003\n"
            "pointwise mode 501 1002 1004\n"
            "pointwise mode 303 1003 1004 1005\n"
            "pointwise mode 601 1002 =1006 1007 1005\n"
            "reduce 1007 1008 operator 3\n"
            "pointwise mode 9 1007 1008 1009\n"
            "pointwise mode 13 1009 1010\n"
            "reduce 1010 1011 operator 0\n"
            "pointwise mode 15 1011 1012\n"
            "pointwise mode 0 1008 1012 5:f32[2,4,256,1]\n"
            "pointwise mode 6 1010 1011 1013\n"
            "matmul 1013 3:bf16[2,2,256,64] 4:bf16[2,4,256,64]\n");
}

TEST_F(CudnnPlan, WithoutCausalMaskNothingIsCompared) {
  CudnnAttention attention = open();
  AttentionProblem p = problem();
  p.causal = false;
  p.bf16 = false;
  attention.forward(p);
  EXPECT_EQ(graph().find("mode 501"), std::string::npos) << graph();
  EXPECT_TRUE(graph().starts_with("matmul 1:f16[2,4,256,64] ")) << graph();
}

TEST_F(CudnnPlan, DeterministicGradientsOfQueriesAreWrittenByOneMatmul) {
  CudnnAttention attention = open();
  AttentionProblem p = problem();
  attention.backward(p);
  EXPECT_EQ(graph().find(" 11:"), std::string::npos) << graph();
  EXPECT_TRUE(graph().ends_with(" 7:bf16[2,4,256,64]\n")) << graph();
  p.deterministic = false;
  attention.backward(p);
  EXPECT_TRUE(
      graph().ends_with(" 11:f32[2,4,256,64]\npointwise mode 21 11:f32[2,4,256,64] 7:bf16[2,4,256,64]\n"))
      << graph();
}

TEST_F(CudnnPlan, OnlySharedKeyHeadsHaveTheirGradientsSummed) {
  CudnnAttention attention = open();
  const auto sums = [&](std::int64_t kv_heads) {
    attention.backward(problem(256, kv_heads));
    return std::pair(graph().find("8:bf16[2,2,256,64] operator 0") != std::string::npos,
                     graph().find("9:bf16[2,2,256,64] operator 0") != std::string::npos);
  };
  EXPECT_EQ(sums(2), std::pair(true, true));
  EXPECT_EQ(sums(4), std::pair(false, false));
}

TEST_F(CudnnPlan, OldVersionsAreToldLengthsWhenTokensAreNoMultipleOf128) {
  const auto has_lengths = [&](const char* folder, std::int64_t tokens) {
    CudnnAttention attention = open(folder);
    attention.backward(problem(tokens));
    return graph().find("12:i32[2,1,1,1] 13:i32[2,1,1,1]") != std::string::npos;
  };
  EXPECT_TRUE(has_lengths("v9_14", 1000));
  EXPECT_FALSE(has_lengths("v9_14", 1024));
  EXPECT_FALSE(has_lengths("v9_19", 1000));
}

TEST_F(CudnnPlan, TheFirstEngineThatWorksIsTaken) {
  engines("any-order refuses works works");
  CudnnAttention attention = open();
  EXPECT_EQ(attention.forward(problem()).engine(), "engine 12 (knobs 24=12)");
  AttentionProblem p = problem();
  p.deterministic = false;
  EXPECT_EQ(attention.backward(p).engine(), "engine 10 (knobs 24=10)");
}

// `choices` with `engine` for every graph.
RecordedChoices with_engine(const RecordedChoices& choices, const std::string& engine) {
  RecordedChoices changed = choices;
  for (const auto& [key, value] : choices.sections().at("cudnn")) {
    if (value.starts_with("engine ")) changed.set("cudnn", key, engine);
  }
  return changed;
}

TEST_F(CudnnPlan, TheRecordedEngineIsTakenInsteadOfTheFavourite) {
  engines("works works works");
  CudnnAttention first = open();
  EXPECT_EQ(first.backward(problem()).engine(), "engine 10 (knobs 24=10)");
  EXPECT_EQ(first.forward(problem()).engine(), "engine 10 (knobs 24=10)");
  const RecordedChoices favourites = first.choices();
  EXPECT_EQ(favourites.find("cudnn", "library"), "cuDNN 9.14.0");
  EXPECT_EQ(favourites.find("cudnn", "gpu"), "NVIDIA H200");
  EXPECT_EQ(favourites.sections().at("cudnn").size(), 4u);

  const RecordedChoices others = with_engine(favourites, "engine 12 (knobs 24=12)");
  CudnnAttention second = open("v9_14", 90, {}, others);
  EXPECT_EQ(second.backward(problem()).engine(), "engine 12 (knobs 24=12)");
  EXPECT_EQ(second.forward(problem()).engine(), "engine 12 (knobs 24=12)");
  EXPECT_EQ(second.choices(), others);
}

TEST_F(CudnnPlan, ARecordedEngineThatIsNotHereIsSeenInTheChoices) {
  engines("works works works");
  CudnnAttention first = open();
  first.backward(problem());
  const RecordedChoices unknown = with_engine(first.choices(), "engine 99 (knobs 24=99)");
  CudnnAttention second = open("v9_14", 90, {}, unknown);
  EXPECT_EQ(second.backward(problem()).engine(), "engine 10 (knobs 24=10)");
  EXPECT_EQ(differences(unknown, second.choices()).size(), 1u);
  // Of another version, nothing that is recorded means anything.
  const RecordedChoices others = with_engine(first.choices(), "engine 12 (knobs 24=12)");
  CudnnAttention newer = open("v9_19", 90, {}, others);
  EXPECT_EQ(newer.backward(problem()).engine(), "engine 10 (knobs 24=10)");
}

TEST_F(CudnnPlan, AllRefusalsAreInTheMessage) {
  engines("any-order refuses");
  CudnnAttention attention = open();
  EXPECT_EQ(
      message_of<RunError>([&] { attention.forward(problem()); }),
      "cuDNN 9.14.0 has no engine for this graph:\n"
      "  engine 10 (knobs 24=10): is not deterministic\n"
      "  engine 11 (knobs 24=11): cuDNN 9.14.0 cannot build a plan: CUDNN_STATUS_NOT_SUPPORTED (too large)");
  engines("");
  EXPECT_EQ(message_of<RunError>([&] { attention.forward(problem()); }),
            "cuDNN 9.14.0 has no engine for this graph; its heuristics name none");
}

TEST_F(CudnnPlan, TheWorkspaceHoldsTheEnginesAndTheGraphsScratch) {
  CudnnAttention attention = open();
  const auto backward_bytes = [&](std::int64_t tokens, bool deterministic) {
    AttentionProblem p = problem(tokens);
    p.deterministic = deterministic;
    return attention.backward(p).workspace_bytes();
  };
  constexpr std::int64_t engine = 10240;  // 10000, rounded up
  EXPECT_EQ(attention.forward(problem()).workspace_bytes(), engine);
  EXPECT_EQ(attention.forward(problem()).description(),
            "cuDNN 9.14.0 engine 10 (knobs 24=10), workspace 0.0 MiB");
  EXPECT_EQ(backward_bytes(256, true), engine + 2 * 4 * 256 * 4);
  EXPECT_EQ(backward_bytes(256, false), engine + 2 * 4 * 256 * 4 + 2 * 4 * 256 * 64 * 4);
  EXPECT_EQ(backward_bytes(320, true), engine + 2 * 4 * 320 * 4 + 256);  // and two lengths
}

TEST_F(CudnnPlan, BlackwellNeedsANewerCudnnForDeterministicGradients) {
  AttentionProblem p = problem();
  CudnnAttention attention = open("v9_14", 100);
  EXPECT_EQ(
      message_of<RunError>([&] { attention.backward(p); }),
      "cuDNN 9.14.0 has no deterministic gradients of attention on a GPU of compute capability 10.0: install "
      "cuDNN 9.18.0 or newer, or use the generated attention");
  p.deterministic = false;
  EXPECT_EQ(attention.backward(p).engine(), "engine 10 (knobs 24=10)");
  p.deterministic = true;
  EXPECT_EQ(open("v9_19", 100).backward(p).engine(), "engine 10 (knobs 24=10)");
}

class CudnnPlanCache : public CudnnPlan {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override {
    fs::remove_all(folder_);
    CudnnPlan::TearDown();
  }
  // What a program that starts now gets, without any engine that could be compiled: only the cache can give
  // one.
  std::string read_by_another_program(const AttentionProblem& p, const std::string& library = "v9_14",
                                      int capability = 90) {
    engines("");
    CudnnAttention attention = open(library, capability, folder_);
    try {
      return attention.backward(p).description();
    } catch (const RunError& error) {
      return error.what();
    }
  }
  fs::path the_file() const { return *fs::directory_iterator(folder_); }

  const fs::path folder_ = fs::temp_directory_path() / fmt::format("hydrac-cudnn-cache-{}", getpid());
  const std::string nothing_ = "cuDNN 9.14.0 has no engine for this graph; its heuristics name none";
};

TEST_F(CudnnPlanCache, APlanIsReadByTheNextProgram) {
  engines("refuses works");
  const std::string made = open("v9_14", 90, folder_).backward(problem()).description();
  EXPECT_EQ(made, "cuDNN 9.14.0 engine 11 (knobs 24=11), workspace 0.0 MiB");
  EXPECT_EQ(read_by_another_program(problem()), made);
}

TEST_F(CudnnPlanCache, AnotherProblemVersionOrGpuIsNotMistakenForIt) {
  open("v9_14", 90, folder_).backward(problem());
  EXPECT_EQ(read_by_another_program(problem(512)), nothing_);
  AttentionProblem any_order = problem();
  any_order.deterministic = false;
  EXPECT_EQ(read_by_another_program(any_order), nothing_);
  AttentionProblem other_strides = problem();
  other_strides.d_v.batch += 8;
  EXPECT_EQ(read_by_another_program(other_strides), nothing_);
  EXPECT_EQ(read_by_another_program(problem(), "v9_14", 89), nothing_);
  EXPECT_EQ(read_by_another_program(problem(), "v9_19"),
            "cuDNN 9.19.0 has no engine for this graph; its heuristics name none");
}

TEST_F(CudnnPlanCache, ARecordedEngineIsReadFromTheCacheOrMadeInsteadOfWhatLiesThere) {
  engines("works works");
  CudnnAttention first = open("v9_14", 90, folder_);
  first.backward(problem());
  const RecordedChoices other = with_engine(first.choices(), "engine 11 (knobs 24=11)");
  EXPECT_EQ(open("v9_14", 90, folder_, other).backward(problem()).engine(), "engine 11 (knobs 24=11)");
  engines("");  // only the cache has any now
  EXPECT_EQ(open("v9_14", 90, folder_, first.choices()).backward(problem()).engine(),
            "engine 10 (knobs 24=10)");
}

TEST_F(CudnnPlanCache, ADamagedFileIsMadeAnew) {
  open("v9_14", 90, folder_).backward(problem());
  const auto size = fs::file_size(the_file());
  fs::resize_file(the_file(), size - 1);
  EXPECT_EQ(read_by_another_program(problem()), nothing_);
  engines("works");
  open("v9_14", 90, folder_).backward(problem());
  EXPECT_EQ(fs::file_size(the_file()), size);
}

TEST_F(CudnnPlanCache, AFolderThatCannotBeWrittenIsDoneWithout) {
  std::ofstream(folder_) << "a file";
  CudnnAttention attention = open("v9_14", 90, folder_);
  testing::internal::CaptureStderr();
  attention.forward(problem());
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                fmt::format("warning: the cache folder {} cannot be written", folder_.string())),
            std::string::npos);
}

TEST_F(CudnnPlan, AMissingContextIsCudnnsToReport) {
  setenv("FAKE_CUDNN_NO_CONTEXT", "1", 1);
  EXPECT_EQ(message_of<RunError>([&] { open(); }),
            "cuDNN 9.14.0 cannot start in this CUDA context: CUDNN_STATUS_BAD_PARAM (there is no context)");
}

}  // namespace
}  // namespace hydrac::runtime::cudnn
