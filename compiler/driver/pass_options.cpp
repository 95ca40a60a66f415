#include "driver/pass_options.h"

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "spec/batch.h"
#include "targets/target.h"

namespace hydrac::driver {

passes::HeadParts head_parts(const spec::Spec& spec) {
  const bool cpu = targets::find(spec.target)->is_cpu();
  passes::HeadParts parts{(cpu ? 32LL : 512LL) << 20, cpu ? 256 : 1024};
  if (spec.optimizations.loss == spec::LossKernel::chunked) parts.logit_bytes *= 4;
  return parts;
}

passes::Precision precision_of(const spec::Spec& spec) {
  if (targets::find(spec.target)->is_cpu()) return {ir::DType::f32};
  switch (spec.optimizations.precision) {
    case spec::Precision::bf16:
    case spec::Precision::fp8:
      return {ir::DType::bf16};
    case spec::Precision::fp16:
      return {ir::DType::f16};
    default:
      return {ir::DType::f32};
  }
}

bool fuses_matmuls(const spec::Spec& spec) {
  const auto& o = spec.optimizations;
  return targets::find(spec.target)->capability == 90 &&
         (o.fused_matmuls != spec::FusedMatmuls::none || !o.own_matmuls.empty());
}

passes::FusedMatmuls matmul_fusion(const spec::Spec& spec, const passes::RecomputeChoice& recompute,
                                   bool only_decode) {
  static const std::vector<std::string> kAll = {"*"};
  const auto& o = spec.optimizations;
  // A layer whose norms are computed again, from sums that are too, has them in kernels of their own.
  const int again = !recompute.block       ? 0
                    : recompute.layers > 0 ? spec::iterations_of(spec, recompute.layers)
                                           : INT_MAX;
  return {.chip = targets::find(spec.target)->chip(),
          .wherever_possible = o.fused_matmuls == spec::FusedMatmuls::all,
          .sums_rows_from = again,
          .only_decode = only_decode,
          .own = o.own_matmuls,
          .library = o.fused_matmuls == spec::FusedMatmuls::none ? kAll : o.library_matmuls};
}

passes::Fp8 fp8_options(const spec::Spec& spec) {
  const targets::Target& target = *targets::find(spec.target);
  const auto named = std::ranges::find_if(targets::all(), [&](const targets::Target& other) {
    return other.capability == target.capability && other.fp8_tflops > 0;
  });
  const targets::Target& rates = target.fp8_tflops > 0 ? target : *named;
  return {.all = spec.optimizations.fp8_matmuls == spec::Fp8Matmuls::all,
          .head = spec.optimizations.fp8_head,
          .attention = spec.optimizations.fp8_attention,
          .fuses_matmuls = fuses_matmuls(spec),
          .tokens = static_cast<double>(spec.train.micro_batch_size * spec.train.sequence_len *
                                        spec::micro_batches_of_step(spec)),
          .flops_of_16_bits = 0.7e12 * rates.bf16_tflops,
          .flops_of_8_bits = 0.6e12 * rates.fp8_tflops,
          .bytes_per_second = 0.85e9 * rates.bandwidth_gbs,
          .ranks = spec.parallel.data};
}

}  // namespace hydrac::driver
