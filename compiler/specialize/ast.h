// A parsed source as Clang's syntax tree, for the files of this folder that walk one. Includes Clang's
// headers: only *_clang.cpp files may include it.
#pragma once
#include <clang/AST/ASTContext.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>

#include <functional>
#include <memory>

#include "specialize/parse.h"

namespace hydrac::specialize {

// Owns everything that the tree points to.
class Ast {
 public:
  // Parses `request.source`. A tree is returned even if there are problems(), so check these first. `watch`
  // may add callbacks to the preprocessor before it starts.
  static std::unique_ptr<Ast> parse(const ParseRequest& request,
                                    const std::function<void(clang::Preprocessor&)>& watch = {});
  ~Ast();

  const std::vector<Problem>& problems() const { return problems_; }
  clang::ASTContext& context() { return compiler_.getASTContext(); }
  clang::SourceManager& sources() { return compiler_.getSourceManager(); }
  clang::Sema& sema() { return compiler_.getSema(); }
  const clang::LangOptions& language() const { return compiler_.getLangOpts(); }

  // The path of the virtual file that contains a location, as #include named it; for a macro's expansion, of
  // the place where the macro is used.
  std::string path_of(clang::SourceLocation location) const;
  // Errors found there, as problems() has them.
  Problem problem_at(clang::SourceLocation location, std::string message) const;

 private:
  Ast() = default;

  clang::CompilerInstance compiler_;
  std::vector<Problem> problems_;
};

}  // namespace hydrac::specialize
