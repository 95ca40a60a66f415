#include "targets/trial/trials.h"

#include <algorithm>
#include <set>

#include "ir/evaluate_rows.h"

namespace hydrac::targets {

namespace {

// Rows enough for their edges to show, few enough for the time that it may take.
constexpr int64_t kMostRows = 3, kEnough = 100'000, kMost = 3'000'000;  // expressions

bool has_known_types(const ir::Body& body) {
  return std::ranges::all_of(body.operands, [](const ir::Operand& operand) {
    return operand.dtype == ir::DType::f32 || operand.dtype == ir::DType::i32 ||
           operand.dtype == ir::DType::u32 || operand.dtype == ir::DType::u8;
  });
}

// 0: too many.
int64_t rows_of(const ir::Body& body, bool takes_rows) {
  const int64_t cost = row_cost(body), all = body.row_count();
  const int64_t rows = takes_rows ? std::min(all, std::clamp<int64_t>(kEnough / cost, 1, kMostRows)) : all;
  return rows <= kMost / cost ? rows : 0;
}

}  // namespace

Trials trials_of(const ir::Graph& graph, const program::Program& program) {
  Trials all;
  std::set<int> seen;
  for (size_t f = 0; f < program.functions.size(); ++f) {
    for (size_t s = 0; s < program.functions[f].sections.size(); ++s) {
      const std::vector<program::Call>& calls = program.functions[f].sections[s].calls;
      for (size_t c = 0; c < calls.size(); ++c) {
        const auto* launch = std::get_if<program::Launch>(&calls[c].work);
        if (!launch || !seen.insert(launch->kernel).second) continue;
        const program::Kernel& kernel = program.kernels[static_cast<size_t>(launch->kernel)];
        const ir::Node& node = graph.functions[f].regions[s].nodes[c];
        const int64_t rows =
            node.body && has_known_types(*node.body) ? rows_of(*node.body, kernel.takes_rows) : 0;
        if (rows > 0)
          all.trials.push_back({launch->kernel, &node, &calls[c], rows});
        else
          all.untried.push_back(kernel.name);
      }
    }
  }
  return all;
}

}  // namespace hydrac::targets
