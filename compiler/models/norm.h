// The norms of a model: model.norm, at the places that model.norm_placement names.
#pragma once
#include "models/component.h"

namespace hydrac::models {

struct NormParameters {
  ValueId weight = ir::kNoValue, bias = ir::kNoValue;  // [C]
  bool exists() const { return weight != ir::kNoValue; }
};

struct Norms {
  // x N+1: slot l is in front of layer l, slot N behind the last one. One value, so that a loop may end with
  // the next layer's (passes::rotate_norms).
  NormParameters stream;
  NormParameters mlp;                      // of its input, where that is not attention's
  NormParameters attn_output, mlp_output;  // of what the branches add to the stream
  NormParameters last;                     // of the stream behind the last layer, where layers have none
};
Norms declare_norms(Declarer&, const spec::Model&);
// The start of norms' weights: with model.norm_offset it is 1.
ir::Init norm_start(const spec::Model&);

// `slot`: of the norm's parameters.
Use norm(ops::RegionBuilder&, const Build&, Use x, ir::Slot slot, const NormParameters&,
         const std::string& name);

}  // namespace hydrac::models
