// The variables that one declaration declares, as `const int a = 1, *b = &a;` does. Includes Clang's headers:
// see ast.h.
#pragma once
#include <map>
#include <vector>

#include "specialize/instances.h"

namespace hydrac::specialize {

// By where their declaration begins, the variables of a context that stand in the text, in its order.
using DeclaredTogether = std::map<std::size_t, std::vector<const clang::VarDecl*>>;
DeclaredTogether declared_together(const Places& places, const clang::DeclContext* context);

struct Declarator {
  std::size_t begin;  // of `*b = &a`
  std::size_t end;    // where the next one begins; of the last, behind the semicolon and a comment after it
  std::size_t comma;  // before it; 0 for the first
};
std::vector<Declarator> declarators_of(const Places& places,
                                       const std::vector<const clang::VarDecl*>& variables);

}  // namespace hydrac::specialize
