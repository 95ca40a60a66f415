#include "codegen/row_history.h"

#include "codegen/attention_text.h"
#include "cuda/history_geometry.h"

namespace hydrac::codegen {

namespace {

// The text that both targets share for a node.
class HistoryText {
 public:
  HistoryText(const ir::Graph& graph, const ir::Node& node)
      : graph_(graph),
        node_(node),
        dimensions_(graph),
        rows_(graph.value(node.inputs[0]).shape),
        history_(graph.value(node.outputs.back()).shape),
        appends_(node.op == ir::Op::history_append) {}

  Size batch() const { return dimensions_.of(rows_[0]); }
  Size rows() const { return dimensions_.of(history_[1]); }
  Size heads() const { return rows_.size() == 4 ? dimensions_.of(rows_[2]) : literal(1); }
  Size width() const { return dimensions_.of(rows_.back()); }
  ir::DType dtype() const { return graph_.value(node_.inputs[0]).dtype; }

  void describe(KernelSource& kernel) const {
    kernel.name = to_string(node_.op);
    kernel.comment = appends_ ? "The last rows of prompts into the history of their sequences"
                              : "New rows into the history of their sequences, and the rows before them";
    kernel.read(graph_, "x", node_.inputs[0]);
    if (appends_) {
      kernel.read(graph_, "sequences", node_.inputs[1]);
      kernel.read(graph_, "ends", node_.inputs[2]);
    } else {
      kernel.read(graph_, "positions", node_.inputs[1]);
    }
    kernel.write(graph_, "history", node_.outputs.back());
    if (!appends_) kernel.write(graph_, "window", node_.outputs[0]);
  }

  // The templates' arguments.
  Code arguments() const {
    return code("{}, {}", heads_code(dimensions_, graph_, node_.inputs[0], "x", rows_.back()),
                appends_ ? "sequences, ends, history" : "positions, history, window");
  }

 private:
  const ir::Graph& graph_;
  const ir::Node& node_;
  const Dimensions dimensions_;
  const ir::Shape rows_, history_;  // [B,T,W] or [B,T,heads,W]; [S,R,..]
  const bool appends_;
};

}  // namespace

CpuKernel cpu_row_history(const ir::Graph& graph, const ir::Node& node) {
  const HistoryText text(graph, node);
  CpuKernel kernel;
  kernel.header = "cpu/row_history.h";
  text.describe(kernel);
  Block& body = kernel.text.body;
  body.line("constexpr cpu::HistoryShape shape{{{}, {}, {}, {}}};", text.batch(), text.rows(), text.heads(),
            text.width());
  body.line("cpu::{}(shape, {});", to_string(node.op), text.arguments());
  return kernel;
}

CudaKernels cuda_row_history(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const HistoryText text(graph, node);
  CudaKernel kernel;
  kernel.header = "cuda/row_history.cuh";
  kernel.text.attributes = kernel_attributes();
  open_body(kernel.text, gpu);
  text.describe(kernel);
  const int64_t blocks = cuda::history_blocks(text.batch().value * text.rows().value, text.heads().value,
                                              text.width().value, static_cast<int>(size_of(text.dtype())));
  kernel.launch = {blocks, cuda::kHistoryThreads, 0, "kBlocks"};
  kernel.text.sizes = launch_constants(kernel.launch);
  kernel.text.body.line("using Shape = cuda::HistoryShape<{}, {}, {}, {}, {}>;",
                        c_type(text.dtype(), kCudaDialect), text.batch(), text.rows(), text.heads(),
                        text.width());
  kernel.text.body.line("cuda::{}<Shape>({});", to_string(node.op), text.arguments());
  return {{std::move(kernel)}, 0};
}

}  // namespace hydrac::codegen
