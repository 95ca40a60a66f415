// Passes over the columns of a row.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/cpu/body_printer.h"

namespace hydrac::codegen {

using ir::Affine;
using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

void CpuBodyPrinter::plan_reuse() {
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

const Store* CpuBodyPrinter::stored(ExprId id) const {
  for (const Store& store : body_.stores) {
    if (store.value == id && store.kind == StoreKind::store && store.space == deps_[id].space) return &store;
  }
  return nullptr;
}

bool CpuBodyPrinter::can_reuse(ExprId id) const {
  if (deps_[id].space == kRowSpace || body_.exprs[id].op == ExprOp::load) return false;
  if (stored(id)) return true;
  constexpr int64_t most = 8192;  // floats of a row buffer, on the stack
  return body_.exprs[id].type == ir::ExprType::f32 && has_expensive_part(id) &&
         body_.spaces[deps_[id].space].size() == 1 &&
         element_count(body_.space_shape(deps_[id].space)) <= most;
}

void CpuBodyPrinter::note_reuse(ExprId id) {
  if (stored(id) || row_buffers_.contains(id)) {
    reused_.insert(id);
    return;
  }
  reused_.insert(id);
  row_buffers_[id] = unique("kept");
  out_.line("RowBuffer<{}> {};", width_of(deps_[id].space), row_buffers_[id]);
}

Code CpuBodyPrinter::reuse_code(ExprId id) {
  if (auto buffer = row_buffers_.find(id); buffer != row_buffers_.end())
    return code("{}[{}]", buffer->second, variables_[body_.spaces[deps_[id].space][0]]);
  const Store* store = stored(id);
  return element(store->operand, store->index);
}

void CpuBodyPrinter::print_loop(const Loop& loop, int level) {
  std::vector<ExprId> sums, largest, lse;
  for (ExprId id : loop.reductions) {
    const ExprOp op = body_.exprs[id].op;
    (op == ExprOp::sum ? sums : op == ExprOp::maximum ? largest : lse).push_back(id);
  }
  std::map<ExprId, std::string> peaks;  // of logsumexp: the largest argument comes first, then the sum
  for (ExprId id : sums) declare_reduction(id, "0.0f");
  for (ExprId id : largest) declare_reduction(id, "-HUGE_VALF");
  for (ExprId id : lse) {
    peaks[id] = unique("peak");
    out_.line("float {} = -HUGE_VALF;", peaks[id]);
  }
  open_loop(loop, reduction_clause(sums, largest, peaks));
  print_columns(loop, level, sums, largest, peaks);
  close_loop(loop);
  for (ExprId id : lse) print_exponential_sum(loop, level, id, peaks[id]);
}

void CpuBodyPrinter::declare_reduction(ExprId id, const char* start) {
  names_[id] = unique(wanted_name(id));
  out_.line("float {} = {};", names_[id], start);
}

std::string CpuBodyPrinter::reduction_clause(const std::vector<ExprId>& sums,
                                             const std::vector<ExprId>& largest,
                                             const std::map<ExprId, std::string>& peaks) const {
  std::vector<std::string> add, max;
  for (ExprId id : sums) add.push_back(names_[id].text);
  for (ExprId id : largest) max.push_back(names_[id].text);
  for (const auto& [id, name] : peaks) max.push_back(name);
  std::string clause;
  if (!add.empty()) clause += fmt::format(" reduction(+ : {})", fmt::join(add, ", "));
  if (!max.empty()) clause += fmt::format(" reduction(max : {})", fmt::join(max, ", "));
  return clause;
}

void CpuBodyPrinter::open_loop(const Loop& loop, const std::string& clause) {
  const std::vector<int>& space = body_.spaces[loop.space];
  for (size_t v = 0; v < space.size(); ++v) {
    if (v + 1 == space.size()) out_.line("#pragma omp simd{}", clause);
    out_.open_loop("int", variables_[space[v]], dimensions_.of(body_.variables[space[v]]).code);
  }
}

void CpuBodyPrinter::close_loop(const Loop& loop) {
  for (size_t v = 0; v < body_.spaces[loop.space].size(); ++v) out_.close();
}

bool CpuBodyPrinter::taken_from_memory(ExprId id, int level) const {
  return reused_.contains(id) && deps_[id].level < level + 1 && computed_.contains(id);
}

std::vector<ExprId> CpuBodyPrinter::print_column_values(const std::set<ExprId>& ids, int level) {
  std::vector<ExprId> defined;
  for (ExprId id : ids) {
    if (taken_from_memory(id, level)) {
      names_[id] = unique(wanted_name(id));
      out_.line("const {} {} = {};", codegen::c_type(body_.exprs[id].type), names_[id], reuse_code(id));
    } else if (deserves_name(id) || row_buffers_.contains(id)) {
      define(id);
    } else {
      continue;
    }
    defined.push_back(id);
  }
  return defined;
}

std::set<ExprId> CpuBodyPrinter::in_loop(const Loop& loop, int level) const {
  const auto from_memory = [&](ExprId id) { return taken_from_memory(id, level); };
  std::set<ExprId> ids = needed(loop, from_memory);
  // Values at the border are read, not computed.
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

void CpuBodyPrinter::print_columns(const Loop& loop, int level, const std::vector<ExprId>& sums,
                                   const std::vector<ExprId>& largest,
                                   const std::map<ExprId, std::string>& peaks) {
  const std::set<ExprId> ids = in_loop(loop, level);
  const std::vector<ExprId> defined = print_column_values(ids, level);
  for (ExprId id : ids) {
    if (row_buffers_.contains(id) && !taken_from_memory(id, level))
      out_.line("{} = {};", reuse_code(id), names_[id]);
  }
  for (ExprId id : sums) out_.line("{} += {};", names_[id], text_.of(body_.exprs[id].args[0]));
  for (ExprId id : largest) print_maximum(names_[id], body_.exprs[id].args[0]);
  for (const auto& [id, peak] : peaks) print_maximum(peak, body_.exprs[id].args[0]);
  for (int s : loop.stores) {
    const Store& store = body_.stores[s];
    if (store.kind == StoreKind::store) {
      print_row_store(store);
    } else {
      Affine column = sum_position(store);
      column.constant = 0;
      const Code offset = sum_offset_code(store);
      out_.line("sums[{}] += {};", sum_of(offset, position_code(column)), text_.of(store.value));
    }
  }
  forget(defined);
  for (ExprId id : ids) computed_.insert(id);
}

void CpuBodyPrinter::print_maximum(const Code& name, ExprId value) {
  out_.line("{0} = {1} > {0} ? {1} : {0};", name, parenthesized(text_.of(value)));
}

void CpuBodyPrinter::print_exponential_sum(const Loop& loop, int level, ExprId id, const std::string& peak) {
  const std::string total = unique("exp_sum");
  out_.line("float {} = 0.0f;", total);
  const ExprId argument = body_.exprs[id].args[0];
  const Loop only{loop.space, {id}, {}};
  open_loop(only, fmt::format(" reduction(+ : {})", total));
  const std::vector<ExprId> defined = print_column_values(in_loop(only, level), level);
  out_.line("{} += exp({} - {});", total, text_.of(argument), peak);
  forget(defined);
  close_loop(only);
  names_[id] = unique(wanted_name(id));
  out_.line("const float {} = {} + log({});", names_[id], peak, total);
}

}  // namespace hydrac::codegen
