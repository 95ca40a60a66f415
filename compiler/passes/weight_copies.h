// The copies that the model reads instead of parameters: in the type of matmuls, and of sharded or offloaded
// weights.
//
// Copies of whole parameters lie in packs of their own (CopyPlaces), which the update and "load" write.
// Sharded weights (Pack::shards_weights) and weights in host memory (ParameterInfo::on_host) are fetched by
// the layer that reads them. Each region of layers begins with an "all_gather", or with a "transfer" of each
// parameter, into an activation of its own with a slot a layer. Parameters that are read in their own type
// (norms) are vectors (VectorCopies).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "models/pack.h"
#include "ops/builder.h"
#include "passes/copy_places.h"
#include "passes/vector_copies.h"

namespace hydrac::passes {

bool is_matmul(const ir::Node& node);

class WeightCopies {
 public:
  // Takes a graph of op-level nodes that reads parameters themselves. `type`: what matmuls read.
  WeightCopies(ir::Graph& graph, const models::Pack& pack, ir::DType type);

  // Before read() of a region's nodes: adds the nodes that fetch what its layers read, if they do.
  void begin(const ir::Function& function, ir::Region& region);
  // The node's input in place of `use`: `use` itself if it is no parameter that has a copy.
  ir::Use read(const ir::Node& node, ir::Use use);
  // Makes the copies: at the end of "update", and in "load", which it adds. Neither where there
  // are none.
  void make();

  bool has_copies() const { return places_.has_value(); }
  // Names of the matrices that every rank has whole although ranks shard weights.
  std::vector<std::string> whole_matrices() const;

 private:
  struct Place {
    const models::ParameterGroup* group = nullptr;
    const models::Stretch* stretch = nullptr;
  };
  // A region's view of a parameter: slot l + index in layer l.
  struct OfLayer {
    ir::ValueId copy = ir::kNoValue;
    int index = 0;
  };
  enum class Kind { none, vector, working };
  Kind kind_of_copy(const ir::Node& node, const ir::Value& value) const;
  Place place_of(ir::ValueId parameter) const;
  void find_gathered();
  void declare_own_copies();
  bool is_streamed(ir::ValueId parameter) const;
  std::vector<ir::Use> streamed_by(const ir::Region& region) const;
  void declare_layer(const std::string& name, const std::vector<ir::Use>& parameters, int layers);
  std::vector<ir::Node> fetched(const std::vector<ir::Use>& parameters);
  const CopyPiece* piece_of(ir::ValueId parameter);
  void declare_places();
  ir::ValueId working_copy(ir::ValueId parameter);
  ir::ValueId own_rows(ir::ValueId parameter);
  void rewrite(ir::Function& function);
  void declare_casts();
  void add_cast(const CopyPiece& piece);
  void gather(ir::Function& function, ops::RegionBuilder& b);
  ir::ValueId whole_copies_of(const models::ParameterGroup& group, const models::Stretch& stretch);
  std::string suffix() const;

  ir::Graph& graph_;
  const models::Pack& pack_;
  const ir::DType type_;
  const bool is_other_type_;  // than that of parameters
  const bool has_host_;       // that holds copies
  // Parameters that have working copies, where ranks share weights: layers gather them, or they are whole.
  std::set<ir::ValueId> gathered_, whole_;
  VectorCopies vectors_;
  std::optional<CopyPlaces> places_;  // of working copies
  struct Cast {
    ir::ValueId from, to;
  };
  std::vector<Cast> casts_;              // that make them, where one process has all parameters
  std::vector<ir::ValueId> own_copies_;  // by groups: [own rows, row], where ranks share weights
  std::map<ir::ValueId, ir::ValueId> copies_, own_rows_;  // by parameter
  std::map<ir::ValueId, OfLayer> of_region_;              // likewise, of the current region
  std::map<ir::ValueId, ir::ValueId>
      stretch_copies_;  // of stretches without a member, by Stretch::parameters
};

}  // namespace hydrac::passes
