#include <fmt/ranges.h>

#include "codegen/cuda/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;

std::vector<ExprId> CudaBodyPrinter::reductions(const Loop& loop, ExprOp op) const {
  std::vector<ExprId> result;
  for (ExprId id : loop.reductions) {
    if (body_.exprs[id].op == op) result.push_back(id);
  }
  return result;
}

// The initial value of a sum or a maximum.
std::string CudaBodyPrinter::neutral(ExprId reduction) const {
  return body_.exprs[reduction].op == ExprOp::sum ? "0.0f" : "minus_infinity()";
}

void CudaBodyPrinter::declare_reductions(const Loop& loop, const std::string& prefix) {
  for (size_t i = 0; i < loop.reductions.size(); ++i) {
    const ExprId id = loop.reductions[i];
    if (node_.matmul.value != ir::kNoValue) {  // the matmul's kernel adds up what its threads have
      names_[id] = code("{}[{}]", named("partial"), i);
      continue;
    }
    if (const std::optional<int> store = summed_by(id)) {
      names_[id] = sum_names_.at(*store).element;
      continue;
    }
    if (body_.exprs[id].op == ExprOp::logsumexp) {
      exponentials_[id] = {unique(prefix + "peak"), unique(prefix + "exp_sum")};
      out_.line("float {} = kLowest, {} = 0.0f;", exponentials_[id].first, exponentials_[id].second);
      continue;
    }
    names_[id] = unique(prefix + wanted_name(id));
    out_.line("float {} = {};", names_[id], neutral(id));
  }
}

void CudaBodyPrinter::print_maximum(const Code& name, ExprId value) {
  out_.line("{0} = larger({0}, {1});", name, text_.of(value));
}

// Adds one element to the reductions of a pass.
void CudaBodyPrinter::accumulate(const Loop& loop) {
  for (ExprId id : loop.reductions) {
    const ExprId value = body_.exprs[id].args[0];
    switch (body_.exprs[id].op) {
      case ExprOp::sum:
        out_.line("{} += {};", names_[id], text_.of(value));
        break;
      case ExprOp::maximum:
        print_maximum(names_[id], value);
        break;
      default:
        if (start_.empty()) {
          print_maximum(exponentials_[id].first, value);
        } else {
          add_exponential(id);
        }
    }
  }
}

void CudaBodyPrinter::add_exponential(ExprId logsumexp) {
  const ExprId value = body_.exprs[logsumexp].args[0];
  const auto& [peak, sum] = exponentials_[logsumexp];
  out_.line("{} += {}({} - {});", sum, function_name(ExprOp::exp, value), parenthesized(text_.of(value)),
            peak);
}

// In a row that is walked in steps: the peak of what this step has loaded, and the sum so far against it.
void CudaBodyPrinter::print_peaks(const Loop& loop) {
  const std::vector<ExprId> ids = reductions(loop, ExprOp::logsumexp);
  if (ids.empty()) return;
  for (ExprId id : ids) {
    const auto& [peak, sum] = exponentials_[id];
    const std::string before = unique(peak + "_before");
    out_.line("const float {} = {};", before, peak);
    in_chunks(loop.space, [&, &peak = peak] {
      const std::set<ExprId> ids = in_pass({loop.space, {id}, {}});
      in_plain_elements(loop.space, ids, [&] {
        std::vector<ExprId> defined;
        print_values(ids, defined);
        print_maximum(peak, body_.exprs[id].args[0]);
        forget_values(loop.space, defined);
      });
    });
    out_.line("{} *= exp({} - {});", sum, before, peak);
    taken_.erase(before);
  }
}

// In a row that lies in registers: log(sum(exp(x))) = peak + log(sum(exp(x - peak))).
void CudaBodyPrinter::print_exponential_sums(const Loop& loop) {
  for (ExprId id : reductions(loop, ExprOp::logsumexp)) {
    in_chunks(loop.space, [&] {
      in_elements(loop.space, [&] {
        std::vector<ExprId> defined;
        print_values(in_pass({loop.space, {id}, {}}), defined);
        add_exponential(id);
        forget_values(loop.space, defined);
      });
    });
  }
}

// Over the lanes of the row, once a thread has seen all its columns.
void CudaBodyPrinter::finish_reductions(const Loop& loop) {
  const std::vector<ExprId> exponentials = reductions(loop, ExprOp::logsumexp);
  const bool is_shared = layout_.lanes > 1, online = columns(loop.space).steps > 1;
  std::vector<std::string> sums, largest;
  for (ExprId id : loop.reductions) {
    if (body_.exprs[id].op == ExprOp::sum && !summed_by(id)) sums.push_back(names_[id].text);
    if (body_.exprs[id].op == ExprOp::maximum) largest.push_back(names_[id].text);
  }
  std::vector<std::pair<std::string, std::string>>
      own;  // an exponential sum is against the thread's own peak
  for (ExprId id : exponentials) {
    const auto& [peak, sum] = exponentials_[id];
    largest.push_back(peak);
    if (!online || !is_shared) continue;
    own.emplace_back(unique("own_" + peak), peak);
    out_.line("const float {} = {};", own.back().first, peak);
  }
  if (is_shared && !largest.empty()) out_.line("lanes.largest({});", fmt::join(largest, ", "));
  if (!online) print_exponential_sums(loop);
  for (size_t i = 0; i < exponentials.size(); ++i) {
    const std::string& sum = exponentials_[exponentials[i]].second;
    sums.push_back(sum);
    if (!own.empty()) out_.line("{} *= exp({} - {});", sum, own[i].first, own[i].second);
  }
  if (is_shared && !sums.empty()) out_.line("lanes.sum({});", fmt::join(sums, ", "));
  for (ExprId id : exponentials) {
    const auto& [peak, sum] = exponentials_[id];
    names_[id] = unique(wanted_name(id));
    out_.line("const float {} = {} + log({});", names_[id], peak, sum);
  }
}

}  // namespace hydrac::codegen
