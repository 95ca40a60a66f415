// NVRTC and its cache: code, tables, messages. Needs NVRTC but no GPU.
#include "targets/device_code/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/error.h"
#include "tests/unit/support/needs_nvrtc.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::device_code {
namespace {

class Nvrtc : public test::NeedsNvrtc {};

CompileRequest scale_request() {
  CompileRequest request;
  request.source =
      "#include \"lib/scale.h\"\n"
      "extern \"C\" __global__ void scale(float* x, int n) {\n"
      "  __shared__ float part[64];\n"
      "  part[threadIdx.x] = x[threadIdx.x];\n"
      "  __syncthreads();\n"
      "  if (threadIdx.x < n) x[threadIdx.x] = scaled(part[63 - threadIdx.x]);\n"
      "}\n";
  request.headers = {{"lib/scale.h", "__device__ inline float scaled(float x) { return x * FACTOR; }\n"}};
  request.options = {"-DFACTOR=3.0f"};
  request.capability = 90;
  return request;
}

std::string error_of(const CompileRequest& request) {
  try {
    compile(request);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Nvrtc, CompilesForEveryArchitectureThatHydracGeneratesCodeFor) {
  const std::vector<int> known = nvrtc_capabilities();
  for (int capability : {75, 80, 86, 89, 90, 100, 120}) {
    if (!std::binary_search(known.begin(), known.end(), capability)) continue;  // sm_100 came with NVRTC 12.8
    CompileRequest request = scale_request();
    request.capability = capability;
    const DeviceCode code = compile(request);
    EXPECT_EQ(code.architecture, architecture(capability));
    EXPECT_EQ(code.image.substr(0, 4),
              "\x7f"
              "ELF")
        << capability;
    ASSERT_EQ(code.kernels.size(), 1u) << capability;
    EXPECT_EQ(code.kernels[0].kernel, "scale");
    EXPECT_GT(code.kernels[0].registers, 0);
    EXPECT_GE(code.kernels[0].shared_bytes, 256);  // sm_90 and newer add some of the system's
    EXPECT_EQ(code.kernels[0].spill_store_bytes, 0);
    EXPECT_EQ(code.log, "");
    EXPECT_FALSE(code.from_cache);
  }
}

TEST_F(Nvrtc, ArchitecturesAreNamedAsNvrtcTakesThem) {
  EXPECT_EQ(architecture(90), "sm_90a");  // wgmma and bulk copies exist in this one only
  EXPECT_EQ(architecture(75), "sm_75");
  EXPECT_EQ(architecture(120), "sm_120");
  EXPECT_EQ(architecture(90, CodeKind::ptx), "compute_90");
}

TEST_F(Nvrtc, KernelsThatSpillAreSeenInTheTable) {
  CompileRequest request;
  request.capability = 80;
  request.source =
      "extern \"C\" __global__ void __launch_bounds__(1024, 2) crowded(const float* x, float* y) {\n"
      "  float v[96];\n"
      "  for (int i = 0; i < 96; ++i) v[i] = x[threadIdx.x + i * 1024];\n"
      "  __syncthreads();\n"
      "  for (int i = 0; i < 96; ++i) y[threadIdx.x + i * 1024] = v[i] * v[95 - i];\n"
      "}\n";
  const DeviceCode code = compile(request);
  ASSERT_EQ(code.kernels.size(), 1u);
  EXPECT_LE(code.kernels[0].registers, 32);
  EXPECT_GT(code.kernels[0].spill_store_bytes, 0);
  EXPECT_GT(code.kernels[0].spill_load_bytes, 0);
}

TEST_F(Nvrtc, AnErrorNamesTheFileTheLineAndTheArchitecture) {
  CompileRequest request;
  request.name = "gelu.cu";
  request.capability = 80;
  request.source = "extern \"C\" __global__ void gelu(float* x) {\n  x[0] = nonsense;\n}\n";
  const std::string message = error_of(request);
  EXPECT_TRUE(
      message.starts_with("gelu.cu does not compile for sm_80 (NVRTC_ERROR_COMPILATION):\n"
                          "gelu.cu(2): error: identifier \"nonsense\" is undefined\n"
                          "    x[0] = nonsense;\n"))
      << message;
}

TEST_F(Nvrtc, AMissingHeaderIsNamed) {
  CompileRequest request = scale_request();
  request.headers.clear();
  EXPECT_NE(
      error_of(request).find("kernels.cu(1): catastrophic error: cannot open source file \"lib/scale.h\""),
      std::string::npos)
      << error_of(request);
}

TEST_F(Nvrtc, AnUnknownCapabilityIsAnErrorThatListsTheKnownOnes) {
  CompileRequest request = scale_request();
  request.capability = 35;
  const std::string message = error_of(request);
  EXPECT_TRUE(message.starts_with("NVRTC " + nvrtc_version() +
                                  " makes no code for compute capability 3.5: it knows "))
      << message;
  EXPECT_TRUE(message.ends_with(". Install an older CUDA toolkit.")) << message;
}

TEST_F(Nvrtc, PtxIsTextForTheArchitectureAndNewerOnes) {
  CompileRequest request = scale_request();
  request.capability = 75;
  request.kind = CodeKind::ptx;
  const DeviceCode code = compile(request);
  EXPECT_NE(code.image.find(".target sm_75"), std::string::npos);
  EXPECT_NE(code.image.find(".entry scale("), std::string::npos);
  EXPECT_TRUE(code.kernels.empty());
}

TEST_F(Nvrtc, TheCacheGivesTheSameCodeTableAndLog) {
  const test::TempDir folder;
  CompileRequest request = scale_request();
  request.source += "__global__ void unused() { int x; }\n";  // a warning
  const DeviceCode first = compile_cached(request, folder / "cache");
  const DeviceCode second = compile_cached(request, folder / "cache");
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.image, second.image);
  EXPECT_EQ(first.kernels, second.kernels);
  EXPECT_EQ(first.architecture, second.architecture);
  EXPECT_NE(first.log.find("warning"), std::string::npos);
  EXPECT_EQ(first.log, second.log);
}

TEST_F(Nvrtc, WhateverTheCodeDependsOnMakesAnotherEntry) {
  const test::TempDir folder;
  const CompileRequest request = scale_request();
  compile_cached(request, folder.path());
  std::vector<CompileRequest> others(5, request);
  others[0].source += "\n";
  others[1].headers[0].second += "\n";
  others[2].options[0] = "-DFACTOR=4.0f";
  others[3].capability = 80;
  others[4].kind = CodeKind::ptx;
  for (const CompileRequest& other : others) EXPECT_FALSE(compile_cached(other, folder.path()).from_cache);
  EXPECT_TRUE(compile_cached(request, folder.path()).from_cache);
}

TEST_F(Nvrtc, ADamagedEntryIsMadeAnew) {
  const test::TempDir folder;
  const CompileRequest request = scale_request();
  const DeviceCode first = compile_cached(request, folder.path());
  for (const std::string extension : {".cubin", ".txt"}) {
    int damaged = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().extension() != extension) continue;
      std::string content = test::slurp(entry.path());
      content[content.size() / 2] ^= 1;
      std::ofstream(entry.path(), std::ios::binary) << content;
      ++damaged;
    }
    EXPECT_EQ(damaged, 1);
    testing::internal::CaptureStderr();
    const DeviceCode again = compile_cached(request, folder.path());
    EXPECT_NE(testing::internal::GetCapturedStderr().find(extension + ": does not match its checksum"),
              std::string::npos);
    EXPECT_FALSE(again.from_cache);
    EXPECT_EQ(first.image, again.image);
    EXPECT_EQ(first.kernels, again.kernels);
    EXPECT_TRUE(compile_cached(request, folder.path()).from_cache);
  }
}

TEST_F(Nvrtc, ACacheFolderThatCannotBeWrittenIsDoneWithout) {
  const test::TempDir folder;
  std::ofstream(folder / "file") << "x";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(compile_cached(scale_request(), folder / "file").image.empty());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("warning: the cache folder " +
                                                        (folder / "file").string() + " cannot be written"),
            std::string::npos);
}

TEST_F(Nvrtc, SeveralThreadsCompileAtOnce) {
  const test::TempDir folder;
  constexpr int count = 4;
  DeviceCode codes[count];
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      CompileRequest request = scale_request();
      request.options = {"-DFACTOR=" + std::to_string(i % 2 + 2) + ".0f"};
      codes[i] = compile_cached(request, folder.path());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(codes[0].image, codes[2].image);
  EXPECT_EQ(codes[1].image, codes[3].image);
  EXPECT_NE(codes[0].image, codes[1].image);
}

}  // namespace
}  // namespace hydrac::device_code
