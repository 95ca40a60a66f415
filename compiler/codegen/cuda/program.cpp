#include "codegen/cuda/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/build_calls.h"
#include "codegen/cuda/body.h"
#include "codegen/cuda/library.h"
#include "codegen/cuda/weight_gradients.h"
#include "codegen/expression_text.h"
#include "codegen/kernel_table.h"
#include "codegen/spec_numbers.h"
#include "program/cost.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::codegen {

namespace {

using program::Call;
using program::Function;
using program::Program;
using program::Queue;
using program::Section;

// True if the node only writes zeros to a whole, contiguous tensor.
bool zeroes_a_tensor(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::fused || node.outputs.size() != 1 || node.body->stores.size() != 1) return false;
  const ir::Store& store = node.body->stores[0];
  const ir::Expr& value = node.body->exprs[store.value];
  const bool is_zero = value.op == ir::ExprOp::constant && value.type == ir::ExprType::f32 &&
                       value.number == 0 && !std::signbit(value.number);
  if (store.kind != ir::StoreKind::store || !is_zero) return false;
  int64_t written = node.body->row_count();
  if (store.space != ir::kRowSpace) written *= element_count(node.body->space_shape(store.space));
  const ir::Value& tensor = graph.value(node.outputs[0]);
  return !tensor.view && written == element_count(tensor.shape);
}

// Storages of values that only become a gradient, or a rank's part of one, and that nobody else reads: a
// micro-batch's gradient if these are summed whole, and a layer's if ranks keep parts. They are computed by
// the same algorithm as the gradient itself would be.
std::set<ir::ValueId> summands_of_gradients(const ir::Graph& graph) {
  std::set<ir::ValueId> summands, read_elsewhere;
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        const bool adds_to_gradient = std::ranges::any_of(node.outputs, [&](ir::Use output) {
          return output.value != ir::kNoValue && graph.value(output).role == ir::Role::gradient &&
                 std::ranges::count(node.inputs, output) > 0;
        });
        const bool sums_gradients = node.op == ir::Op::reduce_scatter && !node.optional_flag("tensor");
        const bool is_summand = adds_to_gradient || sums_gradients;
        for (const ir::Use input : node.inputs) {
          if (input.value != ir::kNoValue)
            (is_summand ? summands : read_elsewhere).insert(storage_of(graph, input.value));
        }
      }
    }
  }
  std::erase_if(summands, [&](ir::ValueId id) { return read_elsewhere.contains(id); });
  return summands;
}

class CudaProgramBuilder {
 public:
  CudaProgramBuilder(ir::Graph& graph, const CudaOptions& options)
      : graph_(graph), options_(options), summands_(summands_of_gradients(graph)) {}

  Program run() {
    for (ir::Function& function : graph_.functions) {
      Function out{function.name, {}};
      function_ = function.name;
      for (ir::Region& region : function.regions) {
        Section section{region.name, region.layers, region.reverse, {}, region.first_layer};
        for (ir::Node& node : region.nodes) add_calls(region, node, section.calls);
        out.sections.push_back(std::move(section));
      }
      program_.functions.push_back(std::move(out));
    }
    program_.dimensions = cuda_dimensions(graph_, *options_.gpu);
    program_.numbers = SpecNumbers(graph_).all();
    return std::move(program_);
  }

 private:
  // A node's work counts for its first call; a second kernel only finishes sums.
  void add_calls(const ir::Region& region, ir::Node& node, std::vector<Call>& calls) {
    const ops::Cost cost = program::cost_of(graph_, node);
    const std::string label = graph_.value(node.outputs[0]).name;
    const ir::Node without_scratch = node;
    const size_t first = calls.size();
    size_t main_call = first;
    if (node.op == ir::Op::gemm) {
      calls.push_back(gemm(node));
    } else if (const std::optional<Call> of_ranks = call_of_ranks(node)) {
      calls.push_back(*of_ranks);
    } else if (node.op == ir::Op::transfer) {
      calls.push_back({.work = program::Copy{}, .arguments = {node.inputs[0], node.outputs[0]}});
    } else if (zeroes_a_tensor(graph_, node)) {
      calls.push_back({.work = program::Zero{}, .arguments = node.outputs});
    } else if (!add_cudnn_attention(region, node, calls)) {
      main_call += add_launches(region, node, calls);
    }
    for (size_t i = first; i < calls.size(); ++i) {
      calls[i].label = label;
      note_tensors(without_scratch, calls[i]);
      note_writes(region, node, calls[i]);
    }
    calls[main_call].flop = cost.flop;
    calls[main_call].bytes = cost.bytes;
  }

  Call gemm(const ir::Node& node) {
    program::Gemm gemm = gemm_of(graph_, node);
    gemm.shape.beside = options_.streams > 1 && is_gradient(node.outputs[0]);
    Call call{.arguments = {node.inputs[0], node.inputs[1], node.outputs[0]}};
    call.arguments.push_back(gemm_workspace(gemm.shape.beside ? Queue::side : Queue::main));
    if (gemm.shape.bias) call.arguments.push_back(node.inputs[2]);
    if (gemm.shape.is_f8())
      call.arguments.insert(call.arguments.end(), node.inputs.end() - 2, node.inputs.end());
    call.work = gemm;
    return call;
  }

  // One for all matmuls of a queue: they run one after another.
  ir::Use gemm_workspace(Queue queue) {
    const auto [found, is_new] = gemm_workspaces_.try_emplace(queue, ir::kNoValue);
    ir::ValueId& workspace = found->second;
    if (is_new) {
      ir::Value value;
      value.name = queue == Queue::main ? "gemm.workspace" : "gemm.workspace.side";
      value.shape = {{options_.gemm_workspace_bytes / 4, ""}};
      value.role = ir::Role::state;
      workspace = graph_.add(std::move(value));
    }
    return {workspace, {}};
  }

  bool is_gradient(ir::Use use) const {
    const ir::ValueId storage = storage_of(graph_, use.value);
    return summands_.contains(storage) || graph_.value(use).role == ir::Role::gradient ||
           graph_.value(storage).role == ir::Role::gradient;
  }
  bool is_gemm_workspace(ir::Use use) const {
    return std::ranges::any_of(gemm_workspaces_,
                               [&](const auto& workspace) { return workspace.second == use.value; });
  }

  // Collectives that can overlap, and the kernels that read their results at once, have their own queue. So
  // have copies to the host and back. Collectives within a layer stay on the main queue, because the next
  // call waits for them. A call goes to the side queue if nothing before the update reads its results:
  // gradients of parameters, the sum of the losses, the next random step. The token embedding's gradient is
  // an exception: nothing follows it on the main queue, while the side queue is still busy. A call that only
  // fills scratch memory goes to the queue of its node's outputs.
  void note_writes(const ir::Region& region, const ir::Node& node, Call& call) const {
    std::vector<ir::Use> written;
    for (ir::Use use : call.arguments) {
      call.writes.push_back(std::ranges::count(node.outputs, use) > 0 || is_gemm_workspace(use));
      if (call.writes.back() && is_output(use)) written.push_back(use);
    }
    if (written.empty())
      std::ranges::copy_if(node.outputs, std::back_inserter(written),
                           [&](ir::Use use) { return is_output(use); });
    const bool is_result = std::ranges::all_of(
        written, [&](ir::Use use) { return is_gradient(use) || is_last_word(region, node, use); });
    if (is_collective(call) || node.optional_flag("of_ranks")) {
      const bool is_beside = (function_ == "micro_step" && ranks_of(call) != runtime::RankGroup::tensor) ||
                             node.optional_flag("beside");
      call.queue = is_beside ? Queue::communication : Queue::main;
      return;
    }
    if (node.op == ir::Op::transfer) {
      call.queue = options_.streams > 1 ? Queue::host_copies : Queue::main;
      return;
    }
    call.queue = options_.streams > 1 && is_result && node.op != ir::Op::embedding_backward ? Queue::side
                                                                                            : Queue::main;
  }
  // True if the node writes a state for the update or the next step, which nothing later in this step reads.
  bool is_last_word(const ir::Region& region, const ir::Node& node, ir::Use use) const {
    const ir::ValueId storage = storage_of(graph_, use.value);
    if (function_ != "micro_step" || graph_.value(storage).role != ir::Role::state) return false;
    bool is_behind = region.layers > 0, is_read = false;
    for (const ir::Region& other : graph_.function(function_).regions) {
      for (const ir::Node& reader : other.nodes) {
        is_read |= is_behind && std::ranges::any_of(reader.inputs, [&](ir::Use input) {
                     return input.value != ir::kNoValue && storage_of(graph_, input.value) == storage;
                   });
        is_behind |= &reader == &node;
      }
    }
    return !is_read;
  }
  bool is_output(ir::Use use) const { return !is_gemm_workspace(use) && !scratch_.contains(use.value); }

  ir::Use scratch(const ir::Region& region, ir::Node& node, const std::string& kernel, int64_t bytes) {
    const ir::Use use = add_workspace(graph_, region, node, kernel, bytes);
    scratch_.insert(use.value);
    return use;
  }

  bool add_cudnn_attention(const ir::Region& region, ir::Node& node, std::vector<Call>& calls) {
    if (node.op != ir::Op::attention && node.op != ir::Op::attention_backward) return false;
    if (node.op == ir::Op::attention_backward && node.outputs.size() > 3)
      return false;  // which only ours sums
    const program::AttentionShape shape = attention_shape(graph_, node);
    const std::optional<int64_t> bytes = options_.cudnn_workspace(shape);
    if (!bytes) return false;
    Call call{.work = program::Attention{shape}};
    call.arguments = {node.inputs.begin(), node.inputs.begin() + (shape.backward ? 6 : 3)};
    call.arguments.insert(call.arguments.end(), node.outputs.begin(), node.outputs.end());
    call.arguments.push_back(scratch(region, node, to_string(node.op), std::max<int64_t>(*bytes, 4)));
    calls.push_back(std::move(call));
    return true;
  }

  CudaKernels kernels_of(const ir::Node& node) const {
    if (node.body) return cuda_body_kernels(graph_, node, *options_.gpu);
    if (node.op == ir::Op::weight_gradients) return weight_gradients_kernel(graph_, node, *options_.gpu);
    return cuda_library_kernels(graph_, node, *options_.gpu, options_.attention_tiles);
  }

  // Returns the index of the call that does the node's work.
  size_t add_launches(const ir::Region& region, ir::Node& node, std::vector<Call>& calls) {
    if (node.op == ir::Op::embedding_backward) node.inputs.push_back(order_of(node.inputs[0]));
    const CudaKernels source = kernels_of(node);
    ir::Use workspace;
    if (source.workspace_bytes > 0)
      workspace = scratch(region, node, source.kernels[source.main].name, source.workspace_bytes);
    for (const CudaKernel& kernel : source.kernels) {
      program::Launch launch;
      launch.grid = {kernel.launch.grid, kernel.launch.grid_text.text, kernel.launch.rows.text};
      const bool is_matmul = node.op == ir::Op::fused_matmul || node.op == ir::Op::grouped_matmul;
      if (is_matmul && !kernel.maps.empty()) launch.matmul = matmul_shape(graph_, node);
      Call call{.arguments = kernel.arguments};
      if (kernel.takes_workspace) call.arguments.push_back(workspace);
      program::Kernel added{.origin = node.origin};
      added.waits_for_previous = waits_for_previous(*options_.gpu);
      added.block = {kernel.launch.block, kernel.launch.shared_bytes};
      added.maps = kernel.maps;
      added.blocks_of_rows = kernel.launch.grid_of_rows.text;
      added.bounds = kernel.launch.bounds;
      const std::string label = graph_.value(node.outputs[0]).name;
      launch.kernel = kernels_.add(
          std::move(added), kernel, launch.grid.blocks,
          {function_, region.name, node.scope, label, sources_of(graph_, node), kernel.parameters});
      call.work = std::move(launch);
      calls.push_back(std::move(call));
    }
    return source.main;
  }

  // The port token_order of tokens, position_order of positions.
  ir::Use order_of(ir::Use ids) {
    const auto [order, is_new] = orders_.try_emplace(ids.value, ir::kNoValue);
    if (is_new) {
      const std::string& name = graph_.value(ids).name;
      ir::Value value;
      value.name = name.substr(0, name.size() - 1) + "_order";
      value.dtype = ir::DType::i32;
      value.shape = {{element_count(graph_.value(ids).shape), "BT"}};
      value.role = ir::Role::input;
      order->second = graph_.add(std::move(value));
      (ids.value == graph_.inputs.positions ? graph_.inputs.position_order : graph_.inputs.token_order) =
          order->second;
    }
    return {order->second, {}};
  }

  ir::Graph& graph_;
  const CudaOptions& options_;
  Program program_;
  KernelTable kernels_{program_.kernels};
  std::string function_;  // whose calls are being listed
  const std::set<ir::ValueId> summands_;
  std::map<Queue, ir::ValueId> gemm_workspaces_;
  std::map<ir::ValueId, ir::ValueId> orders_;  // of ids
  std::set<ir::ValueId> scratch_;
};

}  // namespace

Program build_cuda_program(ir::Graph& graph, const CudaOptions& options) {
  return CudaProgramBuilder(graph, options).run();
}

namespace {

std::string cuda_includes(const std::vector<const program::Kernel*>& kernels) {
  std::set<std::string> headers = {
      "cuda/previous_kernel.cuh", "cuda/reduce.cuh", "cuda/types.cuh", "cuda/vector.cuh",
      "hydrac/dynamic_code.h",    "hydrac/math.h",   "hydrac/nf4.h",   "hydrac/random.h"};
  for (const program::Kernel* kernel : kernels) {
    if (!kernel->header.empty()) headers.insert(kernel->header);
  }
  std::string text;
  for (const std::string& header : headers) text += fmt::format("#include \"{}\"\n", header);
  return text;
}

}  // namespace

std::string cuda_source(const Program& program, const std::vector<const program::Kernel*>& kernels) {
  std::string definitions;
  Names names;
  for (const program::Kernel* kernel : kernels) {
    definitions += definition_text(*kernel);
    names.insert(kernel->names.begin(), kernel->names.end());
  }
  const std::string constants = program_constants(program, names);
  return fmt::format("{}\nnamespace hydrac {{\n\n{}{}\n}}  // namespace hydrac\n", cuda_includes(kernels),
                     constants, definitions);
}

}  // namespace hydrac::codegen
