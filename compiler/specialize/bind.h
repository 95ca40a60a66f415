// Edits that bind template parameters in the text of templates to the values they have wherever a program
// uses them. Includes Clang's headers: see ast.h.
#pragma once
#include "specialize/edits.h"
#include "specialize/instances.h"

namespace hydrac::specialize {

// Edits by the file's number. A place that instances disagree about stays as it is.
class Proposals {
 public:
  // `kind` keeps apart what may be proposed at one place. `witness` is compared too: what the edits rely on.
  void propose(const Place& place, char kind, std::vector<Edit> edits, const std::string& witness = "");
  // Proposes all that `other` does, whatever it relies on.
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

// Proposes for each instance: parameters and arguments that are bound go; their uses become constants (marks
// of constants.h); conditions that became constant are pruned with the branches they rule out; aliases that
// depended on parameters become the types they mean. All of `bindings` must have been seen before.
void propose_bindings(const Places& places, const Instances& instances, const std::string& scope,
                      const Bindings& bindings, Proposals& proposals);

}  // namespace hydrac::specialize
