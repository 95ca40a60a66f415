// Options of the passes, from a spec and its target.
#pragma once
#include "passes/passes.h"
#include "spec/spec.h"

namespace hydrac::driver {

// `loss: fused_linear` takes the smallest parts of the head whose matmuls are still near their best, because
// the weight's gradient is read and written once a part. `chunked` takes four times the memory for a quarter
// of that traffic. On a cpu a part's logits stay in the caches.
passes::HeadParts head_parts(const spec::Spec& spec);

// The cpu computes in f32: a spec that asks it for something else was refused.
passes::Precision precision_of(const spec::Spec& spec);

// True if matmuls may be our kernels, which are Hopper's; of 16-bit numbers, which the pass looks at itself.
bool fuses_matmuls(const spec::Spec& spec);

// A recomputed norm with its statistics may become another kernel than the first one did. `only_decode`: for
// a program that generates.
passes::FusedMatmuls matmul_fusion(const spec::Spec& spec, const passes::RecomputeChoice& recompute,
                                   bool only_decode);

// Rates that libraries reach on an H200, as shares of the peak. An architecture without a name takes those of
// its first GPU with a name.
passes::Fp8 fp8_options(const spec::Spec& spec);

}  // namespace hydrac::driver
