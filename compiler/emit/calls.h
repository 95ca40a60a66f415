// The calls of a function as C++ statements: its sections top-down, each a function of its own.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/queue_waits.h"
#include "emit/tensors.h"

namespace hydrac::emit {

class CallText {
 public:
  CallText(const driver::Compiled& compiled, const codegen::Dimensions& dimensions, const Tensors& tensors,
           const program::Function& function);

  // A section's calls, once or for one layer, as a function's definition.
  std::string definition(int section) const;
  // The same under another name.
  std::string definition(int section, const std::string& name) const;
  // The statement that runs a section: a call, in a loop over layers where it is one.
  // `behind`: a statement after each of its layers, {0} its number there.
  std::string statement(int section, const std::string& behind = "") const;

 private:
  struct Body {
    std::string text;
    std::vector<std::string> statements;   // its lines but for comments
    std::set<std::string> groups, queues;  // that they name
  };
  Body body_of(int section) const;
  // True where the function needs to know which layer it is.
  bool names_layer(const Body& body, const program::Section& section) const;
  std::string call_text(const program::Section& section, const program::Call& call) const;
  std::string launch(const program::Section& section, const program::Call& call,
                     const program::Launch& work) const;
  std::string gemm(const program::Section& section, const program::Call& call,
                   const program::Gemm& work) const;
  std::string attention(const program::Section& section, const program::Call& call,
                        const program::Attention& work) const;
  std::string collective(const program::Section& section, const program::Call& call,
                         const program::Collective& work) const;
  std::string accumulation(const program::Section& section, const program::GemmShape& shape) const;
  std::vector<std::string> call_comment(const program::Call& call) const;  // its lines
  std::string gemm_comment(const program::Call& call, const program::Gemm& gemm) const;
  std::vector<std::string> matmul_comment(const program::Call& call, const program::Launch& launch) const;
  std::vector<std::string> weight_gradients_comment(const program::Call& call,
                                                    const program::Launch& launch) const;
  std::string elements(ir::Use use) const;  // "B * T * C"
  std::string symbols(ir::Use use) const;   // "[B,T,C]"
  ir::Use workspace_of_queue(const program::Call& call) const;
  std::string mark(const CallPosition& behind, int index) const;
  std::string wait_comment(const program::Call& call, const program::Call& awaited,
                           const WaitReason& reason) const;
  const program::Call& call_at(const CallPosition& position) const;
  std::string queue(const program::Call& call) const;
  std::string layer_of(const program::Section& section) const;
  std::string count_of(const program::Section& section) const;

  const driver::Compiled& compiled_;
  const codegen::Dimensions& dimensions_;
  const Tensors& tensors_;
  const program::Function& function_;
  const QueueWaits waits_;
  const bool on_cpu_;
};

// The parameter by which functions make their calls: "Run& run".
std::string run_parameter(const driver::Compiled& compiled);

// The name of a section of a function of the program as a comment: "micro_step" and "block_backward".
std::string section_comment(const std::string& function, std::string section);

}  // namespace hydrac::emit
