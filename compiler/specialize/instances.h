// Templates as a program uses them: the functions, classes and variables that its entries reach, as
// instantiated, and which template parameters have one value in all of them. Includes Clang's headers: see
// ast.h.
#pragma once
#include <clang/AST/DeclTemplate.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "specialize/ast.h"
#include "specialize/edits.h"

namespace hydrac::specialize {

// The files that are specialized; their other includes stay #includes. Files are identified by number. The
// first `entries` files are the ones that use the rest.
class Scope {
 public:
  explicit Scope(std::vector<SourceFile> files, int entries = 0)
      : files_(std::move(files)), entries_(entries) {}
  // -1: not in scope.
  int number_of(const std::string& path) const;
  const std::string& path(int file) const { return files_[file].path; }
  const std::string& text(int file) const { return files_[file].text; }
  bool is_entry(int file) const { return file < entries_; }

 private:
  std::vector<SourceFile> files_;
  int entries_;
};

// Places of one parse.
class Places {
 public:
  Places(Ast& ast, const Scope& scope) : ast_(ast), scope_(scope) {}

  // No value in macros and outside the scope.
  std::optional<Place> of(clang::SourceLocation location) const;
  // For text from a macro, the place where the macro is used.
  std::optional<Place> of_use(clang::SourceLocation location) const;
  bool contains(const clang::Decl* decl) const { return of_use(decl->getLocation()).has_value(); }
  // The end of the token that begins there.
  std::size_t behind(clang::SourceLocation location) const;

  // The end of a declaration with its semicolon and attributes, and of a comment on its last line.
  std::size_t behind_declaration(const clang::Decl* decl) const;

  Ast& ast() const { return ast_; }
  const Scope& scope() const { return scope_; }

 private:
  int number_of(clang::FileID file) const;
  bool is_half(clang::SourceLocation location) const;

  Ast& ast_;
  const Scope& scope_;
  mutable std::map<clang::FileID, int> numbers_;
};

// The values that template parameters were seen with, over all entries and parses. Parameters are identified
// by their place in the template's definition.
class Bindings {
 public:
  // `first`: the first parameter of the same list. `kind`: code whose values are of one kind can be shared as
  // a template; kNumber, or the template or class that the values are instances of. "": types with nothing in
  // common.
  void see(const Place& parameter, const Place& first, const std::string& value, const std::string& kind,
           int entry) {
    Values& values = values_[parameter];
    lists_[first].insert(parameter);
    values.first = first;
    values.of_entry[entry].insert(value);
    values.of_all.insert(value);
    values.kinds.insert(kind);
  }
  static constexpr const char* kNumber = "number";
  // Entries that name one function template are variants of one kernel: a parameter that differs only among
  // them stays a parameter, if its values are of one kind. Different kernels that differ in more than numbers
  // get separate texts.
  void add_variants(std::set<int> entries) { variants_.push_back(std::move(entries)); }
  // Packs, and what lambdas or types of an entry stand for: there is no name to put in their place.
  void keep(const Place& parameter) { kept_.insert(parameter); }
  // To one value, at least in each entry.
  bool bound(const Place& parameter) const {
    const auto found = values_.find(parameter);
    return found != values_.end() && !kept_.contains(parameter) &&
           (found->second.of_all.size() == 1 || differs(found->second));
  }
  // Parameters that are bound, to different values in different entries.
  std::vector<Place> bound_by_entry() const {
    std::vector<Place> all;
    for (const auto& [place, values] : values_) {
      if (bound(place) && differs(values)) all.push_back(place);
    }
    return all;
  }

 private:
  struct Values {
    std::map<int, std::set<std::string>> of_entry;
    std::set<std::string> of_all;
    std::set<std::string> kinds;
    Place first;

    bool are_numbers() const { return kinds == std::set<std::string>{kNumber}; }
    bool is_one_in_each() const {
      return std::all_of(of_entry.begin(), of_entry.end(),
                         [](const auto& own) { return own.second.size() == 1; });
    }
  };
  bool differs(const Values& values) const {
    if (values.of_all.size() == 1 || !values.is_one_in_each()) return false;
    return values.are_numbers() ? has_versions(lists_.at(values.first)) : differs_in_more(values);
  }
  bool differs_in_more(const Values& values) const {
    const bool have_kind = values.kinds.size() == 1 && !values.kinds.contains("");
    return values.of_all.size() > 1 && values.is_one_in_each() && !values.are_numbers() &&
           !(have_kind && are_variants(values));
  }
  // True if each entry has a version of the template anyway, because its parameters differ in more than
  // numbers.
  bool has_versions(const std::set<Place>& list) const {
    return std::any_of(list.begin(), list.end(), [&](const Place& parameter) {
      return !kept_.contains(parameter) && differs_in_more(values_.at(parameter));
    });
  }

  // True if all entries that have a value are variants of one kernel.
  bool are_variants(const Values& values) const {
    return std::any_of(variants_.begin(), variants_.end(), [&](const std::set<int>& entries) {
      return std::all_of(values.of_entry.begin(), values.of_entry.end(),
                         [&](const auto& own) { return entries.contains(own.first); });
    });
  }

  std::map<Place, Values> values_;
  std::map<Place, std::set<Place>> lists_;  // by the first parameter
  std::set<Place> kept_;
  std::vector<std::set<int>> variants_;
};

// The template that `declaration` is written in, behind members of instantiated classes and redeclarations.
const clang::FunctionTemplateDecl* written(const clang::FunctionTemplateDecl* declaration);
const clang::ClassTemplateDecl* written(const clang::ClassTemplateDecl* declaration);
const clang::TypeAliasTemplateDecl* written(const clang::TypeAliasTemplateDecl* declaration);
const clang::VarTemplateDecl* written(const clang::VarTemplateDecl* declaration);
// The class that `decl` is or is a template of; null for others.
const clang::CXXRecordDecl* record_of(const clang::Decl* decl);
// Definition of a class or class template that `decl` only declares; null if there is none.
const clang::CXXRecordDecl* definition_behind(const clang::Decl* decl);
// The declaration in the text that `decl` is, or is an instance of.
const clang::Decl* pattern_of(const clang::Decl* decl);
// Without parentheses and implicit conversions; the use of a template argument stays as it is.
const clang::Expr* as_written(const clang::Expr* expression);

// Everything an entry reaches in one parse, in the order of finding.
struct Instances {
  std::vector<clang::Decl*> declarations;
  std::set<Place> patterns;  // of pattern_of() of each, and of the local variables and aliases that they name
  std::set<Place> called;    // function templates that the entry names itself
  std::set<std::string> outside;  // the files out of scope that declare something they name
};

// Instances reachable from the declarations of namespaces that `is_root` chooses; `bindings` gets those of
// entry number `entry`. Local variables at the places of `ignored` are skipped.
Instances instances_of(const Places& places, const std::function<bool(const clang::Decl*)>& is_root,
                       Bindings& bindings, int entry = 0, const std::set<Place>& ignored = {});

}  // namespace hydrac::specialize
