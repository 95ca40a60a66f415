// Declares parameters one after another, with checkpoint names of one architecture. What the models' files
// describe their parameters with.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "spec/spec.h"

namespace hydrac::models {

class Declarer {
 public:
  Declarer(ir::Graph& graph, const spec::Spec& spec);

  // The name in Llama's or in GPT-2's checkpoints; no name there where it is empty.
  struct Names {
    std::string llama, gpt2;
    int64_t first_row = 0, rows = 0;  // rows: 0 = all
  };

  // [out, in], drawn from a normal distribution, with weight decay. `conv1d`: GPT-2 stores it [in, out].
  ir::ValueId matrix(const std::string& name, ir::Shape shape, int slots, double deviation,
                     const std::vector<Names>& names, bool conv1d = true);
  // Without weight decay.
  ir::ValueId vector(const std::string& name, ir::Dim size, int slots, ir::Init init,
                     const std::vector<Names>& names);
  // Names slot `slot` of a value differently from the others.
  void name_slot(ir::ValueId id, int slot, const Names& names);

 private:
  ir::ValueId declare(const std::string& name, ir::Shape shape, int slots, ir::Init init, bool decay,
                      const std::vector<Names>& names, bool transposed);

  ir::Graph& graph_;
  bool gpt2_;
};

}  // namespace hydrac::models
