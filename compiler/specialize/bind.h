// Edits that bind template parameters in the text of templates to the values they have wherever a program
// uses them. Includes Clang's headers: see ast.h.
#pragma once
#include "specialize/instances.h"
#include "specialize/proposals.h"

namespace hydrac::specialize {

// Proposes for each instance: parameters and arguments that are bound go; their uses become constants (marks
// of constants.h); conditions that became constant are pruned with the branches they rule out; aliases that
// depended on parameters become the types they mean. All of `bindings` must have been seen before.
void propose_bindings(const Places& places, const Instances& instances, const std::string& scope,
                      const Bindings& bindings, Proposals& proposals);

}  // namespace hydrac::specialize
