// Rows of earlier tokens for ops that read them (convolutions over time, shifted values), where a step has
// one token of each sequence: a history keeps the newest rows of each. Targets bring the kernels.
//
// The row of the token at position p is kept at p % R. So no row moves, a text that begins needs nothing
// cleared, and a step may be done again after the one behind it: it finds the rows before it as they were.
#include <algorithm>

#include "ops/builder.h"
#include "ops/shapes.h"

namespace hydrac::ops {

void history_append(RegionBuilder& b, Use x, Use history, Use sequences, Use ends) {
  b.emit_node(ir::Op::history_append, {x, sequences, ends, history}, {history});
}

Use history_window(RegionBuilder& b, Use x, Use history, Use positions, const std::string& name) {
  ir::Shape shape = b.shape(x);
  shape[1] = b.shape(history)[1];
  const Use window = b.emit(ir::Op::history_window, {x, positions, history}, name, std::move(shape));
  b.region().nodes.back().outputs.push_back(history);
  return window;
}

namespace {

// Bytes of the rows that `batch` sequences, or prompts, have in a history.
double bytes_of_rows(const ir::Value& history, int64_t batch) {
  return static_cast<double>(batch * (element_count(history.shape) / history.shape[0].size) *
                             size_of(history.dtype));
}

// As many rows are read as written.
Cost history_append_cost(const ir::Graph& graph, const ir::Node& node) {
  const int64_t prompts = graph.value(node.inputs[0]).shape[0].size;
  return {0, 2 * bytes_of_rows(graph.value(node.inputs[3]), prompts)};
}

// The new row is written twice.
Cost history_window_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& x = graph.value(node.inputs[0]);
  return {0, 2 * bytes_of_rows(graph.value(node.inputs[2]), x.shape[0].size) +
                 static_cast<double>(element_count(x.shape) * size_of(x.dtype))};
}

int64_t row_width(const Tensor64& history) {
  return static_cast<int64_t>(history.data.size()) / (history.shape[0] * history.shape[1]);
}

void history_append_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const Tensor64 &x = in[0], &history = in[3];
  const int64_t rows = history.shape[1], width = row_width(history), tokens = x.shape[1];
  out[0].data = history.data;
  for (int64_t a = 0; a < x.shape[0]; ++a) {
    const auto sequence = static_cast<int64_t>(in[1].data[a]), end = static_cast<int64_t>(in[2].data[a]);
    if (sequence < 0) continue;
    for (int64_t t = std::max<int64_t>(end - rows + 1, 0); t <= end; ++t)
      std::copy_n(&x.data[(a * tokens + t) * width], width,
                  &out[0].data[(sequence * rows + t % rows) * width]);
  }
}

void history_window_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const Tensor64 &x = in[0], &history = in[2];
  const int64_t rows = history.shape[1], width = row_width(history);
  out[1].data = history.data;
  for (int64_t s = 0; s < x.shape[0]; ++s) {
    const auto position = static_cast<int64_t>(in[1].data[s]);
    std::copy_n(&x.data[s * width], width, &out[1].data[(s * rows + position % rows) * width]);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = position - (rows - 1 - i);
      double* row = &out[0].data[(s * rows + i) * width];
      if (at < 0)
        std::fill_n(row, width, 0.0);
      else
        std::copy_n(&out[1].data[(s * rows + at % rows) * width], width, row);
    }
  }
}

}  // namespace

extern const OpInfo kHistoryAppend{
    .op = ir::Op::history_append,
    .formula = "history[sequences[a], t % R] = x[a, t] of the last R tokens t up to ends[a]",
    .cost = history_append_cost,
    .reference = history_append_reference};
extern const OpInfo kHistoryWindow{
    .op = ir::Op::history_window,
    .formula = "window = the last R rows up to x, which history then has too; zeros before a sequence",
    .cost = history_window_cost,
    .reference = history_window_reference};

}  // namespace hydrac::ops
