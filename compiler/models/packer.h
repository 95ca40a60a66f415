// Gives packed parameters their places: which lie side by side, and which rows ranks divide.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/pack.h"

namespace hydrac::models {

// A dimension is one word without digits: "Rows", of section int8_state "Rowsint".
std::string rows_symbol(const std::string& section, std::string symbol = "Rows");

// Of so many elements in rows of a section.
ir::Shape pack_shape(int64_t elements, const std::string& section, int64_t row = kPackRow);

// Parameters one after another, first those that decay. Views count from the pack's start.
class Packer {
 public:
  Packer(ir::Graph& graph, ir::ValueId pack, ir::DType parameters, int64_t row = kPackRow,
         int64_t sharing_ranks = 1, int64_t tensor_ranks = 1)
      : graph_(graph),
        pack_(pack),
        dtype_(parameters),
        row_(row),
        sharing_ranks_(sharing_ranks),
        tensor_ranks_(tensor_ranks) {}

  int64_t elements() const { return end_; }
  int64_t whole_rows() const { return whole_end_ / row_; }

  // `group`: its name, optimizer and members, which get places in the pack.
  ParameterGroup add(ParameterGroup group);

  // Those without gradients.
  void place(const std::vector<ir::ValueId>& members);

 private:
  static constexpr int64_t kAlignment = 64;  // elements, of a slot's start

  // Whether ranks divide each slot of the parameter, placed here, into whole rows. Its gradient may then lie
  // where other numbers were.
  bool divides(ir::ValueId id) const;

  static int64_t own_rows(const ParameterGroup& group);

  void add_stretch(ParameterGroup& group, ir::ValueId member);

  // Ends what has been placed from `first` on with a whole row, and with padding that lets ranks divide it.
  void close(ParameterGroup& group, int64_t first, const std::string& name);

  // Members that decay or do not, of which ranks that share layers have parts or all. `together`: where those
  // begin that ranks divide together.
  void place_all(ParameterGroup& group, bool decay, bool split, int64_t alignment, int64_t& together);

  // Where one process that has all of each parameter places them.
  void place_in_whole(const std::vector<ir::ValueId>& members, bool decay, int64_t alignment);

  // Parameters of which a rank has a part, in rows of their own. Vectors are one stretch with the others.
  void place_split(ParameterGroup& group, bool decay, int64_t alignment, int64_t& together);

  void place(ir::ValueId id, int64_t alignment);

  ir::Graph& graph_;
  const ir::ValueId pack_;
  const ir::DType dtype_;
  const int64_t row_;
  const int64_t sharing_ranks_, tensor_ranks_;
  int64_t end_ = 0;        // of what is placed
  int64_t whole_end_ = 0;  // of the pack that one process has
};

}  // namespace hydrac::models
