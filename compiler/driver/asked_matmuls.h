// optimizations.own_matmuls and library_matmuls, once a program's matmuls are known.
#pragma once
#include "passes/passes.h"
#include "spec/spec.h"

namespace hydrac::driver {

// runtime::InputError, with the key's place, where a name of the two lists is no matmul's, is in both, or is
// asked to be ours and is a library's all the same.
void require_asked_matmuls(const spec::Spec& spec, const passes::MatmulChoices& matmuls);

}  // namespace hydrac::driver
