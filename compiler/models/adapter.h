// Low-rank adapters (LoRA, arXiv 2106.09685): y = W x + scale * B A x with A [r, in], B [out, r] and W
// frozen. They are found by the names that matrices have in checkpoints, so that no block of the model
// declares any.
#pragma once
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "ir/graph.h"
#include "spec/spec.h"

namespace hydrac::models {

// The adapters of one matrix of a block, which may be several linear layers' (queries, keys, values).
struct Adapter {
  ir::ValueId a = ir::kNoValue;       // [n*r, in]: those of its n targets, one below the other
  ir::ValueId b = ir::kNoValue;       // [out, r]; rows that are no target's stay 0
  std::vector<ir::RowRange> targets;  // their rows of the matrix
  int64_t site = 0;                   // of the dropout of what A reads
};

inline bool has_adapters(const spec::SpecKeys& spec) {
  return spec.adapter.type != spec::AdapterType::none;
}

// Whether the model's matrices are kept as 4-bit codes.
inline bool has_nf4_base(const spec::SpecKeys& spec) {
  return has_adapters(spec) && spec.adapter.base == spec::AdapterBase::nf4;
}

// Whether adapter.target_modules names the module ("model.layers.{}.self_attn.q_proj"), as PEFT reads it: by
// its whole name, or by what follows a dot of it; or in every layer, by names with the layers' numbers.
bool adapts(const spec::SpecKeys& spec, const std::string& module);

// adapter.target_modules with words for "all-linear": [q_proj, k_proj, ...].
std::vector<std::string> target_modules(const spec::Spec& spec);

// What B A x is multiplied by: alpha / r, with rslora alpha / sqrt(r).
double adapter_scale(const spec::SpecKeys& spec);

// Reports names of adapter.target_modules that no linear layer of a block has, and matrices that adapter.base
// cannot keep.
void check_adapter(const spec::Spec& spec, diag::Diagnostics& diagnostics);

}  // namespace hydrac::models
