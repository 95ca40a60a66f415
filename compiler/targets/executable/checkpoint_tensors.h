// The tensors of a compiled program under their names in a checkpoint, for any target that runs it.
#pragma once
#include <vector>

#include "driver/compile.h"
#include "runtime/program/split_parameter.h"
#include "runtime/program/step_program.h"

namespace hydrac::targets {

runtime::SafetensorsDtype stored_type(ir::DType dtype);

// True if the parameter belongs to the base model of an adapter, and is in no checkpoint.
bool is_base(const driver::Compiled& compiled, const ir::Value& parameter);

// The places of the parts of a slot that is kept as 4-bit codes (ParameterInfo::nf4).
std::vector<runtime::Nf4Place> nf4_places(const driver::Compiled& compiled, const ir::Value& matrix,
                                          int slot);

// For ranks that share layers (ParameterInfo::split): a rank's part of a parameter, and its part of `rows` of
// the whole parameter.
runtime::SplitParameter split_of(const ir::Value& parameter);
std::vector<runtime::TensorPiece> pieces_of(const driver::Compiled& compiled, const ir::Value& parameter,
                                            int slot, ir::RowRange rows);

// True if the state is packed as the parameters are. Moments are; other state is a few scalars, which all
// ranks have.
bool is_pack_of_parts(const driver::Compiled& compiled, const ir::Value& state);
std::vector<runtime::PackedParameter> packed_parameters(const driver::Compiled& compiled);

// Addresses count from the start of the program's memory.
std::vector<runtime::NamedTensor> parameter_tensors(const driver::Compiled& compiled);
std::vector<runtime::NamedTensor> base_tensors(const driver::Compiled& compiled);
// The tensors of an encoder of replies, under their names in its own files.
std::vector<runtime::NamedTensor> encoder_tensors(const driver::Compiled& compiled);
// Values of role optimizer_state that are no views, under their names in the graph.
std::vector<runtime::NamedTensor> optimizer_tensors(const driver::Compiled& compiled);

}  // namespace hydrac::targets
