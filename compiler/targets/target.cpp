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
#define OTHER_GPU(name, capability)
#include "targets/targets.def"
#undef GPU
#undef ARCH
#undef OTHER_GPU
};
#undef SM

constexpr auto kOtherGpus = std::to_array<OtherGpu>({
#define GPU(name, capability, sms, gib, gbs, links, fp32, tf32, fp16, bf16, fp8)
#define ARCH(capability, sms)
#define OTHER_GPU(name, capability) {name, capability},
#include "targets/targets.def"
#undef GPU
#undef ARCH
#undef OTHER_GPU
});

}  // namespace

std::span<const Target> all() {
  return kTargets;
}

const Target* find(std::string_view name) {
  for (const Target& target : kTargets)
    if (target.name == name) return &target;
  return nullptr;
}

std::span<const OtherGpu> other_gpus() {
  return kOtherGpus;
}

}  // namespace hydrac::targets
