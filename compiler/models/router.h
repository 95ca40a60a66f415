// The router of a layer that computes some tokens of a sequence (model.mod).
#pragma once
#include "models/blocks.h"

namespace hydrac::models {

struct Route {
  ops::TokenChoice choice;
  Use score;  // f32 [B,K]: of the chosen tokens
};

// Of the stream x [B,T,C] the tokens that the layer computes: those with the highest scores, of x . w.
Route route_tokens(ops::RegionBuilder&, const Build&, Use x);
// Their rows [B,K,C], in x's type.
Use taken(ops::RegionBuilder&, Use x, const ops::TokenChoice&, const std::string& name);

}  // namespace hydrac::models
