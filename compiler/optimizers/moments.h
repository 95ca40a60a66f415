// Moments: what an optimizer remembers of the gradients, packed as the parameters are. Where ranks share the
// update a rank has those of its own rows.
#pragma once
#include <string>

#include "optimizers/optimizer.h"

namespace hydrac::optimizers {

// Type in which moments are stored: f32, bf16, or u8 for 8-bit codes.
ir::DType moment_type(const spec::Spec& spec);

// A moment of all parameters that an update is for, in checkpoints under its name. Of groups whose moments
// are stored in 8 bits, "<name>.codes", u8 [rows, kStateBlock] (hydrac/dynamic_code.h), and "<name>.scales",
// f32 [rows], the largest magnitude of each row; a row of zeros may have any codes.
struct Moment {
  ir::Use numbers;        // of the other groups
  ir::Use codes, scales;  // absent, as `numbers` is, where no group has such
  bool is_signed = true;
};
Moment moment(Update&, const std::string& name, bool is_signed = true);

}  // namespace hydrac::optimizers
