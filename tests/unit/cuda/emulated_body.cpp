#include "emulated_body.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <set>

#include "codegen/cuda/body.h"
#include "codegen/spec_numbers.h"
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"
#include "gpu_model.h"

namespace hydrac::test {

namespace {

constexpr size_t kGuard = 256;  // bytes
constexpr auto kGuardByte = std::byte{0xFF};

void put(ir::DType dtype, std::byte* to, double x) {
  const auto copy = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (dtype) {
    case ir::DType::f32:
      return copy(static_cast<float>(x));
    case ir::DType::bf16:
      return copy(from_float<bf16>(static_cast<float>(x)));
    case ir::DType::f16:
      return copy(from_float<f16>(static_cast<float>(x)));
    case ir::DType::u8:
      return copy(static_cast<uint8_t>(x));
    case ir::DType::f8e4m3:
      return copy(from_float<f8e4m3>(static_cast<float>(x)));
    case ir::DType::f8e5m2:
      return copy(from_float<f8e5m2>(static_cast<float>(x)));
    default:
      return copy(static_cast<uint32_t>(static_cast<int64_t>(x)));
  }
}

template <typename T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double get(ir::DType dtype, const std::byte* from) {
  switch (dtype) {
    case ir::DType::f32:
      return read_as<float>(from);
    case ir::DType::bf16:
      return to_float(read_as<bf16>(from));
    case ir::DType::f16:
      return to_float(read_as<f16>(from));
    case ir::DType::i32:
      return read_as<int32_t>(from);
    case ir::DType::u8:
      return read_as<uint8_t>(from);
    case ir::DType::f8e4m3:
      return to_float(read_as<f8e4m3>(from));
    case ir::DType::f8e5m2:
      return to_float(read_as<f8e5m2>(from));
    default:
      return read_as<uint32_t>(from);
  }
}

// As emulated kernels read it (tests/unit/cuda_emulation/cuda/tensor_copy.cuh).
TensorMap map_of(const void* matrix, const program::MatrixMap& map) {
  return {{reinterpret_cast<std::uintptr_t>(matrix), static_cast<std::uint64_t>(map.columns),
           static_cast<std::uint64_t>(map.rows), static_cast<std::uint64_t>(map.box_columns),
           static_cast<std::uint64_t>(map.box_rows)}};
}

}  // namespace

std::string kernel_name(const std::string& name, size_t kernel) {
  return fmt::format("{}_{}", name, kernel);
}

std::string cuda_source_of(const ir::Graph& graph,
                           const std::vector<std::pair<std::string, codegen::CudaKernels>>& all,
                           const targets::Target& gpu) {
  std::string includes;
  for (const char* header : {"cuda/previous_kernel.cuh", "cuda/reduce.cuh", "cuda/vector.cuh",
                             "hydrac/dynamic_code.h", "hydrac/math.h", "hydrac/nf4.h", "hydrac/random.h",
                             "cuda/matmul/matmul.cuh", "cuda/matmul/weight_gradients.cuh"})
    includes += fmt::format("#include \"{}\"\n", header);
  std::set<std::string> own;
  for (const auto& [name, kernels] : all)
    for (const codegen::CudaKernel& kernel : kernels.kernels) own.insert(kernel.header);
  own.erase("");
  for (const std::string& header : own) includes += fmt::format("#include \"{}\"\n", header);
  std::string source;
  for (const auto& [name, kernels] : all) {
    for (size_t k = 0; k < kernels.kernels.size(); ++k) {
      const std::string text = to_text(kernels.kernels[k].text, kernel_name(name, k));
      source += program::definition_text({.comment = kernels.kernels[k].comment, .text = text});
      const codegen::CudaLaunch& launch = kernels.kernels[k].launch;
      // What an emitted launch says.
      source += fmt::format(
          "static_assert([] {{\n  using namespace {}_sizes;\n  return {} == {} && kThreads == "
          "{}{};\n}}());\n",
          kernel_name(name, k), launch.grid_text.text, launch.grid, launch.block,
          launch.shared_bytes > 0 ? fmt::format(" && kSharedBytes == {}", launch.shared_bytes) : "");
      const std::string rows = launch.rows.empty() ? "0" : launch.rows.text;
      for (const std::string& bound : launch.bounds)
        source += fmt::format(
            "static_assert([](std::int64_t rows) {{\n  using namespace {}_sizes;\n"
            "  [[maybe_unused]] constexpr std::int64_t {} = {};\n  return {};\n}}({}));\n",
            kernel_name(name, k), codegen::kWorkspaceBytes, kernels.workspace_bytes, bound, rows);
      if (!launch.rows.empty())
        source += fmt::format(
            "static_assert([](std::int64_t rows) {{\n  using namespace {}_sizes;\n  return {};\n}}({}) == "
            "{});\n",
            kernel_name(name, k), launch.grid_of_rows.text, launch.rows.text, launch.grid);
    }
  }
  const std::vector<program::Dimension> dimensions = codegen::cuda_dimensions(graph, gpu);
  codegen::Names symbols;
  for (const program::Dimension& dimension : dimensions) symbols.insert(dimension.symbol);
  const std::vector<ir::SpecNumber> numbers = codegen::SpecNumbers(graph).all();
  for (const ir::SpecNumber& number : numbers) symbols.insert("hyper::" + number.name);
  const std::string constants =
      codegen::dimension_constants(dimensions, symbols) + codegen::number_constants(numbers, symbols);
  std::string names;  // the emulator finds kernels outside of namespaces
  for (const auto& [name, kernels] : all) {
    for (size_t k = 0; k < kernels.kernels.size(); ++k)
      names += fmt::format("using hydrac::{};\n", kernel_name(name, k));
  }
  return fmt::format("{}namespace hydrac {{\n\n{}{}\n}}  // namespace hydrac\n{}", includes, constants,
                     source, names);
}

BodyMemory::BodyMemory(const ir::Graph& graph, Interpreter& state, const codegen::CudaKernels& kernels,
                       int layer)
    : graph_(graph), kernels_(kernels), layer_(layer) {
  for (const codegen::CudaKernel& kernel : kernels.kernels) {
    for (ir::Use use : kernel.arguments) buffer_of(use, state);
  }
  for (const codegen::CudaKernel& kernel : kernels.kernels) {
    std::vector<void*>& tensors = tensors_.emplace_back();
    for (ir::Use use : kernel.arguments) {
      const int64_t first = state.first_element(use, layer) * size_of(graph.value(use).dtype);
      tensors.push_back(buffer_of(use, state).bytes.data() + kGuard + first);
    }
  }
  workspace_.assign(kernels.workspace_bytes + kGuard, kGuardByte);
}

BodyMemory::Buffer& BodyMemory::buffer_of(ir::Use use, Interpreter& state) {
  const std::vector<double>& values = state.storage(use, layer_);
  auto [found, is_new] = buffers_.try_emplace(&values);
  if (is_new) {
    const ir::DType dtype = graph_.value(use).dtype;
    const int64_t size = size_of(dtype);
    found->second.use = use;
    found->second.bytes.assign(values.size() * size + 2 * kGuard, kGuardByte);
    for (size_t i = 0; i < values.size(); ++i)
      put(dtype, found->second.bytes.data() + kGuard + i * size, values[i]);
  }
  return found->second;
}

void BodyMemory::run(emulation::EmulatedKernels& compiled, const std::string& name) {
  std::vector<std::span<std::byte>> memory{workspace_};
  for (auto& [values, buffer] : buffers_) memory.emplace_back(buffer.bytes);
  for (size_t k = 0; k < kernels_.kernels.size(); ++k) {
    const codegen::CudaKernel& kernel = kernels_.kernels[k];
    std::vector<void*> arguments;
    std::vector<TensorMap> maps(kernel.maps.size());
    for (size_t i = 0; i < tensors_[k].size(); ++i) {
      arguments.push_back(i < maps.size() ? static_cast<void*>(&maps[i]) : &tensors_[k][i]);
      if (i < maps.size()) maps[i] = map_of(tensors_[k][i], kernel.maps[i]);
    }
    void* workspace = workspace_.data();
    if (kernel.takes_workspace) arguments.push_back(&workspace);
    if (kernel.takes_layer) arguments.push_back(&layer_);
    emulation::Geometry geometry;
    geometry.grid.x = static_cast<unsigned>(kernel.launch.grid);
    geometry.block.x = static_cast<unsigned>(kernel.launch.block);
    geometry.shared_bytes = static_cast<size_t>(kernel.launch.shared_bytes);
    compiled.launch_both_orders(kernel_name(name, k), geometry, arguments, memory);
  }
}

std::vector<std::string> BodyMemory::compare(Interpreter& state, double relative, double of_scale) const {
  std::vector<std::string> differences;
  for (size_t i = workspace_.size() - kGuard; i < workspace_.size(); ++i) {
    if (workspace_[i] != kGuardByte)
      differences.push_back(fmt::format("workspace: written outside, at {}", i));
  }
  for (const auto& [values, buffer] : buffers_) {
    const ir::Value& value = graph_.value(buffer.use);
    const std::vector<double>& expected = state.storage(buffer.use, layer_);
    const size_t size = size_of(value.dtype), end = kGuard + expected.size() * size;
    for (size_t i = 0; i < buffer.bytes.size(); ++i) {
      if ((i < kGuard || i >= end) && buffer.bytes[i] != kGuardByte)
        differences.push_back(fmt::format("{}: written outside, at byte {}", value.name,
                                          static_cast<int64_t>(i) - static_cast<int64_t>(kGuard)));
    }
    double square = 0;
    for (double x : expected) square += std::isfinite(x) ? x * x : 0;
    const double scale = std::sqrt(square / static_cast<double>(expected.size()));
    for (size_t i = 0; i < expected.size() && differences.size() < 6; ++i) {
      const double found = get(value.dtype, buffer.bytes.data() + kGuard + i * size);
      const bool same = std::isnan(expected[i]) ? std::isnan(found)
                                                : std::abs(found - expected[i]) <=
                                                      relative * std::abs(expected[i]) + of_scale * scale;
      if (!same)
        differences.push_back(fmt::format("{}[{}]: {} instead of {}", value.name, i, found, expected[i]));
    }
  }
  return differences;
}

}  // namespace hydrac::test
