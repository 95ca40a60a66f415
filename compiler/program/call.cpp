#include "program/call.h"

namespace hydrac::program {

bool is(const Call& call, runtime::Collective::Kind kind) {
  const auto* collective = std::get_if<Collective>(&call.work);
  return collective && collective->kind == kind;
}

bool is_collective(const Call& call) {
  return is<Collective>(call) && !is(call, Collective::own_part);
}

std::optional<runtime::RankGroup> ranks_of(const Call& call) {
  const auto* collective = std::get_if<Collective>(&call.work);
  return collective ? std::optional(collective->group) : std::nullopt;
}

const GemmShape* matmul_of(const Call& call) {
  if (const auto* gemm = std::get_if<Gemm>(&call.work)) return &gemm->shape;
  const auto* launch = std::get_if<Launch>(&call.work);
  return launch && launch->matmul ? &*launch->matmul : nullptr;
}

}  // namespace hydrac::program
