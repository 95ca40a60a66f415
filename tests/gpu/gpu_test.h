// What every test on the GPU starts with: a context, a stream, and a loud skip where there is no GPU.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"
#include "runtime/error.h"
#include "targets/device_code/nvrtc.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::test {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      context = std::make_unique<runtime::cuda::Context>(0);
      stream = std::make_unique<runtime::cuda::Stream>();
    } catch (const runtime::InputError& error) {
      std::fprintf(stderr, "SKIPPED, no GPU: %s\n", error.what());
      GTEST_SKIP() << error.what();
    }
  }

  int capability() const { return context->device().capability; }

  template <class T>
  runtime::cuda::DeviceBuffer on_device(const std::vector<T>& values) const {
    runtime::cuda::DeviceBuffer buffer(static_cast<std::int64_t>(values.size() * sizeof(T)));
    runtime::cuda::copy_to_device(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }

  // What is there when the stream is done.
  template <class T>
  std::vector<T> on_host(const runtime::cuda::DeviceBuffer& buffer) const {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    stream->synchronize();
    runtime::cuda::copy_to_host(values.data(), buffer.data(), buffer.bytes());
    return values;
  }

  device_code::DeviceCode compiled(const std::string& source) const {
    device_code::CompileRequest request;
    request.source = source;
    request.capability = capability();
    return device_code::compile(request);
  }

  std::unique_ptr<runtime::cuda::Context> context;
  std::unique_ptr<runtime::cuda::Stream> stream;
};

}  // namespace hydrac::test
