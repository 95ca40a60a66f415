#include "verify/depth_margin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hydrac::verify {

namespace {

// exp(-(p (R - 1) - depth)^2) of each token.
constexpr const char* kWeight = "token.weight";

}  // namespace

std::vector<std::string> values_for_margin(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Region& region : graph.function("micro_step").regions)
    for (const ir::Node& node : region.nodes)
      if (node.op == ir::Op::recursion_depth)
        names.push_back(fmt::format("{}#{}", kWeight, node.outputs[1].value));
  return names;
}

std::optional<double> depth_margin(const runtime::SafetensorsReader& reference) {
  std::optional<double> margin;
  for (const runtime::TensorEntry& tensor : reference.tensors()) {
    if (!tensor.name.starts_with(fmt::format("act.{}#", kWeight))) continue;
    const auto bytes = reference.bytes(tensor);
    for (size_t at = 0; at < bytes.size(); at += sizeof(double)) {
      double weight = 0;
      std::memcpy(&weight, bytes.data() + at, sizeof weight);
      const double to_edge = 0.5 - std::sqrt(std::max(0.0, -std::log(weight)));
      margin = std::min(margin.value_or(to_edge), to_edge);
    }
  }
  return margin;
}

}  // namespace hydrac::verify
