// Plans of cuDNN's attention on a real GPU: made once, kept in the cache, measured, and what is refused.
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "cudnn_trial.h"
#include "runtime/error.h"

namespace hydrac::test {
namespace {

TEST_F(CudnnAttentionTest, APlanIsMadeOnce) {
  const AttentionProblem p = problem({shape(2, 128, 4, 4, 64)});
  const std::string first = gpu_->attention.backward(p).description();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(gpu_->attention.backward(p).description(), first);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1e-3);
  EXPECT_TRUE(first.starts_with(gpu_->attention.name() + " engine ")) << first;
}

TEST_F(CudnnAttentionTest, APlanFromTheCacheIsThereAtOnceAndGivesTheSameBits) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("hydrac-cudnn-{}", getpid());
  const Case c{shape(2, 320, 4, 2, 72)};
  const auto run_cached = [&](double& seconds) {
    CudnnAttention attention(gpu_->context.device(), folder);
    const auto start = std::chrono::steady_clock::now();
    const Plan forward = attention.forward(problem(c)), backward = attention.backward(problem(c));
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Trial trial(*gpu_, c);
    return trial.run(attention, forward, backward);
  };
  double made = 0, read = 0;
  const auto first = run_cached(made), second = run_cached(read);
  std::printf("  made in %.0f ms, read in %.1f ms\n", made * 1e3, read * 1e3);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
  fs::remove_all(folder);
  EXPECT_TRUE(first == second);
  EXPECT_LT(read, 0.1);
}

TEST_F(CudnnAttentionTest, TheFastestPlanIsMeasuredOnceAndRemembered) {
  namespace fs = std::filesystem;
  const AttentionProblem p = problem({shape(64, 1024, 12, 12, 64)}),
                         small = problem({shape(2, 256, 4, 4, 64)});
  const fs::path folder = fs::temp_directory_path() / "hydrac-cudnn-fastest";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const DeviceBuffer scratch(std::int64_t{1} << 30);
  const auto files = [&] { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); };
  std::string engine;
  {
    CudnnAttention attention(gpu_->context.device(), folder);
    // No room to measure in: the favourite, and the next call may still find a faster one.
    EXPECT_EQ(attention.fastest_forward(p, gpu_->stream, scratch.data(), 1 << 20).engine(),
              gpu_->attention.forward(p).engine());
    EXPECT_EQ(files(), 0);
    const Plan fastest = attention.fastest_forward(p, gpu_->stream, scratch.data(), scratch.bytes());
    engine = fastest.engine();
    EXPECT_EQ(files(), 1);
    EXPECT_LE(fastest.workspace_bytes(), attention.forward(p).workspace_bytes());
    // Not worth measuring.
    EXPECT_EQ(attention.fastest_forward(small, gpu_->stream, nullptr, 0).engine(),
              attention.forward(small).engine());
  }
  std::printf("  the favourite: %s, the fastest: %s\n", gpu_->attention.forward(p).engine().c_str(),
              engine.c_str());
  CudnnAttention again(gpu_->context.device(), folder);
  EXPECT_EQ(again.fastest_forward(p, gpu_->stream, nullptr, 0).engine(), engine);
  fs::remove_all(folder);
}

TEST_F(CudnnAttentionTest, WhatCudnnCannotDoIsAnErrorThatSaysWhy) {
  const AttentionProblem p = problem({shape(2, 128, 4, 4, 264)});
  const std::string reason = *unsupported_reason(p, gpu_->context.device().capability);
  try {
    gpu_->attention.forward(p);
    FAIL() << "head_dim 264 has a plan";
  } catch (const runtime::RunError& error) {
    EXPECT_EQ(error.what(), reason);
  }
}

TEST_F(CudnnAttentionTest, AddressesOfTheWrongPassOrAlignmentAreRefused) {
  Trial trial(*gpu_, {shape(2, 128, 4, 4, 64)});
  const Layout& l = trial.places();
  const ForwardPointers pointers{trial.at(l.q), trial.at(l.k), trial.at(l.v), trial.at(l.out), trial.lse()};
  EXPECT_THROW(gpu_->attention.run(trial.backward(), pointers, trial.workspace().data(), gpu_->stream),
               std::logic_error);
  ForwardPointers shifted = pointers;
  shifted.v = trial.at(l.v + 1);
  EXPECT_THROW(gpu_->attention.run(trial.forward(), shifted, trial.workspace().data(), gpu_->stream),
               std::logic_error);
}

}  // namespace
}  // namespace hydrac::test
