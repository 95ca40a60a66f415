// The copies of trained parameters that the model reads: in the type of matmuls, and on ranks of which none
// has all parameters.
//
// Copies of whole parameters lie in a pack of their own, which the update and "load" write. Where ranks share
// weights (Pack::shards_weights) that holds only what is not of a layer; of the rest a rank has its part in
// the type that is read, and each region of layers begins with an "all_gather" of the layer's weights into an
// activation of its own. What is read in the type that parameters have (norms) are vectors: `vectors` are
// copies of all of them.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "models/pack.h"
#include "ops/builder.h"

namespace hydrac::passes {

bool is_matmul(const ir::Node& node);

class WeightCopies {
 public:
  // Of a graph of op-level nodes that reads parameters themselves. `type`: what matmuls read.
  WeightCopies(ir::Graph& graph, const models::Pack& pack, ir::DType type);

  // Before read() of a region's nodes: adds the node that gathers what the region reads, if it does.
  void begin(const ir::Function& function, ir::Region& region);
  // What the node reads instead of `use`: itself where that is no parameter that has a copy.
  ir::Use read(const ir::Node& node, ir::Use use);
  // Makes the copies: at the end of "update", and in "load", which it adds. Nothing where there are none.
  void make();

  bool has_copies() const { return working_pack_ != ir::kNoValue; }
  // That are on every rank although ranks share weights.
  std::vector<std::string> whole_matrices() const;

 private:
  struct Place {
    const models::ParameterGroup* group = nullptr;
    const models::Stretch* stretch = nullptr;
  };
  enum class Kind { none, vector, working };
  Kind kind_of_copy(const ir::Node& node, const ir::Value& value) const;
  Place place_of(ir::ValueId parameter) const;
  int64_t first_row(const Place& place) const;
  void find_gathered();
  void declare_own_copies();
  void declare_working_pack();
  void declare_vectors();
  ir::ValueId working_copy(ir::ValueId parameter);
  ir::ValueId vector_copy(ir::ValueId parameter);
  ir::ValueId own_rows(ir::ValueId parameter);
  std::vector<ir::ValueId> read_by(const ir::Region& region) const;
  void rewrite(ir::Function& function);
  void gather(ir::Function& function, ops::RegionBuilder& b);
  ir::ValueId whole_copies_of(const models::ParameterGroup& group, const models::Stretch& stretch);
  void spread_vectors(ops::RegionBuilder& b, size_t number);
  std::string suffix() const;

  ir::Graph& graph_;
  const models::Pack& pack_;
  const ir::DType type_;
  const bool is_other_type_;                          // than that of parameters
  std::set<ir::ValueId> gathered_, whole_;            // of decayed parameters, or of copies in another type
  std::map<const models::Stretch*, int64_t> places_;  // in the pack of copies, where it lacks some stretches
  ir::ValueId working_pack_ = ir::kNoValue;
  std::vector<ir::ValueId> group_copies_;  // the pack of copies by groups, of one process
  std::vector<ir::ValueId> own_copies_;    // by groups: [own rows, row], where ranks share weights
  ir::ValueId vectors_ = ir::kNoValue;     // [rows, row]: copies of divided vectors, by groups
  std::vector<int64_t> first_vectors_;     // of each group, its first row there
  std::map<ir::ValueId, ir::ValueId> copies_, own_rows_, of_region_;  // by parameter
  std::map<ir::ValueId, ir::ValueId>
      stretch_copies_;  // of stretches without a member, by Stretch::parameters
};

}  // namespace hydrac::passes
