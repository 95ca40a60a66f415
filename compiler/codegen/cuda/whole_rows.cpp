// Epilogues that sum over whole rows; other epilogues are in epilogue.cpp. They make several passes over
// a row's columns: a pass may use the sums of the pass before, and values of a row are kept between passes.
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda/body_printer.h"
#include "codegen/cuda/matmul.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;

bool CudaBodyPrinter::sums_over_rows() const {
  return stages_.size() > 1;
}

int CudaBodyPrinter::reductions_of_a_pass() const {
  size_t most = 0;
  for (const Loop* loop : loops()) most = std::max(most, loop->reductions.size());
  return static_cast<int>(most);
}

// Values of the row, sums among them, that a pass needs after the one that finds them.
std::set<ExprId> CudaBodyPrinter::values_between_passes() const {
  const auto is_found = [&](ExprId id) {
    const ExprOp op = body_.exprs[id].op;
    return deps_[id].space == kRowSpace && !deps_[id].uniform && op != ExprOp::load && op != ExprOp::position;
  };
  std::set<ExprId> between;
  const auto note = [&](ExprId user, int pass) {
    for (const ExprId arg : body_.exprs[user].args) {
      if (is_found(arg) && deps_[arg].level < pass) between.insert(arg);
    }
  };
  for (ExprId id : live_) {
    if (is_found(id) && !is_reduction(body_.exprs[id].op)) note(id, deps_[id].level);
  }
  std::set<ExprId> at_hand;  // columns that an earlier pass keeps
  for (size_t pass = 0; pass < stages_.size(); ++pass) {
    for (const Loop& loop : stages_[pass].loops) {
      const std::set<ExprId> computed = needed(loop, [&](ExprId id) { return at_hand.contains(id); });
      for (const ExprId id : computed) {
        note(id, static_cast<int>(pass));
        if (reuse_.values.contains(id)) at_hand.insert(id);
      }
    }
  }
  return between;
}

// The member of Kept that holds a value of the row, or of each of a thread's columns.
Code CudaBodyPrinter::kept_name(ExprId id) {
  const std::string name = unique(wanted_name(id));
  const bool is_column = deps_[id].space != kRowSpace;
  kept_members_.line("{} {}{};", codegen::c_type(body_.exprs[id].type), name,
                     is_column ? fmt::format("[{}]", kColumnsOfAnEpilogue) : "");
  return code("{}.{}{}", named("kept"), name, is_column ? "[j]" : "");
}

// The row's values that become known before the pass. `defined`: those that are forgotten behind it.
void CudaBodyPrinter::print_pass_values(int pass, const std::set<ExprId>& between,
                                        std::vector<ExprId>& defined) {
  for (const Loop& loop : pass == 0 ? std::vector<Loop>() : stages_[pass - 1].loops) {
    for (size_t i = 0; i < loop.reductions.size(); ++i)
      names_[loop.reductions[i]] = code("{}[{}]", named("totals"), i);
  }
  for (ExprId id : live_) {
    const ir::Dependence& dep = deps_[id];
    if (dep.space != kRowSpace || dep.uniform || dep.level != pass) continue;
    if (between.contains(id)) {
      const Code value = names_[id].empty() ? definition(id) : names_[id];  // or a total
      names_[id] = kept_name(id);
      out_.line("{} = {};", names_[id], value);
    } else if (names_[id].empty() && deserves_name(id)) {
      define(id);
      defined.push_back(id);
    }
  }
}

Block CudaBodyPrinter::pass_code(int pass, const std::set<ExprId>& between) {
  return with_first_element(with_row_pointers(written([&] {
    std::vector<ExprId> defined;
    print_pass_values(pass, between, defined);
    for (const Loop& loop : stages_[pass].loops) print_loop(loop, pass);
    for (const int s : stages_[pass].row_stores) print_row_store(body_.stores[s]);
    forget(defined);
  })));
}

// Members that the matmul's kernel requires. Printed after the function, which decides what is kept.
Block CudaBodyPrinter::passes_members() const {
  Block members;
  members.line("static constexpr int passes = {};", stages_.size()).comment = "over a row";
  members.line("static constexpr int reductions = {};", reductions_of_a_pass()).comment =
      "of a pass, over the row";
  members.open("struct Kept").comment = "of a row, from one pass to the next";
  members.add(kept_members_);
  members.close("};");
  return members;
}

Block CudaBodyPrinter::apply_function(const std::vector<std::string>& matmuls) {
  const std::set<ExprId> between = values_between_passes();
  Block passes;
  for (size_t pass = 0; pass < stages_.size(); ++pass) {
    const bool is_last = pass + 1 == stages_.size();
    const std::string condition = is_last ? "" : fmt::format("if constexpr (pass == {})", pass);
    if (pass == 0) {
      passes.open("{}", condition);
    } else {
      passes.otherwise("else{}{}", is_last ? "" : " ", condition);
    }
    passes.add(pass_code(static_cast<int>(pass), between));
  }
  passes.close();
  // No pass need keep anything, nor read any operand.
  const Names used = passes.drop_unused();
  const auto named = [&](const char* name) { return used.contains(name) ? name : ""; };
  Block function;
  function.line("template <int pass>");
  function.open(
      "__device__ void apply(std::int64_t {}, int {}, {}, const Operands& {}, Kept& {}, "
      "const float (&{})[reductions], float (&{})[reductions])",
      named("r"), epilogue_column().text, fmt::join(matmuls, ", "), named("in"), named("kept"),
      named("totals"), named("partial"));
  function.add(std::move(passes));
  function.close();
  return function;
}

}  // namespace hydrac::codegen
