#include "codegen/cpu_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "codegen/body_names.h"

namespace hydrac::codegen {

namespace {

using ir::Affine;
using ir::Body;
using ir::Expr;
using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

class CpuBodyPrinter : BodyNames {
 public:
  CpuBodyPrinter(const ir::Graph& graph, const ir::Node& node)
      : BodyNames(graph, node, {"r", "rows", "layer", "workspace", "block", "sums"}),
        text_(
            body_, [this](ExprId id) { return names_[id]; }, [this](const Expr& e) { return load_text(e); },
            variables_) {}

  KernelSource print() {
    KernelSource source;
    columns_outside_ = sums_over_few_rows();
    source.comment = extents_comment();
    source.workspace_bytes = columns_outside_ || sums_.empty() ? 0 : blocks() * sum_width_ * 4;
    out_.open(fmt::format("static void {}({}) {{", kNamePlaceholder, parameters(source)));
    print_uniform();
    if (columns_outside_) {
      print_columns_outside();
    } else if (!sums_.empty()) {
      print_row_blocks();
    } else {
      print_rows();
    }
    out_.close();
    source.text = out_.text();
    return source;
  }

 private:
  // Declares a variable for the expression.
  void define(ExprId id) {
    const std::string definition = text_.definition(id);
    names_[id] = unique(wanted_name(id));
    out_.line(fmt::format("const {} {} = {};", c_type(body_.exprs[id].type), names_[id], definition));
  }

  std::string element(int operand, const ir::Index& index) {
    const Address at = address(operand, index, text_);
    std::string inside = at.gathered;
    const std::string columns = at.columns == Affine{} ? "" : affine_text(at.columns, variables_);
    auto append = [&](const std::string& more) {
      if (!more.empty()) inside += (inside.empty() ? "" : " + ") + more;
    };
    const std::string rows = rows_text(at.rows);
    if (!columns_outside_ && !rows.empty() && at.gathered.empty() && !at.columns.terms.empty()) {
      append(columns);
      return fmt::format("{}[{}]", row_pointer(operand, rows), inside);
    }
    append(rows);
    append(columns);
    return fmt::format("{}[{}]", operand_names_[operand], inside.empty() ? "0" : inside);
  }

  std::string row_pointer(int operand, const std::string& rows) {
    auto [found, is_new] = row_pointers_.try_emplace({operand, rows});
    if (is_new) found->second = unique(operand_names_[operand] + "_row");
    return found->second;
  }

  std::string load_text(const Expr& expr) const {
    return const_cast<CpuBodyPrinter*>(this)->element(expr.operand, expr.index);
  }

  // ---- shape of the function

  std::string parameters(KernelSource& source) {
    std::vector<std::string> list;
    for (size_t o = 0; o < body_.operands.size(); ++o) {
      if (operand_names_[o].empty() || !is_used(static_cast<int>(o))) continue;
      const ir::Operand& operand = body_.operands[o];
      const bool is_written = operand.output >= 0;
      list.push_back(
          fmt::format("{}{}* {}", is_written ? "" : "const ", c_type(operand.dtype), operand_names_[o]));
      source.arguments.push_back(use_of(static_cast<int>(o)));
    }
    if (source.workspace_bytes > 0) list.push_back("float* workspace");
    list.push_back("[[maybe_unused]] int layer");
    return fmt::format("{}", fmt::join(list, ", "));
  }

  // Work small enough that starting threads would cost more.
  bool is_small() const {
    int64_t columns = 1;
    for (size_t s = 0; s < body_.spaces.size(); ++s)
      columns = std::max(columns, element_count(body_.space_shape(static_cast<int>(s))));
    return body_.row_count() * columns < 8192;
  }

  int64_t blocks() const { return std::min<int64_t>(kRowBlocks, body_.row_count()); }

  // A sum over a few rows into many columns (learned positions): columns go outside, and nothing partial is
  // kept.
  bool sums_over_few_rows() const {
    return sums_.size() == body_.stores.size() && !sums_.empty() && stages_.size() == 1 &&
           std::ranges::all_of(sums_, [&](int s) {
             return body_.stores[s].space != kRowSpace && body_.spaces[body_.stores[s].space].size() == 2;
           });
  }

  void print_uniform() {
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      if (live_[i] && deps_[i].uniform && deserves_name(static_cast<ExprId>(i)))
        define(static_cast<ExprId>(i));
    }
  }

  void print_rows() {
    const int64_t rows = body_.row_count();
    if (body_.row_variables == 0 || rows == 1) {
      out_.open("{");
      if (body_.row_variables > 0) out_.line("constexpr std::int64_t r = 0;");
    } else {
      if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
      out_.open(fmt::format("for (std::int64_t r = 0; r < {}; ++r) {{", rows));
    }
    print_row();
    out_.close();
  }

  void print_row_blocks() {
    const int64_t rows = body_.row_count(), count = blocks();
    if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
    out_.open(fmt::format("for (std::int64_t block = 0; block < {}; ++block) {{", count));
    out_.line(fmt::format("float* sums = workspace + block * {};", sum_width_));
    out_.line(fmt::format("std::fill_n(sums, {}, 0.0f);", sum_width_));
    if (rows == count) {
      // Without a loop: g++ unrolls one of a single turn before it vectorizes, and sums the loops inside one
      // by one.
      out_.open("{");
      out_.line("const std::int64_t r = block;");
    } else {
      out_.open(fmt::format("for (std::int64_t r = block * {0} / {1}; r < (block + 1) * {0} / {1}; ++r) {{",
                            rows, count));
    }
    print_row();
    out_.close();
    out_.close();
    int64_t offset = 0;
    for (int s : sums_) {
      print_final_sum(body_.stores[s], offset, count);
      offset += sum_elements(body_.stores[s]);
    }
  }

  // The partial sums of one store added up, block after block.
  void print_final_sum(const Store& store, int64_t offset, int64_t count) {
    const int64_t elements = sum_elements(store);
    const std::string at = offset == 0 ? "" : fmt::format(" + {}", offset);
    const char* assign = store.kind == StoreKind::add_column_sum ? "+=" : "=";
    if (elements == 1) {
      out_.open("{");
      out_.line("float total = 0.0f;");
      out_.line(
          fmt::format("for (std::int64_t block = 0; block < {}; ++block) total += workspace[block * {}{}];",
                      count, sum_width_, at));
      const std::vector<std::string> saved = variables_;
      if (store.space != kRowSpace) {
        for (int v : body_.spaces[store.space]) variables_[v] = "0";
      }
      out_.line(fmt::format("{} {} total;", element(store.operand, store.index), assign));
      variables_ = saved;
      out_.close();
      return;
    }
    const std::vector<int>& space = body_.spaces[store.space];
    if (space.size() != 1)
      throw std::logic_error("a column sum over several column dimensions needs few rows");
    if (elements * count > 65536)
      out_.line("#pragma omp parallel for simd schedule(static)");
    else
      out_.line("#pragma omp simd");
    out_.open(fmt::format("for (std::int64_t column = 0; column < {}; ++column) {{", elements));
    out_.line("float total = 0.0f;");
    out_.line(fmt::format(
        "for (std::int64_t block = 0; block < {}; ++block) total += workspace[block * {}{} + column];", count,
        sum_width_, at));
    // The column sums' index is the bare columns, so the flat column number finds the element.
    std::vector<std::string> saved = variables_;
    variables_[space[0]] = "column";
    out_.line(fmt::format("{} {} total;", element(store.operand, store.index), assign));
    variables_ = saved;
    out_.close();
  }

  void print_columns_outside() {
    for (int s : sums_) {
      const Store& store = body_.stores[s];
      const std::vector<int>& space = body_.spaces[store.space];
      const int64_t outer = body_.variables[space[0]].size, inner = body_.variables[space[1]].size;
      out_.line("#pragma omp parallel for schedule(static)");
      out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[0]], outer));
      out_.line("#pragma omp simd");
      out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[1]], inner));
      out_.line("float total = 0.0f;");
      out_.open(fmt::format("for (std::int64_t r = 0; r < {}; ++r) {{", body_.row_count()));
      out_.line(fmt::format("total += {};", text_.of(store.value)));
      out_.close();
      out_.line(fmt::format("{} {} total;", element(store.operand, store.index),
                            store.kind == StoreKind::add_column_sum ? "+=" : "="));
      out_.close();
      out_.close();
    }
  }

  // ---- one row

  // The row's text is written first, so that the pointers and variables it needs are known, and put behind
  // them.
  void print_row() {
    Writer outside = std::move(out_);
    out_ = Writer(outside.indent());
    plan_reuse();
    for (size_t level = 0; level < stages_.size(); ++level) {
      print_row_values(static_cast<int>(level));
      for (const Loop& loop : stages_[level].loops) print_loop(loop, static_cast<int>(level));
      for (int s : stages_[level].row_stores) print_row_store(body_.stores[s]);
    }
    const std::string row = out_.text();
    out_ = std::move(outside);
    print_row_variables();
    for (const auto& [key, name] : row_pointers_) {
      const ir::Operand& operand = body_.operands[key.first];
      out_.line(fmt::format("{}{}* {} = {} + {};", operand.output >= 0 ? "" : "const ", c_type(operand.dtype),
                            name, operand_names_[key.first], key.second));
    }
    out_.append(row);
  }

  void print_row_variables() {
    if (!needs_row_variables_) return;
    int64_t below = 1;
    for (int v = body_.row_variables; v-- > 0;) {
      const int64_t size = body_.variables[v].size;
      std::string value = below == 1 ? "r" : fmt::format("r / {}", below);
      if (v > 0) value += fmt::format(" % {}", size);
      out_.line(fmt::format("[[maybe_unused]] const std::int64_t {} = {};", variables_[v], value));
      below *= size;
    }
  }

  void print_row_values(int level) {
    for (size_t i = 0; i < body_.exprs.size(); ++i) {
      const ir::Dependence& dep = deps_[i];
      if (!live_[i] || dep.space != kRowSpace || dep.uniform || dep.level != level) continue;
      if (is_reduction(body_.exprs[i].op) || !deserves_name(static_cast<ExprId>(i)) || !names_[i].empty())
        continue;
      define(static_cast<ExprId>(i));
    }
  }

  void print_row_store(const Store& store) {
    if (store.kind == StoreKind::store) {
      out_.line(fmt::format("{} = {};", element(store.operand, store.index), text_.of(store.value)));
      return;
    }
    out_.line(fmt::format("sums[{}] += {};", sum_offset(store), text_.of(store.value)));
  }

  // ---- passes over the columns

  // Decides which column values later loops take from memory: stored tensors, and row buffers for expensive
  // ones.
  void plan_reuse() {
    std::map<ExprId, int> first_stage;  // of values computed by an earlier loop
    for (size_t level = 0; level < stages_.size(); ++level) {
      for (const Loop& loop : stages_[level].loops) {
        const auto at_hand = [&](ExprId id) {
          return first_stage.contains(id) && first_stage[id] < static_cast<int>(level) && can_reuse(id);
        };
        const std::set<ExprId> computed = needed(loop, [](ExprId) { return false; });
        for (ExprId id : needed(loop, at_hand)) {
          for (ExprId arg : body_.exprs[id].args) {
            if (at_hand(arg) && deps_[arg].space != kRowSpace) note_reuse(arg);
          }
        }
        auto note_root = [&](ExprId id) {
          if (deps_[id].space != kRowSpace && at_hand(id)) note_reuse(id);
        };
        for (ExprId reduction : loop.reductions) note_root(body_.exprs[reduction].args[0]);
        for (int s : loop.stores) note_root(body_.stores[s].value);
        for (ExprId id : computed) first_stage.try_emplace(id, static_cast<int>(level));
      }
    }
  }

  const Store* stored(ExprId id) const {
    for (const Store& store : body_.stores) {
      if (store.value == id && store.kind == StoreKind::store && store.space == deps_[id].space)
        return &store;
    }
    return nullptr;
  }

  bool can_reuse(ExprId id) const {
    if (deps_[id].space == kRowSpace || body_.exprs[id].op == ExprOp::load) return false;
    if (stored(id)) return true;
    constexpr int64_t most = 8192;  // floats of a row buffer, on the stack
    return body_.exprs[id].type == ir::ExprType::f32 && has_expensive_part(id) &&
           body_.spaces[deps_[id].space].size() == 1 &&
           element_count(body_.space_shape(deps_[id].space)) <= most;
  }

  void note_reuse(ExprId id) {
    if (stored(id) || row_buffers_.contains(id)) {
      reused_.insert(id);
      return;
    }
    reused_.insert(id);
    row_buffers_[id] = unique("kept");
    out_.line(
        fmt::format("float {}[{}];", row_buffers_[id], element_count(body_.space_shape(deps_[id].space))));
  }

  std::string reuse_text(ExprId id) {
    if (auto buffer = row_buffers_.find(id); buffer != row_buffers_.end()) {
      return fmt::format("{}[{}]", buffer->second, variables_[body_.spaces[deps_[id].space][0]]);
    }
    const Store* store = stored(id);
    return element(store->operand, store->index);
  }

  void print_loop(const Loop& loop, int level) {
    std::vector<ExprId> sums, largest, lse;
    for (ExprId id : loop.reductions) {
      const ExprOp op = body_.exprs[id].op;
      (op == ExprOp::sum ? sums : op == ExprOp::maximum ? largest : lse).push_back(id);
    }
    std::map<ExprId, std::string> peaks;  // of logsumexp: the largest argument comes first, then the sum
    for (ExprId id : sums) declare_reduction(id, "sum", "0.0f");
    for (ExprId id : largest) declare_reduction(id, "largest", "-HUGE_VALF");
    for (ExprId id : lse) {
      peaks[id] = unique("peak");
      out_.line(fmt::format("float {} = -HUGE_VALF;", peaks[id]));
    }
    open_loop(loop, reduction_clause(sums, largest, peaks));
    print_columns(loop, level, sums, largest, peaks);
    close_loop(loop);
    for (ExprId id : lse) print_exponential_sum(loop, level, id, peaks[id]);
  }

  void declare_reduction(ExprId id, const char* wanted, const char* start) {
    names_[id] = unique(wanted);
    out_.line(fmt::format("float {} = {};", names_[id], start));
  }

  std::string reduction_clause(const std::vector<ExprId>& sums, const std::vector<ExprId>& largest,
                               const std::map<ExprId, std::string>& peaks) const {
    std::vector<std::string> add, max;
    for (ExprId id : sums) add.push_back(names_[id]);
    for (ExprId id : largest) max.push_back(names_[id]);
    for (const auto& [id, name] : peaks) max.push_back(name);
    std::string clause;
    if (!add.empty()) clause += fmt::format(" reduction(+ : {})", fmt::join(add, ", "));
    if (!max.empty()) clause += fmt::format(" reduction(max : {})", fmt::join(max, ", "));
    return clause;
  }

  void open_loop(const Loop& loop, const std::string& clause) {
    const std::vector<int>& space = body_.spaces[loop.space];
    for (size_t v = 0; v < space.size(); ++v) {
      if (v + 1 == space.size()) out_.line("#pragma omp simd" + clause);
      out_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[v]],
                            body_.variables[space[v]].size));
    }
  }

  void close_loop(const Loop& loop) {
    for (size_t v = 0; v < body_.spaces[loop.space].size(); ++v) out_.close();
  }

  bool taken_from_memory(ExprId id, int level) const {
    return reused_.contains(id) && deps_[id].level < level + 1 && computed_.contains(id);
  }

  // Names the column values that a loop uses more than once, or takes from memory.
  std::vector<ExprId> print_column_values(const std::set<ExprId>& ids, int level) {
    std::vector<ExprId> defined;
    for (ExprId id : ids) {
      if (taken_from_memory(id, level)) {
        names_[id] = unique(wanted_name(id));
        out_.line(fmt::format("const {} {} = {};", c_type(body_.exprs[id].type), names_[id], reuse_text(id)));
      } else if (deserves_name(id) || row_buffers_.contains(id)) {
        define(id);
      } else {
        continue;
      }
      defined.push_back(id);
    }
    return defined;
  }

  std::set<ExprId> in_loop(const Loop& loop, int level) const {
    const auto from_memory = [&](ExprId id) { return taken_from_memory(id, level); };
    std::set<ExprId> ids = needed(loop, from_memory);
    // Those at the border are read, not computed.
    auto add_border = [&](ExprId id) {
      if (deps_[id].space != kRowSpace && from_memory(id)) ids.insert(id);
    };
    for (ExprId id : std::set<ExprId>(ids)) {
      for (ExprId arg : body_.exprs[id].args) add_border(arg);
    }
    for (ExprId reduction : loop.reductions) add_border(body_.exprs[reduction].args[0]);
    for (int s : loop.stores) add_border(body_.stores[s].value);
    return ids;
  }

  void print_columns(const Loop& loop, int level, const std::vector<ExprId>& sums,
                     const std::vector<ExprId>& largest, const std::map<ExprId, std::string>& peaks) {
    const std::set<ExprId> ids = in_loop(loop, level);
    const std::vector<ExprId> defined = print_column_values(ids, level);
    for (ExprId id : ids) {
      if (row_buffers_.contains(id) && !taken_from_memory(id, level)) {
        out_.line(fmt::format("{} = {};", reuse_text(id), names_[id]));
      }
    }
    for (ExprId id : sums) out_.line(fmt::format("{} += {};", names_[id], text_.of(body_.exprs[id].args[0])));
    for (ExprId id : largest) print_maximum(names_[id], body_.exprs[id].args[0]);
    for (const auto& [id, peak] : peaks) print_maximum(peak, body_.exprs[id].args[0]);
    for (int s : loop.stores) {
      const Store& store = body_.stores[s];
      if (store.kind == StoreKind::store) {
        out_.line(fmt::format("{} = {};", element(store.operand, store.index), text_.of(store.value)));
      } else {
        out_.line(fmt::format("sums[{}] += {};", affine_text(sum_position(store), variables_),
                              text_.of(store.value)));
      }
    }
    forget(defined);
    for (ExprId id : ids) computed_.insert(id);
  }

  void print_maximum(const std::string& name, ExprId value) {
    out_.line(fmt::format("{0} = {1} > {0} ? {1} : {0};", name, parenthesized(text_.of(value))));
  }

  // log(sum(exp(x))) = peak + log(sum(exp(x - peak)))
  void print_exponential_sum(const Loop& loop, int level, ExprId id, const std::string& peak) {
    const std::string total = unique("exp_sum");
    out_.line(fmt::format("float {} = 0.0f;", total));
    const ExprId argument = body_.exprs[id].args[0];
    const Loop only{loop.space, {id}, {}};
    open_loop(only, fmt::format(" reduction(+ : {})", total));
    const std::vector<ExprId> defined = print_column_values(in_loop(only, level), level);
    out_.line(fmt::format("{} += hydrac::exp({} - {});", total, text_.of(argument), peak));
    forget(defined);
    close_loop(only);
    names_[id] = unique("lse");
    out_.line(fmt::format("const float {} = {} + hydrac::log({});", names_[id], peak, total));
  }

  std::map<std::pair<int, std::string>, std::string> row_pointers_;  // (operand, row offset) -> name
  bool columns_outside_ = false;                                     // see sums_over_few_rows
  std::set<ExprId> reused_;                                          // read back by a later loop
  std::map<ExprId, std::string> row_buffers_;                        // of those that no tensor holds
  std::set<ExprId> computed_;                                        // by the loops printed so far
  Writer out_;
  ExpressionText text_;
};

}  // namespace

KernelSource cpu_kernel(const ir::Graph& graph, const ir::Node& fused) {
  KernelSource source = CpuBodyPrinter(graph, fused).print();
  source.name = std::get<std::string>(fused.attributes.at("name"));
  return source;
}

}  // namespace hydrac::codegen
