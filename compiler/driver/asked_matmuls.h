// optimizations.own_matmuls and library_matmuls, once a program's matmuls are known.
#pragma once
#include "passes/passes.h"
#include "spec/spec.h"

namespace hydrac::driver {

// runtime::InputError, at the key's place, if a name of the two lists is no matmul's, is in both lists, or
// asks for a kernel of ours that does not exist.
void require_asked_matmuls(const spec::Spec& spec, const passes::MatmulChoices& matmuls);

}  // namespace hydrac::driver
