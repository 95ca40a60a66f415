// What the printers of a Body share, whatever the target: identifiers, which values deserve a variable, the
// tensors behind operands, where elements lie.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "codegen/expression_text.h"
#include "codegen/stages.h"
#include "codegen/writer.h"
#include "ir/graph.h"

namespace hydrac::codegen {

// Where an element lies: offset = rows' part + columns' part, in elements of the operand's storage.
struct Address {
  ir::Affine rows;
  ir::Affine columns;
  std::string gathered;  // "id * 192" for indices that come from an expression
};

class BodyNames {
 public:
  BodyNames(const ir::Graph& graph, const ir::Node& node, const std::set<std::string>& reserved);
  BodyNames(const BodyNames&) = delete;
  BodyNames& operator=(const BodyNames&) = delete;

 protected:
  ~BodyNames() = default;

  bool is_used(int operand) const;
  ir::Use use_of(int operand) const;
  // Whether a store goes to the operand's memory: the operand itself, or an output placed where it lies.
  bool is_overwritten(int operand) const;

  std::string unique(const std::string& wanted);
  std::string wanted_name(ir::ExprId id) const;
  // Loads are named, so that they happen before anything is stored, outside the columns and where one of
  // several stores may overwrite them.
  bool deserves_name(ir::ExprId id) const;
  void forget(const std::vector<ir::ExprId>& defined);

  // `text` writes the expressions of gathers.
  Address address(int operand, const ir::Index& index, const ExpressionText& text) const;
  // Rows as a multiple of the flat row number r, where they are one. Notes where it needs the row's
  // variables.
  std::string rows_text(const ir::Affine& rows);

  // "rows [B,T], columns [C]"
  std::string extents_comment() const;
  bool has_expensive_part(ir::ExprId id) const;
  // What a loop computes for itself: column values its roots need, short of those that `stop` says are at
  // hand.
  std::set<ir::ExprId> needed(const Loop& loop, const std::function<bool(ir::ExprId)>& stop) const;

  // Column sums: their stores, and where each one's partial sums lie among those of all.
  int64_t sum_elements(const ir::Store& store) const;
  int64_t sum_offset(const ir::Store& wanted) const;
  ir::Affine sum_position(const ir::Store& store) const;

  const ir::Graph& graph_;
  const ir::Node& node_;
  const ir::Body& body_;
  const std::vector<ir::Dependence> deps_;
  const std::vector<bool> live_;
  const std::vector<Stage> stages_;
  const std::vector<std::string> operand_names_;
  VariableNames variables_;
  std::vector<std::string> names_;  // of expressions that are in a variable now
  std::vector<int> uses_;
  std::set<std::string> taken_;
  bool needs_row_variables_ = false;
  std::vector<int> sums_;  // the stores that are column sums
  int64_t sum_width_ = 0;

 private:
  void name_variables();
  void count_uses();
};

// In parentheses unless it is one word.
std::string parenthesized(const std::string& text);

}  // namespace hydrac::codegen
