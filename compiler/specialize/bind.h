// Edits that replace template parameters in the text of templates by the values that they have in all uses of
// a program. Includes Clang's headers: see ast.h.
#pragma once
#include "specialize/instances.h"
#include "specialize/proposals.h"

namespace hydrac::specialize {

// Proposes edits for each instance. Bound parameters and arguments are removed, and their uses become
// constants (marks of constants.h). Conditions that became constant are pruned with their dead branches.
// Aliases that depended on parameters become the types they mean. All of `bindings` must have been seen
// before.
void propose_bindings(const Places& places, const Instances& instances, const std::string& scope,
                      const Bindings& bindings, Proposals& proposals);

}  // namespace hydrac::specialize
