#include <gtest/gtest.h>

#include <algorithm>

#include "small_models.h"

namespace hydrac::test {
namespace {

constexpr const char* kSizes =
    "hidden_size: 8, num_hidden_layers: 4, num_attention_heads: 2, vocab_size: 11, intermediate_size: 6";
constexpr const char* kTrain = "sequence_len: 5, micro_batch_size: 2";

using Lines = std::vector<std::string>;

// A training step's forward pass as the model says it.
struct Forward {
  explicit Forward(const std::string& model, const std::string& train = kTrain)
      : spec(small_spec(std::string(kSizes) + model, train)) {
    models::Model built = models::declare_model(graph, spec);
    models::build_micro_step(built);
  }
  std::vector<ir::Region>& regions() { return graph.function("micro_step").regions; }
  // "block: rmsnorm normed[l] ... add residual[l+1]", a line for each region.
  Lines ends() {
    Lines lines;
    for (const ir::Region& region : regions())
      lines.push_back(region.name + ": " + text(region.nodes.front()) + " ... " + text(region.nodes.back()));
    return lines;
  }
  std::string text(const ir::Node& node) const {
    return to_string(node.op) + " " + to_text(graph, node.outputs[0]);
  }

  spec::Spec spec;
  ir::Graph graph;
};

TEST(RotateNorms, MovesALayersFirstNormToTheEndOfTheLayerBefore) {
  Forward forward("");
  EXPECT_EQ(forward.ends(), (Lines{"input: embedding residual[0] ... embedding residual[0]",
                                   "block: rmsnorm normed[l] ... add residual[l+1]",
                                   "output: rmsnorm normed[4] ... rmsnorm normed[4]",
                                   "head: linear logits ... mean_loss loss"}));
  passes::rotate_norms(forward.graph);
  EXPECT_EQ(ir::verify(forward.graph), Lines{});
  EXPECT_EQ(forward.ends(), (Lines{"input: embedding residual[0] ... rmsnorm normed[0]",
                                   "block: linear attn.qkv[l] ... rmsnorm normed[l+1]",
                                   "head: linear logits ... mean_loss loss"}));
}

TEST(RotateNorms, TakesTheParametersOfTheNextLoopsFirstLayer) {
  Forward forward("", std::string(kTrain) + ", freeze: [\"model.layers.[0-1].*\"]");
  passes::rotate_norms(forward.graph);
  EXPECT_EQ(forward.ends(), (Lines{"input: embedding residual[0] ... rmsnorm normed[0]",
                                   "block0: linear attn.qkv[l] ... rmsnorm normed[l+1]",
                                   "block1: linear attn.qkv[l] ... rmsnorm normed[l+2]",
                                   "block2: linear attn.qkv[l] ... rmsnorm normed[l+3]",
                                   "head: linear logits ... mean_loss loss"}));
  EXPECT_EQ(to_text(forward.graph, forward.regions()[2].nodes.back().inputs[1]), "attn_norm.weight.2[l]");
}

TEST(RotateNorms, LeavesNormsBehindTheBranchesWhereTheyAre) {
  Forward forward(", norm_placement: output");
  const std::string before = to_text(forward.graph);
  passes::rotate_norms(forward.graph);
  EXPECT_EQ(to_text(forward.graph), before);
}

TEST(RotateNorms, LeavesAParallelMlpsOwnNormInItsLayer) {
  Forward forward(", block: parallel");
  passes::rotate_norms(forward.graph);
  EXPECT_EQ(forward.ends()[1], "block: linear attn.qkv[l] ... rmsnorm normed[l+1]");
  const auto& nodes = forward.regions()[1].nodes;
  EXPECT_EQ(std::ranges::count(nodes, ir::Op::rmsnorm, &ir::Node::op), 2);
}

TEST(RotateNorms, RefusesALoopWhoseNextNormIsAnotherOne) {
  Forward forward("");
  forward.regions()[2].nodes[0].attributes["eps"] = 0.5;
  EXPECT_THROW(passes::rotate_norms(forward.graph), std::logic_error);
}

TEST(RotateNorms, KeepsEveryBitOfAnEvaluation) {
  for (const char* model : {"", ", norm: layernorm, position: learned, hidden_act: gelu",
                            ", norm_placement: both, norm_offset: 1", ", mor: {recursions: 3}",
                            ", block: parallel", ", block: parallel_one_norm", ", mod: {capacity: 0.5}"}) {
    std::vector<double> losses;
    for (const bool rotates : {false, true}) {
      const SmallModel small(small_spec(std::string(kSizes) + model, kTrain),
                             {.all_functions = true, .rotate_norms = rotates});
      Interpreter interpreter(small.graph);
      small.fill(interpreter);
      interpreter.run("evaluate");
      losses.push_back(interpreter.read_scalar(small.graph.results.eval_loss));
    }
    EXPECT_GT(losses[0], 0) << model;
    EXPECT_EQ(losses[0], losses[1]) << model;
  }
}

}  // namespace
}  // namespace hydrac::test
