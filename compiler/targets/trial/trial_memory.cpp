#include "targets/trial/trial_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hydrac/random.h"
#include "runtime/error.h"

namespace hydrac::targets {

namespace {

constexpr size_t kRoom = 1 << 16;  // before and behind a tensor, for a kernel that reaches outside

template <typename T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double get(ir::DType dtype, const std::byte* from) {
  if (dtype == ir::DType::f32) return read_as<float>(from);
  if (dtype == ir::DType::u8) return read_as<uint8_t>(from);
  return dtype == ir::DType::i32 ? read_as<int32_t>(from) : read_as<uint32_t>(from);
}

void put(ir::DType dtype, std::byte* to, double x) {
  const auto copy = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  if (dtype == ir::DType::f32) return copy(static_cast<float>(x));
  if (dtype == ir::DType::u8) return copy(static_cast<uint8_t>(x));
  return copy(static_cast<uint32_t>(static_cast<int64_t>(x)));
}

// The number as memory of that type holds it: -1 in uint32 is the largest one.
double as_held(ir::DType dtype, double x) {
  std::byte held[4] = {};
  put(dtype, held, x);
  return get(dtype, held);
}

// An operand that a fusion left without a use has no tensor.
ir::Use use_of(const ir::Node& node, const ir::Operand& operand) {
  if (operand.output >= 0) return node.outputs.at(static_cast<size_t>(operand.output));
  return operand.input >= 0 ? node.inputs.at(static_cast<size_t>(operand.input)) : ir::Use{};
}

int64_t elements_reached(const ir::Shape& shape, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d].size - 1) * strides[d];
  return last + 1;
}

}  // namespace

TrialMemory::Pages::Pages(int64_t bytes) : bytes_(static_cast<size_t>(bytes) + 2 * kRoom) {
  all_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all_ == MAP_FAILED) throw runtime::RunError("there is no memory to try the compiled kernels on");
}

TrialMemory::Pages::~Pages() {
  ::munmap(all_, bytes_);
}

std::byte* TrialMemory::Pages::first() const {
  return static_cast<std::byte*>(all_) + kRoom;
}

bool TrialMemory::Pages::have(double byte) const {
  const double at = byte + kRoom;
  return at >= 0 && at < static_cast<double>(bytes_);
}

TrialMemory::TrialMemory(const ir::Graph& graph, const Trial& trial, Numbers numbers, uint32_t seed)
    : body_(*trial.node->body), numbers_(numbers), seed_(seed) {
  for (const ir::Operand& operand : body_.operands) {
    const ir::Use use = use_of(*trial.node, operand);
    strides_.push_back(use.value == ir::kNoValue ? std::vector<int64_t>(operand.shape.size())
                                                 : resolved_view(graph, use.value).strides);
    tensors_.push_back({.dtype = operand.dtype,
                        .name = use.value == ir::kNoValue ? "" : graph.value(use).name,
                        .pages = nullptr,
                        .results = {}});
  }
  for (const ir::Use use : trial.call->arguments) {
    const ir::Value& value = graph.value(use);
    pages_.push_back(std::make_unique<Pages>(
        elements_reached(value.shape, resolved_view(graph, use.value).strides) * size_of(value.dtype)));
    arguments_.push_back(pages_.back()->first());
    for (size_t o = 0; o < tensors_.size(); ++o) {
      if (use_of(*trial.node, body_.operands[o]) == use) tensors_[o].pages = pages_.back().get();
    }
  }
}

double TrialMemory::number(int operand, int64_t offset) const {
  const auto key = static_cast<uint32_t>(operand) + 64 * seed_;
  const uint32_t bits = philox2x32(static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), key).x;
  switch (tensors_[static_cast<size_t>(operand)].dtype) {
    case ir::DType::f32:
      return numbers_ == Numbers::both_signs ? (bits >> 8) * 0x1p-23 - 1 : 0.25 + (bits >> 8) * 0x1p-24;
    case ir::DType::u8:
      return bits & 255;
    default:
      if (numbers_ == Numbers::ascending) return static_cast<double>(offset);
      return bits & 1;  // an index: most tensors have two of what it counts
  }
}

double TrialMemory::load(int operand, int64_t offset) {
  const Tensor& tensor = tensors_[static_cast<size_t>(operand)];
  std::byte* place = tensor.pages->first() + offset * size_of(tensor.dtype);
  put(tensor.dtype, place, number(operand, offset));
  return get(tensor.dtype, place);
}

double TrialMemory::load_outside(int operand, double offset) {
  const Tensor& tensor = tensors_[static_cast<size_t>(operand)];
  is_readable_ &= tensor.pages->have(offset * static_cast<double>(size_of(tensor.dtype)));
  return RowMemory::load_outside(operand, offset);
}

double& TrialMemory::result(int operand, int64_t offset) {
  const auto [found, is_new] = tensors_[static_cast<size_t>(operand)].results.try_emplace(offset, 0);
  if (is_new) found->second = load(operand, offset);
  return found->second;
}

bool TrialMemory::expects_only_finite() const {
  return std::ranges::all_of(tensors_, [](const Tensor& tensor) {
    return std::ranges::all_of(tensor.results,
                               [](const auto& result) { return std::isfinite(result.second); });
  });
}

// A share of the tensor's root mean square. A number that is rounded to few bits may round the other way.
double TrialMemory::tolerance(const Tensor& tensor) const {
  const bool rounds = std::ranges::any_of(body_.exprs, [](const ir::Expr& expr) {
    return expr.op == ir::ExprOp::round_to || expr.op == ir::ExprOp::round_stochastically;
  });
  double square = 0;
  for (const auto& [offset, x] : tensor.results) square += std::isfinite(x) ? x * x : 0;
  const double scale = std::sqrt(square / static_cast<double>(tensor.results.size()));
  return (rounds ? 2e-2 : 1e-3) * scale;
}

std::string TrialMemory::difference() const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.results.empty()) continue;
    // A code may be the next one.
    const bool is_float = tensor.dtype == ir::DType::f32;
    const double all = is_float ? tolerance(tensor) : tensor.dtype == ir::DType::u8 ? 1 : 0;
    for (const auto& [offset, wanted] : tensor.results) {
      const double found = get(tensor.dtype, tensor.pages->first() + offset * size_of(tensor.dtype));
      const double expected = is_float ? wanted : as_held(tensor.dtype, wanted);
      // A NaN means that the invented inputs are impossible in a run, such as a class beyond the last, so any
      // result is right.
      const double bound = all + 1e-3 * std::abs(expected) * is_float;
      const bool is_right = std::isnan(expected) ||
                            (std::isinf(expected) ? found == expected : std::abs(found - expected) <= bound);
      if (!is_right)
        return fmt::format("{}[{}] is {:.6g} instead of {:.6g}", tensor.name, offset, found, expected);
    }
  }
  return "";
}

}  // namespace hydrac::targets
