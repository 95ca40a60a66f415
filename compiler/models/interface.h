// The values by which the host and the functions of a model know each other; see Interface.
#pragma once
#include "models/transformer.h"

namespace hydrac::models {

ir::Dim sequence_tokens(const spec::Spec&);  // T

// A value with a slot a layer, or one more. Where layers are of different kinds, those of one kind have a
// value of their own, as parameters have.
ir::ValueId add_layers(Model&, const ir::Value& all);

Interface declare_interface(ir::Graph&, const spec::Spec&);
void declare_generate(Model&);
// Keys and values are stored as `storage`.
void declare_cache(Model&, const Generation&, ir::DType storage);
// `text_rows`: of a call of "embed", where an encoder embeds replies; its activations are stored as
// `storage`.
void declare_objective(Model&, int64_t text_rows, ir::DType storage);

}  // namespace hydrac::models
