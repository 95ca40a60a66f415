// The text of layout.cpp of an emitted program, a part of it a function: the layout that the JIT uses, whose
// places and sizes have the names that they have in the program.
#pragma once
#include <string>
#include <string_view>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/tensors.h"
#include "emit/writer.h"
#include "targets/executable/program_layout.h"

namespace hydrac::emit {

class LayoutText {
 public:
  LayoutText(const driver::Compiled& compiled, const codegen::Dimensions& dimensions, const Tensors& tensors)
      : compiled_(compiled),
        layout_(targets::layout_of(compiled)),
        dimensions_(dimensions),
        tensors_(tensors) {}

  std::string print();

 private:
  const ir::Value& value(ir::ValueId id) const { return compiled_.graph.value(id); }
  std::string tensor(ir::ValueId id) const { return "m." + tensors_.text({id, {}}, ""); }
  std::string field(const ir::Value& parameter) const;       // "m.weights.attn_qkv_weight", all its slots
  std::string tensors_of(const ir::Value& parameter) const;  // and how ranks divide them
  std::string nf4(const ir::Value& parameter) const;
  std::string rows(const ir::Value& parameter, int64_t rows) const;

  // A member of the layout, unless it is 0; `text`: how the program says that number.
  void set(std::string_view member, int64_t number, std::string_view text = "");
  void place(std::string_view member, ir::ValueId id);
  void memory();
  void inputs();
  void state();
  void results();
  void replies();
  void text_encoder();
  void starts();
  void rope();
  void exchange();
  void checkpoint();
  void checkpoint_part(const std::string& list, const ir::Value& parameter, const ir::CheckpointPart& part);
  void checkpoint_names(const std::string& list, bool base);
  void optimizer_state();
  void gradients();
  void divided();
  void flop();

  const driver::Compiled& compiled_;
  const runtime::ProgramLayout layout_;
  const codegen::Dimensions& dimensions_;
  const Tensors& tensors_;
  Writer out_;
};

}  // namespace hydrac::emit
