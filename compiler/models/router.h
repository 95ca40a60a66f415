// The router of a layer that computes some tokens of a sequence (model.mod).
#pragma once
#include "models/component.h"

namespace hydrac::models {

// Routed layers alone have them.
struct RouterParameters {
  ValueId weight = ir::kNoValue;                                           // [C]
  ValueId predictor_weight = ir::kNoValue, predictor_bias = ir::kNoValue;  // [C], [1]
};
RouterParameters declare_router(Declarer&, const spec::Model&);

struct Route {
  ops::TokenChoice choice;
  Use score;            // f32 [B,K]: of the chosen tokens
  Use positions;        // i32 [B,K]: of these in their sequences
  Use places_in_cache;  // i32 [S,1], in "decode": where the layer's cache has the new token, if it is chosen
};

// Of the stream x [B,T,C] the tokens that the layer computes: those with the highest scores, of x . w.
// Functions that generate, where a choice must not depend on later tokens, have all that the predictor says
// are chosen, and K = T.
Route route_tokens(ops::RegionBuilder&, const Build&, Use x);
// Their rows [B,K,C], in x's type.
Use taken(ops::RegionBuilder&, Use x, const ops::TokenChoice&, const std::string& name);

}  // namespace hydrac::models
