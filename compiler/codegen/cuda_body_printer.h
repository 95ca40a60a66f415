// The printer behind cuda_body_kernels: one Body, one layout, the text of its kernels.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/body_names.h"
#include "codegen/cuda_kernel.h"
#include "codegen/cuda_layout.h"

namespace hydrac::codegen {

// What is kept of a row from one pass over its columns to the next; cuda_reuse.cpp.
struct CudaReuse {
  std::set<ir::ExprId> loads;   // as they lie in memory
  std::set<ir::ExprId> values;  // computed
  std::set<ir::ExprId> early;   // of the loads: made by the first pass though only later ones need them
};

class CudaBodyPrinter : BodyNames {
 public:
  CudaBodyPrinter(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);
  CudaKernels print();
  // Of column sums, over so many rows of partial ones; cuda_sums.cpp.
  CudaKernel finishing_kernel(int64_t partials);

 private:
  // A load that the chunks of a pass make together, before anything is computed: an array of the thread.
  struct Columns {
    std::string name;
    ColumnAccess access;
  };

  // A constant before the kernel.
  struct Constant {
    std::string type, name, value, comment;
  };

  // cuda_constants.cpp: names for what the layout decided, declared before the kernel where it or its launch
  // uses them.
  Size lanes() const { return {layout_.lanes, "kLanes"}; }
  Size block_rows() const { return {layout_.rows, "kRows"}; }
  Size blocks() const { return {layout_.blocks, "kBlocks"}; }
  Size vector(int space) const;
  Size chunks(int space) const;
  Size step(int space) const;     // columns of a step
  Size steps(int space) const;    // of a row
  Size ahead(int space) const;    // columns of a row that come ahead, where not all do
  Size vectors(int space) const;  // of a row
  Size tiles() const;
  std::string sums_text() const;  // the length of a row of partial sums
  std::set<int> walked_spaces() const;
  std::string of_space(const std::string& name, int space) const;
  std::vector<Constant> constants() const;
  std::string sizes_text(const std::string& body, const CudaLaunch& launch) const;
  std::string constants_text() const;
  Size grid(const Size& rows) const;
  void lay_out_grid(CudaLaunch& launch) const;

  // cuda_body.cpp: the kernel around a row.
  std::string parameters(CudaKernel& kernel);
  std::string launch_bounds() const;
  bool takes_layer() const;
  void print_flat();
  void print_rows();
  void print_row_walk();
  void print_lanes();
  void print_uniform();
  void print_row();
  void print_row_values(int level);
  void print_row_store(const ir::Store& store);
  void print_row_variables(const std::string& named_by);
  std::string row_pointers();
  void print_column_variables(int space, const std::string& column, const std::string& named_by);
  bool loads_shared_row_values(int level) const;
  void define(ir::ExprId id);
  std::string random_element(ir::ExprId id) const;
  std::string definition(ir::ExprId id) const;
  std::string value_name(ir::ExprId id) const;
  std::string function_name(ir::ExprOp op, ir::ExprId argument) const;

  // cuda_matmul.cpp: the kernel of a matmul and the body behind it.
  CudaKernels print_matmul();
  CudaKernel matmul_kernel();
  std::string config_text() const;
  std::vector<std::string> partial_sums() const;

  // cuda_epilogue.cpp: the body's struct.
  std::string epilogue_text();
  std::vector<int> epilogue_tensors() const;
  std::string tensor_member(int operand) const;
  std::vector<std::string> take_matmuls();
  std::vector<ir::ExprId> take_loads(bool invariant, std::set<std::string>& fields);
  std::vector<ir::ExprId> take_row_loads(std::set<std::string>& fields);
  int epilogue_space() const;
  std::string in_32_bits(int operand, const std::string& number);
  std::string first_definition(int space);
  std::string begin_function(const std::vector<ir::ExprId>& loads);
  std::string load_function(const std::vector<ir::ExprId>& loads, const std::vector<ir::ExprId>& row_loads);
  std::string work_function(const std::vector<std::string>& matmuls);
  std::string load_member(ir::ExprId load, const std::string& name) const;

  // cuda_whole_rows.cpp: one that sums over its rows.
  bool sums_over_rows() const;
  int reductions_of_a_pass() const;
  std::set<ir::ExprId> values_between_passes() const;
  void print_pass_values(int pass, const std::set<ir::ExprId>& between, std::vector<ir::ExprId>& defined);
  std::string pass_text(int pass, const std::set<ir::ExprId>& between);
  std::string apply_function(const std::vector<std::string>& matmuls);
  std::string passes_members() const;
  std::string kept_name(ir::ExprId id);

  // cuda_ahead.cpp: the loads of the next row, under way while a block computes on this one.
  std::vector<ir::ExprId> loads_ahead() const;
  int64_t bytes_ahead(ir::ExprId id, int64_t steps) const;  // of a block; 0 steps: of all the row
  bool makes_room_ahead(const std::vector<ir::ExprId>& loads);
  void declare_ahead();
  bool print_function(const std::string& name, const std::function<void()>& print_body);
  std::string where_ahead(ir::ExprId id, const std::string& there);
  void print_fetch();
  bool walks_ahead() const;
  void fetch_first();
  void await_step();
  std::string next_row() const;
  void fetch_next();
  std::string place_ahead(ir::ExprId id) const;  // of the chunk

  // cuda_overlap.cpp: a row's first pass within the last pass over the row before.
  bool overlaps_rows() const;
  bool is_reduced_ahead(const Loop& loop) const;
  void print_reduce();
  void take_reductions(const Loop& loop);
  std::string reduce_call(const std::string& row, const std::string& start) const;
  void reduce_behind(const std::string& row, const std::string& condition);
  void reduce_last(const std::string& row);
  void reduce_next_behind();
  void reduce_next_last();

  // cuda_address.cpp: where elements lie, and their text.
  std::string c_type(int operand) const;
  std::string pointer(int operand, const ir::Index& index);
  std::string element(int operand, const ir::Index& index);
  std::string widened(int operand, const std::string& text) const;
  std::string narrowed(int operand, const std::string& text) const;
  std::string load_text(const ir::Expr& expr);
  std::string row_pointer(int operand, const std::string& rows);
  bool counts_as_flat_index(const ir::Affine& offset) const;
  bool is_in_vector() const;
  bool is_dense(const Address& at) const;
  std::string position(const ir::Affine& position) const;

  // cuda_pass.cpp: a pass over the columns of a space.
  std::set<ir::ExprId> in_pass(const Loop& loop) const;
  std::string pass_comment(const Loop& loop, const std::set<ir::ExprId>& ids) const;
  void print_loop(const Loop& loop);
  void print_walk(const Loop& loop, const std::set<ir::ExprId>& ids);
  void print_step(const Loop& loop, const std::set<ir::ExprId>& ids);

  // cuda_columns.cpp: what a pass loads, computes and stores.
  void declare_columns(int space);
  void open_chunks(int space);
  void close_chunks(int space);
  bool declares_columns(int space) const;
  bool has_scope(int space) const;
  void forget_values(int space, const std::vector<ir::ExprId>& defined);
  void open_elements(int space);
  void close_elements(int space);
  void print_columns_variables(int space);
  bool names_variables(int space) const;
  void print_loads(int space, const std::set<ir::ExprId>& ids);
  void print_load(int space, ir::ExprId id);
  void print_compute(const Loop& loop, const std::set<ir::ExprId>& ids);
  void print_values(const std::set<ir::ExprId>& ids, std::vector<ir::ExprId>& defined);
  void print_outputs(const Loop& loop, const std::map<int, std::string>& outputs);
  std::map<int, std::string> declare_outputs(const Loop& loop);
  bool moves_row(int space) const;
  std::optional<std::string> row_start(int operand, const ir::Index& index);
  std::string row_end(int space) const;
  static std::string narrower_access(const ColumnAccess& access, const ColumnLayout& layout);
  std::string load_definition(int space, ir::ExprId id);
  std::string kept_row(int store) const;
  void find_kept_rows(const Loop& loop);
  void declare_kept(int space, const std::set<ir::ExprId>& ids);
  void forget_loads(const std::set<ir::ExprId>& ids);
  const ColumnLayout& columns(int space) const { return layout_.columns[space]; }
  std::string per_element(const std::string& name, int space) const;  // name[k][j]
  std::string array_of(const std::string& name, int space) const;     // name[kChunks][kVector]
  std::string access_text(int space, int width) const;  // elements of an access, of a vector at most
  std::string access_text(int space, const ColumnAccess& access) const;
  bool guards(int space) const;
  std::string elements_text(int space, const ColumnAccess& access) const;  // that a thread moves: "kVector"
  static std::string element_in(const ColumnAccess& access);               // "j", "2 * j + 1"
  static ir::Index first_of_pair(ir::Index index, const ColumnAccess& access);
  std::optional<int> half_of_pair(const Loop& loop, int store) const;

  // cuda_plain.cpp: conditions on the column, asked of whole vectors.
  std::optional<int> compared_column(ir::ExprId condition, int space) const;
  std::vector<ir::ExprId> plain_conditions(int space, const std::set<ir::ExprId>& ids) const;
  std::string compared_value(ir::ExprId condition, int space) const;
  void open_plain_elements(int space, const std::set<ir::ExprId>& ids);
  void close_plain_elements(int space);
  std::string plain_definition(ir::ExprId condition) const;

  // cuda_reductions.cpp: sums, maxima and logsumexp of a row.
  void declare_reductions(const Loop& loop, const std::string& prefix);
  std::string neutral(ir::ExprId reduction) const;
  void accumulate(const Loop& loop);
  void add_exponential(ir::ExprId logsumexp);
  void print_maximum(const std::string& name, ir::ExprId value);
  void print_peaks(const Loop& loop);
  void print_exponential_sums(const Loop& loop);
  void finish_reductions(const Loop& loop);
  std::vector<ir::ExprId> reductions(const Loop& loop, ir::ExprOp op) const;

  // cuda_reuse.cpp
  CudaReuse plan_reuse() const;
  bool loads_early(ir::ExprId id) const;
  int sources_beneath(ir::ExprId id, const CudaReuse& reuse) const;
  bool is_invariant(ir::ExprId id) const;

  // cuda_sums.cpp: sums over rows.
  void declare_sums();
  void add_to_sum(int store);
  void print_partial_sums();
  void print_partial(int store);
  void print_direct(int store, const std::string& sum);
  std::optional<int> summed_by(ir::ExprId reduction) const;
  bool adds_before_reducing() const;
  bool sums_in_registers(int store) const;
  bool sums_are_direct() const;
  int64_t floats_of_sum(int store) const;  // of a thread
  int64_t bytes_to_add_rows() const;       // for each of them
  bool adds_rows_together() const;
  void declare_raised();
  void raise(int store);
  void print_raised();
  int64_t static_shared_bytes() const;

  const targets::Target& gpu_;
  const CudaLayout layout_;
  const std::vector<bool> from_16_bits_;  // by expression
  const bool walks_rows_;                 // a block sees many rows
  Writer out_;
  Writer outside_;  // of the chunk that is open
  ExpressionText text_;
  CudaReuse reuse_;
  std::map<std::pair<int, std::string>, std::string> row_pointers_;  // (operand, row offset) -> name
  std::map<ir::ExprId, Columns> columns_;                            // loads at hand
  std::map<int, std::string> kept_rows_;   // by store: the statements that store arrays of a pass
  std::map<int, std::string> sum_names_;   // by store
  std::map<int, std::string> raised_;      // by operand: the largest value that the thread has seen
  std::vector<std::string> kept_members_;  // of an epilogue's row, from one pass to the next
  std::map<ir::ExprId, std::pair<std::string, std::string>> exponentials_;  // logsumexp: its peak and sum
  std::map<ir::ExprId, std::string>
      ahead_;  // loads that fetch brings to shared memory, in the thread's places
  int block_threads_ = 0;
  std::set<std::string> bounds_;  // CudaLaunch::bounds
  int64_t ahead_bytes_ = 0;
  std::string ahead_offset_;          // ahead_bytes_ as an expression
  int64_t steps_ahead_ = 0;           // of a walked row, where not all of them come ahead
  const Loop* last_ahead_ = nullptr;  // the last pass that reads them there
  bool has_whole_blocks_ = false;     // of a flat kernel: no thread of a block ends before the others
  bool overlaps_rows_ = false;        // overlaps_rows(), once that is known
  bool reduce_takes_row_ = false;     // reduce(r, start)
  bool counts_elements_ = false;      // a flat kernel's text may name `first`, its first element
  int flat_space_ = ir::kRowSpace;    // whose columns it counts beside the rows
  std::set<ir::ExprId> plain_;        // conditions of the pass that plain vectors need not ask
  std::set<int> declared_spaces_;     // whose column variables stand before the row
  std::string start_;                 // the step's first column, in a row that is walked in steps
};

}  // namespace hydrac::codegen
