#include "models/declarer.h"

#include "models/parameters.h"

namespace hydrac::models {

using ir::CheckpointPart;
using ir::Init;
using ir::ValueId;

Declarer::Declarer(ir::Graph& graph, const spec::Spec& spec)
    : graph_(graph), gpt2_(checkpoint_architecture(spec) == "gpt2") {}

ValueId Declarer::matrix(const std::string& name, ir::Shape shape, int slots, double deviation,
                         const std::vector<Names>& names, bool conv1d) {
  return declare(name, std::move(shape), slots, {Init::Kind::normal, deviation}, true, names,
                 conv1d && gpt2_);
}

ValueId Declarer::vector(const std::string& name, ir::Dim size, int slots, Init init,
                         const std::vector<Names>& names) {
  return declare(name, {std::move(size)}, slots, init, false, names, false);
}

void Declarer::name_slot(ValueId id, int slot, const Names& names) {
  auto& parts = graph_.value(id).parameter->checkpoint;
  for (CheckpointPart& part : parts) part.last_slot = slot - 1;
  parts.push_back({gpt2_ ? names.gpt2 : names.llama, 0, graph_.value(id).shape[0].size, false, slot, slot});
}

ValueId Declarer::declare(const std::string& name, ir::Shape shape, int slots, Init init, bool decay,
                          const std::vector<Names>& names, bool transposed) {
  ir::Value value;
  value.name = name;
  value.role = ir::Role::parameter;
  value.slots = slots;
  value.parameter = ir::ParameterInfo{init, decay, {}};
  for (const Names& part : names) {
    if (gpt2_ && part.gpt2.empty()) continue;
    value.parameter->checkpoint.push_back({gpt2_ ? part.gpt2 : part.llama, part.first_row,
                                           part.rows ? part.rows : shape[0].size, transposed, 0, slots - 1});
  }
  // GPT-2 keeps packed matrices whole.
  if (gpt2_ && names.size() > 1) {
    CheckpointPart& whole = value.parameter->checkpoint.front();
    whole.first_row = 0;
    whole.rows = shape[0].size;
    value.parameter->checkpoint.resize(1);
  }
  value.shape = std::move(shape);
  return graph_.add(std::move(value));
}

}  // namespace hydrac::models
