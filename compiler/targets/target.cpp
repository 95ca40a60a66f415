#include "targets/target.h"

#include <array>

namespace hydrac::targets {
namespace {

#define SM(capability) "sm_" #capability
constexpr std::array kTargets = {
    Target{.name = "cpu"},
#define GPU(name, capability, sms, gib, gbs, links, fp32, tf32, fp16, bf16, fp8) \
  Target{name, SM(capability), capability, sms, gib, gbs, links, fp32, tf32, fp16, bf16, fp8},
#define ARCH(capability, sms) Target{SM(capability), SM(capability), capability, sms},
#include "targets/targets.def"
#undef GPU
#undef ARCH
};
#undef SM

}  // namespace

std::span<const Target> all() {
  return kTargets;
}

const Target* find(std::string_view name) {
  for (const Target& target : kTargets)
    if (target.name == name) return &target;
  return nullptr;
}

}  // namespace hydrac::targets
