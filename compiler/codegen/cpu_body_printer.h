// The printer behind cpu_kernel: one Body as a C++ function.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/body_names.h"
#include "codegen/kernel_source.h"

namespace hydrac::codegen {

class CpuBodyPrinter : BodyNames {
 public:
  CpuBodyPrinter(const ir::Graph& graph, const ir::Node& node)
      : BodyNames(graph, node, {"r", "rows", "layer", "workspace", "block", "sums", "column", "total"}),
        text_(
            body_, [this](ir::ExprId id) { return names_[id]; },
            [this](const ir::Expr& e) { return load_text(e); },
            [this](ir::ExprId constant, ir::ExprId beside) { return constant_text(constant, beside); },
            [this](const ir::Affine& position) { return position_text(position); }, variables_) {}
  KernelSource print();

 private:
  // Declares a variable for the expression.
  void define(ir::ExprId id);
  std::string element(int operand, const ir::Index& index);
  std::string stored_text(const ir::Store& store) const;
  std::string row_pointer(int operand, const std::string& rows);
  std::string load_text(const ir::Expr& expr) const;
  std::string parameters(KernelSource& source);
  void print_constants(const std::string& body);
  // Work small enough that starting threads would cost more.
  bool is_small() const;
  int64_t blocks() const;
  // A sum over a few rows into many columns (learned positions): columns go outside, and nothing partial is
  // kept.
  bool sums_over_few_rows() const;
  void print_uniform();
  void print_rows();
  void print_row_blocks();
  // The partial sums of one store added up, block after block.
  void print_final_sum(const ir::Store& store);
  void print_columns_outside();
  // The row's text is written first, so that the pointers and variables it needs are known, and put behind
  // them.
  void print_row();
  void print_row_variables(const std::string& named_by);
  void print_row_values(int level);
  void print_row_store(const ir::Store& store);
  // Decides which column values later loops take from memory: stored tensors, and row buffers for expensive
  // ones.
  void plan_reuse();
  const ir::Store* stored(ir::ExprId id) const;
  bool can_reuse(ir::ExprId id) const;
  void note_reuse(ir::ExprId id);
  std::string reuse_text(ir::ExprId id);
  void print_loop(const Loop& loop, int level);
  void declare_reduction(ir::ExprId id, const char* start);
  std::string reduction_clause(const std::vector<ir::ExprId>& sums, const std::vector<ir::ExprId>& largest,
                               const std::map<ir::ExprId, std::string>& peaks) const;
  void open_loop(const Loop& loop, const std::string& clause);
  void close_loop(const Loop& loop);
  bool taken_from_memory(ir::ExprId id, int level) const;
  // Names the column values that a loop uses more than once, or takes from memory.
  std::vector<ir::ExprId> print_column_values(const std::set<ir::ExprId>& ids, int level);
  std::set<ir::ExprId> in_loop(const Loop& loop, int level) const;
  void print_columns(const Loop& loop, int level, const std::vector<ir::ExprId>& sums,
                     const std::vector<ir::ExprId>& largest, const std::map<ir::ExprId, std::string>& peaks);
  void print_maximum(const std::string& name, ir::ExprId value);
  // log(sum(exp(x))) = peak + log(sum(exp(x - peak)))
  void print_exponential_sum(const Loop& loop, int level, ir::ExprId id, const std::string& peak);

  std::map<std::pair<int, std::string>, std::string> row_pointers_;  // (operand, row offset) -> name
  bool columns_outside_ = false;                                     // see sums_over_few_rows
  std::set<ir::ExprId> reused_;                                      // read back by a later loop
  std::map<ir::ExprId, std::string> row_buffers_;                    // of those that no tensor holds
  std::set<ir::ExprId> computed_;                                    // by the loops printed so far
  Writer out_;
  ExpressionText text_;
};

}  // namespace hydrac::codegen
