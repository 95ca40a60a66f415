// Places of the copies of parameters that matmuls read. The copies have packs like the parameters', in which
// some pieces may be absent or in host memory.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "models/pack.h"

namespace hydrac::passes {

// Elements [first, end) of the pack of parameters, from element `at` of `base` on.
struct CopyPiece {
  int64_t first = 0, end = 0;
  ir::ValueId base = ir::kNoValue;
  int64_t at = 0;
};

class CopyPlaces {
 public:
  // A pack of copies of `type` of all parameters.
  static CopyPlaces of_all(ir::Graph& graph, const models::Pack& pack, ir::DType type);
  // Places of the stretches that `is_kept` names.
  static CopyPlaces of_stretches(ir::Graph& graph, const models::Pack& pack, ir::DType type,
                                 const std::function<bool(const models::Stretch&)>& is_kept);
  // Places of all parameters, in two packs: ParameterInfo::on_host says of which the second one is.
  static CopyPlaces with_host(ir::Graph& graph, const models::Pack& pack, ir::DType type);

  // Null where the pack lacks the element.
  const CopyPiece* find(int64_t element) const;
  // The pieces of a group, cut at its ends.
  std::vector<CopyPiece> of_group(const models::Pack& pack, const models::ParameterGroup& group) const;

 private:
  std::vector<CopyPiece> pieces_;  // ascending
};

// [count / width, width] of a packed value, from element `first` on.
ir::ValueId elements_of(ir::Graph& graph, ir::ValueId packed, int64_t first, int64_t count, int64_t width,
                        const std::string& name);

}  // namespace hydrac::passes
