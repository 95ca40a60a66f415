// The printer behind cuda_body_kernels: one Body, one layout, the text of its kernels.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/body_printer.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/layout.h"

namespace hydrac::codegen {

// Values of a row that are kept from one pass over its columns to the next; reuse.cpp.
struct CudaReuse {
  std::set<ir::ExprId> loads;   // as they lie in memory
  std::set<ir::ExprId> values;  // computed
  std::set<ir::ExprId> early;   // of the loads: made by the first pass though only later ones need them
};

class CudaBodyPrinter : BodyPrinter {
 public:
  CudaBodyPrinter(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);
  CudaKernels print();
  // The second kernel of column sums, which adds up `partials` rows of partial sums; sums.cpp.
  CudaKernel finishing_kernel(const Size& partials);

 private:
  // A load that the chunks of a pass make together, before anything is computed: an array of the thread.
  struct Columns {
    Code name;
    ColumnAccess access;
  };
  // The sums over rows of a thread: a variable or an array of them, and the element that a column adds to.
  struct Sum {
    std::string array;
    Code element;
  };

  // constants.cpp: names for numbers of the layout, declared before the kernel if it or its launch uses
  // them.
  Size lanes() const { return named(layout_.lanes, "kLanes"); }
  Size block_rows() const { return named(layout_.rows, "kRows"); }
  Size blocks() const { return named(layout_.blocks, "kBlocks"); }
  Size vector(int space) const;
  Size chunks(int space) const;
  Size step(int space) const;     // columns of a step
  Size steps(int space) const;    // of a row
  Size ahead(int space) const;    // columns of a row that come ahead, where not all do
  Size vectors(int space) const;  // of a row
  Size tiles() const;
  Size partial_rows() const;                      // of the workspace of sums
  Size partial_bytes(const Size& rows) const;     // of so many
  Code partial_sums_of(const Code& block) const;  // where its row of partial sums begins
  std::set<int> walked_spaces() const;
  std::string of_space(const std::string& name, int space) const;
  Block sizes() const;  // all of them
  Block sizes_for(Names used, const CudaLaunch& launch) const;
  Size grid(const Size& rows) const;
  void lay_out_grid(CudaLaunch& launch) const;

  // body.cpp: the kernel around a row, and how a GPU's expressions differ.
  void take_parameters(CudaKernel& kernel);
  std::string launch_bounds() const;
  Code random_element(ir::ExprId id);
  bool is_multiple_of_4(ir::ExprId id) const;
  std::optional<Code> aligned_chunk(ir::ExprId id);
  Code definition(ir::ExprId id) override;
  Code value_name(ir::ExprId id) override;
  std::string function_name(ir::ExprOp op, ir::ExprId argument) const;

  // shapes.cpp: what is around a row.
  void print_flat();
  void print_rows();
  void print_row_walk();
  void print_lanes();
  void print_column_variables(int space, const Code& column);

  // row.cpp
  void print_row();
  void before_loops(int level) override;
  void print_row_store(const ir::Store& store) override;
  bool has_narrow_rows() const override;
  Code row_offset(int operand, const Code& rows) override;
  bool loads_shared_row_values(int level) const;

  // matmul.cpp: the kernel of a matmul and the body behind it.
  CudaKernels print_matmul();
  CudaKernel matmul_kernel();
  void take_matrices(CudaKernel& kernel) const;
  Block matmul_sizes(int64_t blocks) const;
  std::vector<Code> partial_sums() const;

  // epilogue.cpp: the body's struct.
  Block epilogue();
  Block epilogue_members() const;
  std::vector<int> epilogue_tensors() const;
  std::vector<std::string> take_matmuls();
  std::vector<ir::ExprId> take_loads(bool invariant, Block& members, Names& fields);
  std::vector<ir::ExprId> take_row_loads(Block& operands, Names& fields);
  int epilogue_space() const;
  const Code& epilogue_column() const { return variables_[body_.spaces[epilogue_space()][0]]; }
  Code in_32_bits(int operand, const Code& number);
  Block with_first_element(Block code);
  Block begin_function(const std::vector<ir::ExprId>& loads);
  Block load_function(const std::vector<ir::ExprId>& loads, const std::vector<ir::ExprId>& row_loads);
  Block work_function(const std::vector<std::string>& matmuls);
  std::string load_member(ir::ExprId load, const std::string& name) const;

  // whole_rows.cpp: one that sums over its rows.
  bool sums_over_rows() const;
  int reductions_of_a_pass() const;
  std::set<ir::ExprId> values_between_passes() const;
  void print_pass_values(int pass, const std::set<ir::ExprId>& between, std::vector<ir::ExprId>& defined);
  Block pass_code(int pass, const std::set<ir::ExprId>& between);
  Block apply_function(const std::vector<std::string>& matmuls);
  Block passes_members() const;
  Code kept_name(ir::ExprId id);

  // ahead.cpp: the loads of the next row, under way while a block computes on this one.
  std::vector<ir::ExprId> loads_ahead() const;
  int64_t bytes_ahead(ir::ExprId id, int64_t steps) const;  // of a block; 0 steps: of all the row
  bool makes_room_ahead(const std::vector<ir::ExprId>& loads);
  void declare_ahead();
  bool print_function(const std::string& name, const std::function<void()>& print_body);
  Code where_ahead(ir::ExprId id, const Code& there);
  void print_fetch();
  void print_copy(ir::ExprId id);
  bool walks_ahead() const;
  void fetch_first();
  void await_step();
  Code next_row() const;
  void fetch_next();
  Code place_ahead(ir::ExprId id) const;  // of the chunk

  // overlap.cpp: a row's first pass within the last pass over the row before.
  bool overlaps_rows() const;
  bool is_reduced_ahead(const Loop& loop) const;
  void print_reduce();
  void take_reductions(const Loop& loop);
  Code reduce_call(const Code& row, const Code& start) const;
  void reduce_behind(const Code& row, const Code& condition);
  void reduce_last(const Code& row);
  void reduce_next_behind();
  void reduce_next_last();

  // address.cpp: what differs in a GPU's addresses and elements.
  Code widened(int operand, const Code& element) const;
  Code narrowed(int operand, const Code& value) const;
  Code load_code(const ir::Expr& expr) override;
  Code named_offset(const Address& at) const override;
  Code position(const ir::Affine& position) const override;
  bool counts_as_flat_index(const ir::Affine& offset) const;
  bool is_in_vector() const;

  // pass.cpp: a pass over the columns of a space.
  std::set<ir::ExprId> in_pass(const Loop& loop) const;
  std::string pass_comment(const Loop& loop, const std::set<ir::ExprId>& ids) const;
  void print_loop(const Loop& loop, int level) override;
  void print_walk(const Loop& loop, const std::set<ir::ExprId>& ids);
  void in_steps(const std::function<void()>& print);
  void print_step(const Loop& loop, const std::set<ir::ExprId>& ids);

  // columns.cpp: a thread's share of the columns.
  const ColumnLayout& columns(int space) const { return layout_.columns[space]; }
  ColumnAccess access_of(ir::ExprId load) const;
  ColumnAccess access_of(const ir::Store& store) const;
  Code of_chunk(const Code& name, int space) const;     // name[k]
  Code per_element(const Code& name, int space) const;  // name[k][j]
  Code array_of(const Code& name, int space) const;     // name[kChunks][kVector]
  Code access_width(int space, int width) const;        // elements of an access, of a vector at most
  Code access_width(int space, const ColumnAccess& access) const;
  Code elements(int space, const ColumnAccess& access) const;  // that a thread moves: "kVector"
  static std::string element_in(const ColumnAccess& access);   // "j", "2 * j + 1"
  static ir::Index first_of_pair(ir::Index index, const ColumnAccess& access);
  bool guards(int space) const;
  Code flat_column_of(int space) const;
  void print_columns_variables(int space);
  void declare_columns(int space);
  bool declares_columns(int space) const;
  void in_chunks(int space, const std::function<void()>& print);
  void in_elements(int space, const std::function<void()>& print);
  bool has_scope(int space) const;
  void forget_values(int space, const std::vector<ir::ExprId>& defined);

  // loads.cpp: what a pass loads.
  bool moves_row(int space) const;
  std::optional<Code> row_start(int operand, const ir::Index& index);
  Code row_end(int space) const;
  static std::string narrower_access(const ColumnAccess& access, const ColumnLayout& layout);
  Code load_definition(int space, ir::ExprId id);
  void print_loads(int space, const std::set<ir::ExprId>& ids);
  void print_load(int space, ir::ExprId id);
  void forget_loads(const std::set<ir::ExprId>& ids);

  // compute.cpp: what it computes, stores and keeps.
  void declare_kept(int space, const std::set<ir::ExprId>& ids);
  std::string kept_row(int store) const;
  std::map<int, std::string> declare_outputs(const Loop& loop);
  std::optional<int> half_of_pair(const Loop& loop, int store) const;
  void find_kept_rows(const Loop& loop);
  void print_compute(const Loop& loop, const std::set<ir::ExprId>& ids);
  std::vector<ir::ExprId> define_shared(int space, const std::set<ir::ExprId>& ids);
  std::vector<bool> varying_with(int variable) const;
  void print_values(const std::set<ir::ExprId>& ids, std::vector<ir::ExprId>& defined);
  void print_stores(const Loop& loop, const std::map<int, std::string>& outputs);
  void print_outputs(const Loop& loop, const std::map<int, std::string>& outputs);

  // plain.cpp: conditions on the column, asked of whole vectors.
  std::optional<int> compared_column(ir::ExprId condition, int space) const;
  std::vector<ir::ExprId> plain_conditions(int space, const std::set<ir::ExprId>& ids) const;
  Code compared_value(ir::ExprId condition, int space);
  void in_plain_elements(int space, const std::set<ir::ExprId>& ids, const std::function<void()>& print);
  Code plain_definition(ir::ExprId condition) const;

  // reductions.cpp: sums, maxima and logsumexp of a row.
  void declare_reductions(const Loop& loop, const std::string& prefix);
  std::string neutral(ir::ExprId reduction) const;
  void accumulate(const Loop& loop);
  void add_exponential(ir::ExprId logsumexp);
  void print_maximum(const Code& name, ir::ExprId value);
  void print_peaks(const Loop& loop);
  void print_exponential_sums(const Loop& loop);
  void finish_reductions(const Loop& loop);
  std::vector<ir::ExprId> reductions(const Loop& loop, ir::ExprOp op) const;

  // reuse.cpp
  CudaReuse plan_reuse() const;
  bool loads_early(ir::ExprId id) const;
  int sources_beneath(ir::ExprId id, const CudaReuse& reuse) const;
  bool is_invariant(ir::ExprId id) const;

  // sums.cpp: sums over rows.
  void declare_sums();
  void add_to_sum(int store);
  void print_partial_sums();
  void print_partial(int store);
  void print_direct(int store, const Code& sum);
  void print_total_of(int store);
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
  CudaReuse reuse_;
  std::map<ir::ExprId, Columns> columns_;          // loads at hand
  std::map<ir::ExprId, std::string> kept_arrays_;  // of values that are kept for a later pass
  std::map<int, Code> kept_rows_;                  // by store: the statements that store arrays of a pass
  std::map<int, Sum> sum_names_;                   // by store
  std::map<int, std::string> raised_;              // by operand: the largest value that the thread has seen
  Block kept_members_;                             // of an epilogue's row, from one pass to the next
  std::map<ir::ExprId, std::pair<std::string, std::string>> exponentials_;  // logsumexp: its peak and sum
  std::map<ir::ExprId, std::string>
      ahead_;  // loads that fetch brings to shared memory, in the thread's places
  int block_threads_ = 0;
  std::set<std::string> bounds_;  // CudaLaunch::bounds
  int64_t ahead_bytes_ = 0;
  Code ahead_offset_;                 // ahead_bytes_ as an expression
  int64_t steps_ahead_ = 0;           // of a walked row, where not all of them come ahead
  const Loop* last_ahead_ = nullptr;  // the last pass that reads them there
  bool has_whole_blocks_ = false;     // of a flat kernel: no thread of a block ends before the others
  bool overlaps_rows_ = false;        // overlaps_rows(), once that is known
  bool reduce_takes_row_ = false;     // reduce(r, start)
  bool counts_elements_ = false;      // a flat kernel's text may name `first`, its first element
  int flat_space_ = ir::kRowSpace;    // whose columns it counts beside the rows
  std::set<ir::ExprId> plain_;        // conditions of the pass that plain vectors need not ask
  std::set<int> declared_spaces_;     // whose column variables stand before the row
  Code start_;                        // the step's first column, in a row that is walked in steps
  Size any_rows_;                     // of a flat kernel: those of whatever call
  Code first_element_;                // the column of a vector's first element, in a loop over these
};

}  // namespace hydrac::codegen
