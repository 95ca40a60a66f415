// Work of the preprocessor on the files in scope: conditionals, includes and macros. Includes Clang's
// headers.
#pragma once
#include "specialize/edits.h"
#include "specialize/instances.h"

namespace hydrac::specialize {

struct Preprocessing {
  // A branch of a conditional in the text: from its directive's line to the next directive of the same.
  struct Branch {
    std::size_t begin = 0;
    bool taken = false;
  };
  struct Conditional {
    std::vector<Branch> branches;
    std::size_t end_begin = 0, end = 0;  // of the line of #endif
  };

  std::vector<int> files;             // in scope, by number, in the order in which they were finished
  std::vector<std::string> includes;  // of files out of scope, as written: "cuda/types.cuh" with its quotes
  std::map<Place, Conditional> conditionals;    // by the place of #if
  std::map<int, std::vector<Edit>> expansions;  // of macros that files in scope define, by file
};

// Takes out the directives of a file and the branches that were not taken.
std::vector<Edit> conditional_edits(const Preprocessing& preprocessing, int file, const std::string& text);

// Watches a parse. Its answer is complete when the parse is; `scope` must outlive it.
class PreprocessingWatch {
 public:
  explicit PreprocessingWatch(const Scope& scope);
  ~PreprocessingWatch();
  void attach(clang::Preprocessor& preprocessor);
  Preprocessing result(const Places& places);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrac::specialize
