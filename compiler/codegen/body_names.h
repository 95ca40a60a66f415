// The base class of all targets' Body printers: identifiers, which values get a variable, the tensors of
// operands, the addresses of elements.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "codegen/spec_numbers.h"
#include "codegen/stages.h"
#include "codegen/statement.h"
#include "ir/graph.h"

namespace hydrac::codegen {

// Address of an element: offset = rows' part + columns' part, in elements of the operand's storage.
struct Address {
  ir::Affine rows;
  ir::Affine columns;
  Code gathered;  // "id * C" for indices that come from an expression
};

class BodyNames {
 public:
  BodyNames(const ir::Graph& graph, const ir::Node& node, const std::set<std::string>& reserved);
  BodyNames(const BodyNames&) = delete;
  BodyNames& operator=(const BodyNames&) = delete;

 protected:
  ~BodyNames() = default;

  bool is_loaded(int operand) const;
  bool is_used(int operand) const;
  // True if the body only adds the operand up over rows.
  bool is_only_summed(int operand) const;
  ir::Use use_of(int operand) const;
  // True if the operand is the matmul result that an epilogue receives, which is not loaded from memory.
  bool is_matmul(int operand) const;
  bool takes_layer() const;
  // True if a store writes to the operand's memory: to the operand itself, or to an output that shares its
  // address.
  bool is_overwritten(int operand) const;

  std::string unique(const std::string& wanted);
  std::string wanted_name(ir::ExprId id) const;
  // The passes of all stages.
  std::vector<const Loop*> loops() const;
  // Values that are the same for all rows and columns, and deserve a variable.
  std::vector<ir::ExprId> uniform_values() const;
  // Named by its formula, used more than once, or a load that must happen before what the same pass stores.
  bool deserves_name(ir::ExprId id) const;
  void forget(const std::vector<ir::ExprId>& defined);

  // `text` writes the expressions of gathers.
  Address address(int operand, const ir::Index& index, const ExpressionText& text) const;
  // Rows as a multiple of the flat row number r, where they are one.
  Code rows_offset(int operand, const ir::Affine& rows) const;
  Code columns_offset(int operand, const ir::Affine& columns) const;
  Code position_code(const ir::Affine& position) const;
  // Text for an offset or a stride of the operand, by its shape.
  Size size_in(int operand, int64_t value) const;
  Size rows_size() const { return dimensions_.of(body_.row_shape()); }
  Size width_of(int space) const { return dimensions_.of(body_.space_shape(space)); }
  // The product of the row variables behind variable v.
  Size rows_below(int v) const;
  // A constant's name, or 1 over the number of columns whose sum it is multiplied by; nothing for its digits.
  Code constant_code(ir::ExprId constant, ir::ExprId beside) const;
  // "constexpr float kEpsilon = hyper::norm_eps;" and so on, each behind the storage class.
  Block named_constants(const char* storage = "") const;

  // The formula, rows and columns, and what moves.
  std::string comment() const;
  // "y may lie where x lies." for each such pair of tensors.
  std::vector<std::string> sharing() const;
  bool has_expensive_part(ir::ExprId id) const;
  // The column values that a loop computes itself: all that its roots need, except those that `stop` says are
  // available.
  std::set<ir::ExprId> needed(const Loop& loop, const std::function<bool(ir::ExprId)>& stop) const;

  // Column sums: their stores, and where each one's partial sums lie among those of all.
  int64_t sum_elements(const ir::Store& store) const;
  int64_t sum_offset(const ir::Store& wanted) const;
  ir::Affine sum_position(const ir::Store& store) const;

  Size sums_size() const;  // of all column sums together
  Size sum_offset_size(const ir::Store& store) const;
  Code sum_offset_code(const ir::Store& store) const;  // nothing for the first ones

  const ir::Graph& graph_;
  const ir::Node& node_;
  const Dimensions dimensions_;
  const SpecNumbers numbers_;
  const ir::Body& body_;
  const std::vector<ir::Dependence> deps_;
  const std::vector<ir::ExprId> live_;  // in the order of evaluation
  const std::vector<Stage> stages_;
  const std::vector<std::string> operand_names_;
  VariableNames variables_;
  std::vector<Code> names_;  // of expressions that are in a variable now
  std::map<ir::ExprId, std::string> constant_names_;
  std::vector<int> uses_;
  std::set<std::string> taken_;
  // By space, the flat column of each that has several variables, where the code has it.
  std::map<int, Code> flat_columns_;
  int element_variable_ = -1;  // the variable to which a loop over the elements of a vector adds j
  std::vector<int> sums_;      // the stores that are column sums
  int64_t sum_width_ = 0;

 private:
  using Numbers = std::function<Size(int64_t)>;
  // A name, or that of a tensor or an operation whose value the expression is.
  struct Wanted {
    std::string name;
    bool is_value = false;
  };
  Wanted wanted(ir::ExprId id) const;
  Code rows_code(const ir::Affine& rows, const Numbers& numbers) const;
  Code columns_code(const ir::Affine& columns, const Numbers& numbers) const;
  // Offsets of columns that equal the flat column times `step` in a space of several variables.
  struct FlatColumns {
    int space;
    int64_t step;
  };
  std::optional<FlatColumns> as_flat_columns(const ir::Affine& columns) const;
  void name_variables();
  void name_constants();
  void count_uses();
  std::string traffic() const;
  bool reads_after_store(ir::ExprId load) const;
};

}  // namespace hydrac::codegen
