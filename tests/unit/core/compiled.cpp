#include "compiled.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "../support/temp_dir.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::test {

CompiledKernels::CompiledKernels(const std::string& source) {
  const TempDir folder;
  spill(folder / "kernels.cpp", source);
  const std::string command = fmt::format(
      "{} -std=c++20 -O2 -march=native -fopenmp -ffp-contract=off -fno-math-errno -fno-trapping-math -shared "
      "-fPIC "
      "-I {}/templates -I {}/templates/include -o {} {} 2> {}",
      HYDRAC_CXX, hydrac::test::source_dir(), hydrac::test::source_dir(), (folder / "kernels.so").string(),
      (folder / "kernels.cpp").string(), (folder / "messages").string());
  if (std::system(command.c_str()) != 0) throw std::runtime_error(slurp(folder / "messages") + source);
  library_ = dlopen((folder / "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
}

CompiledKernels::~CompiledKernels() {
  if (library_) dlclose(library_);
}

Launch CompiledKernels::find(const std::string& kernel) const {
  void* symbol = dlsym(library_, (kernel + "__launch").c_str());
  if (!symbol) throw std::runtime_error("the library has no " + kernel);
  return reinterpret_cast<Launch>(symbol);
}

uint32_t word_of(ir::DType dtype, double x) {
  if (dtype == ir::DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(x));
  return static_cast<uint32_t>(static_cast<int64_t>(x));
}

namespace {

double number_of(ir::DType dtype, const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, static_cast<size_t>(size_of(dtype)));
  if (dtype == ir::DType::f32) return std::bit_cast<float>(word);
  return dtype == ir::DType::i32 ? static_cast<double>(static_cast<int32_t>(word))
                                 : static_cast<double>(word);
}

}  // namespace

KernelMemory::KernelMemory(const ir::Graph& graph, Interpreter& state, const program::Call& call, int layer)
    : graph_(graph), layer_(layer), rows_(std::get<program::Launch>(call.work).grid.blocks) {
  for (ir::Use use : call.arguments) {
    const std::vector<double>& values = state.storage(use, layer);
    auto [found, is_new] = buffers_.try_emplace(&values);
    std::vector<std::byte>& bytes = found->second.bytes;
    const ir::DType dtype = graph.value(use).dtype;
    const auto size = static_cast<size_t>(size_of(dtype));
    if (is_new) {
      found->second.use = use;
      bytes.assign(values.size() * size + 2 * kGuard, kGuardByte);
      for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t word = word_of(dtype, values[i]);
        std::memcpy(bytes.data() + kGuard + i * size, &word, size);
      }
    }
    arguments_.push_back(bytes.data() + kGuard + static_cast<size_t>(state.first_element(use, layer)) * size);
  }
}

void KernelMemory::run(Launch launch, int layer) {
  launch(arguments_.data(), layer, rows_);
}

std::vector<std::string> KernelMemory::compare(Interpreter& state) const {
  std::vector<std::string> differences;
  for (const auto& [values, buffer] : buffers_) {
    const ir::Value& value = graph_.value(buffer.use);
    if (value.name.ends_with(".workspace")) continue;
    const std::vector<double>& expected = state.storage(buffer.use, layer_);
    double square = 0;
    for (double x : expected) square += std::isfinite(x) ? x * x : 0;
    const double scale = std::sqrt(square / static_cast<double>(expected.size()));
    const auto size = static_cast<size_t>(size_of(value.dtype)), end = kGuard + expected.size() * size;
    for (size_t i = 0; i < buffer.bytes.size(); ++i) {
      if ((i < kGuard || i >= end) && buffer.bytes[i] != kGuardByte)
        differences.push_back(
            fmt::format("{}: written outside, at byte {}", value.name, static_cast<int64_t>(i - kGuard)));
      if (differences.size() > 5) return differences;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = number_of(value.dtype, buffer.bytes.data() + kGuard + i * size),
                   wanted = expected[i];
      const bool same = std::isnan(wanted)
                            ? std::isnan(found)
                            : std::abs(found - wanted) <= 1e-5 * std::abs(wanted) + 3e-6 * scale;
      if (!same) differences.push_back(fmt::format("{}[{}]: {} instead of {}", value.name, i, found, wanted));
      if (differences.size() > 5) return differences;
    }
  }
  return differences;
}

std::string KernelMemory::bytes() const {
  std::string all;
  for (const auto& [values, buffer] : buffers_) {
    all.append(reinterpret_cast<const char*>(buffer.bytes.data()), buffer.bytes.size());
  }
  return all;
}

}  // namespace hydrac::test
