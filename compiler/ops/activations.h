// The table of pointwise activations, which the gated linear units share.
#pragma once
#include "ir/body_builder.h"

namespace hydrac::ops {

struct Activation {
  std::string name;
  ir::Term (*value)(ir::Term x);
  ir::Term (*derivative)(ir::Term x);
  double (*reference)(double x);
};

const Activation& activation_named(const std::string& name);

}  // namespace hydrac::ops
