// Lists of template parameters and arguments, without what is bound. Includes Clang's headers: see ast.h.
#pragma once
#include <string>
#include <vector>

#include "specialize/bind_text.h"
#include "specialize/proposals.h"

namespace hydrac::specialize {

class BoundLists {
 public:
  BoundLists(const Places& places, const BoundText& text, Proposals& proposals)
      : places_(places), text_(text), proposals_(proposals) {}

  // Takes bound parameters from a template's head; where none is left, `instead` stands in its place.
  void thin(const clang::TemplateParameterList* parameters, const char* instead = "");
  // A function's template head, or its own head if it is a specialization.
  void thin_function(const clang::FunctionDecl* function, const clang::Decl* pattern);
  // Removes the bound arguments from a list <...> for `parameters`; an empty list is replaced by `instead`.
  void drop_bound(const clang::TemplateParameterList* parameters, clang::SourceLocation left,
                  clang::SourceLocation right, const std::vector<clang::SourceRange>& items,
                  const char* instead = "");
  bool are_bound(const clang::TemplateParameterList* parameters) const;
  // True if a function no longer is a template.
  bool becomes_plain(const clang::ValueDecl* decl) const;

 private:
  // Start of the /*name=*/ before the list item that begins at `begin`.
  std::size_t begin_with_comment(int file, std::size_t from, std::size_t begin) const;

  const Places& places_;
  const BoundText& text_;
  Proposals& proposals_;
};

}  // namespace hydrac::specialize
