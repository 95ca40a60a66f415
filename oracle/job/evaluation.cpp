#include "oracle/job/evaluation.h"

namespace hydrac::oracle {

Graph evaluation_graph(Graph graph) {
  for (Region& region : graph.regions) {
    for (Node& node : region.nodes) {
      if (node.op == "dropout") node.attrs.at("p") = 0;
      if (node.op == "mean_loss" && node.inputs.size() > 2) node.inputs.pop_back();
      if (const auto found = node.attrs.find("dropout"); found != node.attrs.end()) found->second = 0;
      if (const auto found = node.attrs.find("label_smoothing"); found != node.attrs.end()) found->second = 0;
      std::erase_if(node.attrs, [](const auto& attribute) { return attribute.first.starts_with("fp8."); });
    }
  }
  return graph;
}

}  // namespace hydrac::oracle
