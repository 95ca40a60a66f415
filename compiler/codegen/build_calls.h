// Calls that the builders of all targets' programs share: matmuls and attention, with scratch memory as
// values.
#pragma once
#include <optional>
#include <string>

#include "program/program.h"

namespace hydrac::codegen {

// True of matmuls of groups of rows.
bool is_grouped(const ir::Node& node);

// A "gemm" node, or a grouped one, as a library's matmul.
program::Gemm gemm_of(const ir::Graph& graph, const ir::Node& node);

// A node of ranks, such as "all_reduce", as a call on its tensors. Absent for other ops.
std::optional<program::Call> call_of_ranks(const ir::Node& node);

// The shape of the matmul of a "gemm", a grouped one or a "fused_matmul".
program::GemmShape matmul_shape(const ir::Graph& graph, const ir::Node& node);

// The shape of an "attention" or "attention_backward" node.
program::AttentionShape attention_shape(const ir::Graph& graph, const ir::Node& node);

// Fills in the call's description of its operands and results. `node`: as it was before scratch memory joined
// its outputs.
void note_tensors(const ir::Node& node, program::Call& call);

// Scratch memory is a value that the node writes, so that the memory plan gives it a place.
ir::Use add_workspace(ir::Graph& graph, const ir::Region& region, ir::Node& node, const std::string& kernel,
                      int64_t bytes);

}  // namespace hydrac::codegen
