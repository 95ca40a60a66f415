// Follows where the weights in a layer's memory were fetched from, for tests of programs for GPUs.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "driver/accesses.h"
#include "driver/compile.h"

namespace hydrac::driver {

inline const program::Function& function_of(const Compiled& c, const std::string& name) {
  return *std::ranges::find(c.program.functions, name, &program::Function::name);
}

// Whether it is of what a loop fetches for the layer at hand.
inline bool is_of_layer(const Compiled& c, ir::Use use) {
  return c.graph.value(storage_of(c.graph, use.value)).name.starts_with("weights.");
}

// "attn.qkv.weight", of which the use is the layer's.
inline std::string parameter_of(const Compiled& c, ir::Use use) {
  const std::string &name = c.graph.value(use).name,
                    &storage = c.graph.value(storage_of(c.graph, use.value)).name;
  return name.substr(0, name.size() - storage.size() + std::string("weights").size());
}

// Of the parameter that the use is of, the slot of the section's current layer.
inline int parameter_slot(const Compiled& c, ir::Use use, const program::Section& section, int layer) {
  const ir::Value& parameter = c.graph.value(c.graph.find(parameter_of(c, use)));
  return section.first_layer + layer - parameter.parameter->first_layer;
}

// What layers' memory holds: bytes, and where the rank's part of them or the host's copy is, by address.
class Fetched {
 public:
  explicit Fetched(const Compiled& compiled) : c_(compiled) {}

  void run(const program::Call& call, int layer) {
    for (const program::Access& access : accesses(c_, call, layer))
      if (access.writes)
        std::erase_if(from_, [&](const auto& entry) {
          return entry.first < access.last && access.first < entry.first + entry.second.first;
        });
    if (const auto* copy = std::get_if<program::Copy>(&call.work)) {
      const auto [from, to] = copy->tensors(call.arguments);
      note(to, from, layer);
    }
    if (is(call, program::Collective::all_gather))
      for (const auto& [part, whole] : std::get<program::Collective>(call.work).tensors(call.arguments))
        note(whole, part, layer);
  }

  // -1 where it was not fetched.
  int64_t origin(ir::Use use, int layer) const {
    const auto found = from_.find(at(use, layer));
    return found == from_.end() ? -1 : found->second.second;
  }

 private:
  int64_t at(ir::Use use, int layer) const { return plan::address(c_.graph, c_.plan, use, layer); }
  void note(ir::Use to, ir::Use from, int layer) {
    from_[at(to, layer)] = {plan::extent(c_.graph, to), at(from, layer)};
  }

  const Compiled& c_;
  std::map<int64_t, std::pair<int64_t, int64_t>> from_;
};

}  // namespace hydrac::driver
