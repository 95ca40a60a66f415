#include "program/call.h"

namespace hydrac::program {

bool is_collective(const Call& call) {
  return std::visit([](const auto& work) { return work.is_collective; }, call.work);
}

std::optional<runtime::RankGroup> ranks_of(const Call& call) {
  return std::visit(
      [](const auto& work) -> std::optional<runtime::RankGroup> {
        if constexpr (requires { work.ranks; }) return work.ranks;
        return std::nullopt;
      },
      call.work);
}

const GemmShape* matmul_of(const Call& call) {
  if (const auto* gemm = std::get_if<Gemm>(&call.work)) return &gemm->shape;
  const auto* launch = std::get_if<Launch>(&call.work);
  return launch && launch->matmul ? &*launch->matmul : nullptr;
}

}  // namespace hydrac::program
