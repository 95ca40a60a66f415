// The printer behind cpu_kernel: one Body as a C++ function.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/body_printer.h"
#include "codegen/kernel_source.h"

namespace hydrac::codegen {

class CpuBodyPrinter : BodyPrinter {
 public:
  CpuBodyPrinter(const ir::Graph& graph, const ir::Node& node)
      : BodyPrinter(graph, node, {"r", "rows", "layer", "workspace", "block", "sums", "column", "total"},
                    kCpuDialect) {}
  CpuKernel print();

 private:
  std::string variable_type(ir::ExprId id) const override;
  Code stored_code(const ir::Store& store) const;
  void take_parameters(CpuKernel& kernel);
  // Work small enough that starting threads would cost more.
  bool is_small() const;
  int64_t blocks() const;
  // True if the kernel loops over its rows, as many as the call says.
  bool has_row_loop() const;
  // True for a sum over a few rows into many columns (learned positions): the loop over columns is the outer
  // one, and there are no partial sums.
  bool sums_over_few_rows() const;
  void declare_constants();
  void print_rows();
  void print_row_blocks();
  // The partial sums of one store added up, block after block.
  void print_final_sum(const ir::Store& store);
  // Defines `total`, their sum for the column whose partial sums stand at that offset in a block's.
  void print_total(const Code& at);
  void print_columns_outside();
  void store_total(const ir::Store& store);
  void print_row();
  void print_row_store(const ir::Store& store) override;
  // Decides which column values later loops take from memory: stored tensors, and row buffers for expensive
  // ones.
  void plan_reuse();
  const ir::Store* stored(ir::ExprId id) const;
  bool can_reuse(ir::ExprId id) const;
  void note_reuse(ir::ExprId id);
  Code reuse_code(ir::ExprId id);
  void print_loop(const Loop& loop, int level) override;
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
  void print_maximum(const Code& name, ir::ExprId value);
  // log(sum(exp(x))) = peak + log(sum(exp(x - peak)))
  void print_exponential_sum(const Loop& loop, int level, ir::ExprId id, const std::string& peak);

  std::set<ir::ExprId> reused_;                    // read back by a later loop
  std::map<ir::ExprId, std::string> row_buffers_;  // of those that no tensor holds
  std::set<ir::ExprId> computed_;                  // by the loops printed so far
};

}  // namespace hydrac::codegen
