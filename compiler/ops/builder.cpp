#include "ops/builder.h"

namespace hydrac::ops {

void RegionBuilder::enter(std::string scope, std::string origin) {
  scope_ = std::move(scope);
  origin_ = std::move(origin);
}

ir::Use RegionBuilder::fresh(const std::string& name, ir::Shape shape, ir::DType dtype, ir::Role role) {
  ir::Value value;
  value.name = name;
  value.shape = std::move(shape);
  value.dtype = dtype;
  value.role = role;
  value.slots = region_.layers > 0 ? region_.layers : 1;
  return {graph_.add(std::move(value)), {region_.layers > 0, 0}};
}

ir::Use RegionBuilder::exact(ir::Use use) {
  graph_.value(use.value).exact = true;
  return use;
}

ir::Use RegionBuilder::fresh_beside(ir::Use y, const std::string& name, ir::Shape shape) {
  for (const ir::Function& function : graph_.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.outputs.empty() || node.outputs[0].value != y.value) continue;
        for (ir::Use beside : node.outputs) {
          if (value(beside).name == name) return {beside.value, y.slot};
        }
      }
    }
  }
  const ir::Use use = exact(fresh(name, std::move(shape)));
  graph_.value(use.value).slots = value(y).slots;
  return {use.value, y.slot};
}

ir::Use RegionBuilder::emit(ir::Op op, std::vector<ir::Use> inputs, const std::string& name, ir::Shape shape,
                            ir::Attributes attributes) {
  const ir::Use output = into_ ? *into_ : fresh(name, std::move(shape));
  into_.reset();
  emit_node(op, std::move(inputs), {output}, std::move(attributes));
  return output;
}

ir::Node& RegionBuilder::emit_node(ir::Op op, std::vector<ir::Use> inputs, std::vector<ir::Use> outputs,
                                   ir::Attributes attributes) {
  ir::Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  node.scope = scope_;
  node.origin = origin_;
  region_.nodes.push_back(std::move(node));
  return region_.nodes.back();
}

void RegionBuilder::emit_body(const ir::Node& node, const std::string& name, ir::Body body,
                              const std::string& formula) {
  ir::Attributes attributes = {{"name", name}};
  if (!formula.empty()) attributes["formula"] = formula;
  emit_node(ir::Op::fused, node.inputs, node.outputs, std::move(attributes)).body =
      std::make_shared<const ir::Body>(std::move(body));
}

}  // namespace hydrac::ops
