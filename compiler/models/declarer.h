// Declares parameters one after another, with the names that their family gives them in checkpoints. What the
// models' files describe their parameters with. Those that train.freeze names become values of their own: a
// parameter of which some layers are frozen or routed, or whose weights some layers find in the host's
// memory, is one value for each run of layers that are alike. A model with adapters has all of its own
// frozen.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "models/parameters.h"
#include "spec/hugging_face/family.h"

namespace hydrac::models {

class Declarer {
 public:
  Declarer(ir::Graph& graph, const spec::Spec& spec);

  // A tensor of checkpoints. Neighbours of one name are one tensor there.
  struct Names {
    std::string name;
    int64_t first_row = 0, rows = 0;  // rows: 0 = all
  };
  // The family's name of "attn.q.weight".
  std::string named(std::string_view ours) const { return family_.tensor(ours); }
  // The name of an expert's tensor, where a * stands for its number.
  std::string named_of_expert(std::string_view ours, int64_t expert) const;

  // How ranks that share layers (parallel.tensor) divide a parameter. `rows`: outputs, those of each of its
  // names by itself; `columns`: inputs; `vocabulary`: rows of the vocabulary with its padding.
  enum class Division { none, rows, columns, vocabulary };

  bool divides() const { return spec_.parallel.tensor > 1; }
  bool divides_stream() const { return models::divides_stream(spec_); }

  // All shapes and rows are those of the whole parameter.
  // [out, in], drawn from a normal distribution, with weight decay. `in_block`: of a block's linear layers,
  // which some families store as [in, out].
  ir::ValueId matrix(const std::string& name, ir::Shape shape, int slots, double deviation,
                     const std::vector<Names>& names, bool in_block = true,
                     Division division = Division::none);
  // Matrices of experts, one below the other, which have no adapters. `token_share`: of all tokens, those
  // that one of them is multiplied with.
  ir::ValueId experts(const std::string& name, ir::Shape shape, int slots, double deviation,
                      double token_share, const std::vector<Names>& names);
  // Without weight decay. `of_last_slot`: where the last slot has a name of its own.
  ir::ValueId vector(const std::string& name, ir::Dim size, int slots, ir::Init init,
                     const std::vector<Names>& names, const std::optional<Names>& of_last_slot = {},
                     Division division = Division::none);
  // The same with a slot for each routed layer (model.mod). `name_there`: in checkpoints of hydrac's models.
  ir::ValueId vector_of_routed(const std::string& name, ir::Dim size, ir::Init init,
                               const std::string& name_there);
  // Ranks compute terms of its gradient each: what they have of it is to be summed.
  void mark_partial_gradient(ir::ValueId parameter);

  // Of the parameters with frozen and trained layers, by the value of the first run.
  std::map<ir::ValueId, std::vector<SlotRun>> take_runs() { return std::move(runs_); }

  // Declares the adapters of the blocks' matrices so far, by matrix. Behind all other parameters, so that
  // these start with the same random numbers as without adapters.
  std::map<ir::ValueId, Adapter> declare_adapters();

 private:
  ir::Value parameter(const std::string& name, ir::Shape shape, int slots, ir::Init init, bool decay) const;
  std::vector<ir::CheckpointPart> parts(const ir::Value& value, const std::vector<Names>& names,
                                        bool transposed) const;
  void divide(ir::Value& value, const std::vector<Names>& names, Division division) const;
  struct Kind {
    bool is_frozen = false, on_host = false;
    bool operator==(const Kind&) const = default;
  };
  std::vector<Kind> kinds_of(const ir::Value& value) const;  // of its slots
  // A value for each run of slots that are alike, of a parameter with a slot a layer or a single one.
  // `place`: of the layers at this place of an iteration alone. Returns the first run's.
  ir::ValueId add(const ir::Value& value, const std::vector<Kind>& kinds, std::optional<int> place = {});
  Adapter declare_adapter(const ir::Value& weight, const std::vector<ir::CheckpointPart>& targets);

  ir::Graph& graph_;
  const spec::Spec& spec_;
  const spec::Family& family_;
  std::vector<std::pair<ir::ValueId, ir::Value>> matrices_;  // of blocks: the first run, and all of it
  std::map<ir::ValueId, std::vector<SlotRun>> runs_;
};

}  // namespace hydrac::models
