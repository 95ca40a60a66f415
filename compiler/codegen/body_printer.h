// The printers of a Body, for all targets: they print a row's values, loops and stores, stage by stage, after
// the pointers and variables that these need.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "codegen/body_names.h"

namespace hydrac::codegen {

class BodyPrinter : protected BodyNames {
 protected:
  BodyPrinter(const ir::Graph& graph, const ir::Node& node, const std::set<std::string>& reserved,
              const Dialect& dialect);
  virtual ~BodyPrinter() = default;

  virtual void print_loop(const Loop& loop, int level) = 0;
  virtual void print_row_store(const ir::Store& store) = 0;
  // Called for each stage, once its values are computed.
  virtual void before_loops(int /*level*/) {}
  // The expression written out, for its definition.
  virtual Code definition(ir::ExprId id) { return text_.definition(id); }
  // The variable that holds a value; nothing to write it out.
  virtual Code value_name(ir::ExprId id) { return names_[id]; }
  virtual Code load_code(const ir::Expr& load) { return element(load.operand, load.index); }
  virtual Code position(const ir::Affine& position) const { return position_code(position); }
  virtual std::string variable_type(ir::ExprId id) const;
  // The offset of an address that has a name of its own, or nothing.
  virtual Code named_offset(const Address& /*at*/) const { return {}; }
  // The offset of a row in an operand, as its pointer adds it.
  virtual Code row_offset(int /*operand*/, const Code& rows) { return rows; }
  // True if the row's variables are divided out of r in 32 bits.
  virtual bool has_narrow_rows() const { return false; }

  // Returns what `print` adds to out_ as a block of its own.
  template <class Print>
  Block written(Print print) {
    Block outside = std::exchange(out_, Block());
    print();
    return std::exchange(out_, std::move(outside));
  }

  // Declares a variable for the expression.
  void define(ir::ExprId id);
  void print_uniform();
  void print_row_values(int level);
  // A row's code behind the variables and pointers that it needs.
  void print_stages();
  Block with_row_pointers(Block row);

  std::string c_type(int operand) const;
  // "const float*": the operand's address, and its parameter's type.
  std::string pointer_type(int operand) const;
  Code pointer(int operand, const ir::Index& index);
  Code element(int operand, const ir::Index& index);

  const Dialect& dialect_;
  Block out_;
  ExpressionText text_;
  bool has_row_pointers_ = true;  // rows are reached by pointers to them

 private:
  // An element: base[offset].
  struct Place {
    std::string base;
    Code offset;
  };
  Place place(int operand, const ir::Index& index);
  std::string row_pointer(int operand, const Code& rows);

  struct RowPointer {
    std::string name;
    Code rows;
  };
  std::map<std::pair<int, std::string>, RowPointer> row_pointers_;  // by operand and offset
};

}  // namespace hydrac::codegen
