// Edits that instances of a template propose in its text, and those they agree about.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "specialize/edits.h"

namespace hydrac::specialize {

// Edits by the file's number. A place that instances disagree about stays as it is.
class Proposals {
 public:
  static constexpr char kParentheses = '(';

  // `kind` separates different proposals at one place. `witness`, which the edits rely on, is compared too.
  void propose(const Place& place, char kind, std::vector<Edit> edits, const std::string& witness = "");
  // Proposes all edits of `other`, with everything they rely on. Only parentheses differ: they go only if all
  // agree about what is inside.
  void add(const Proposals& other);
  std::map<int, std::vector<Edit>> agreed() const;

 private:
  struct Proposal {
    std::vector<Edit> edits;
    std::string witness;
    bool disputed = false;
  };
  std::map<std::pair<Place, char>, Proposal> proposals_;
};

}  // namespace hydrac::specialize
