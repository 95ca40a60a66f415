// Moments: an optimizer's running statistics of the gradients, packed as the parameters are. If ranks share
// the update, a rank has the moments of its own rows.
#pragma once
#include <string>

#include "optimizers/optimizer.h"

namespace hydrac::optimizers {

// Type in which moments are stored: f32, bf16, or u8 for 8-bit codes.
ir::DType moment_type(const spec::Spec& spec);

// A moment of all parameters of an update, in checkpoints under its name. Groups with 8-bit moments have
// "<name>.codes", u8 [rows, kStateBlock] (hydrac/dynamic_code.h), and "<name>.scales", f32 [rows], the absmax
// of each row; a row of zeros may have any codes.
struct Moment {
  ir::Use numbers;        // of the other groups
  ir::Use codes, scales;  // absent, as `numbers` is, where no group has such
  bool is_signed = true;
};
Moment moment(Update&, const std::string& name, bool is_signed = true);

}  // namespace hydrac::optimizers
