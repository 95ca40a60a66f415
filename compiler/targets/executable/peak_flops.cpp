#include "targets/executable/peak_flops.h"

#include "targets/target.h"

namespace hydrac::targets {

double peak_flops(const spec::Spec& spec) {
  const Target& target = *find(spec.target);
  switch (spec.optimizations.precision) {
    case spec::Precision::fp32:
      return target.fp32_tflops * 1e12;
    case spec::Precision::tf32:
      return target.tf32_tflops * 1e12;
    case spec::Precision::bf16:
      return target.bf16_tflops * 1e12;
    case spec::Precision::fp16:
      return target.fp16_tflops * 1e12;
    case spec::Precision::fp8:
      return target.fp8_tflops * 1e12;
  }
  return 0;
}

}  // namespace hydrac::targets
