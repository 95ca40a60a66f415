// Tiny models for tests: a spec from a few lines, its graph up to a stage of the pipeline, and inputs to run
// it on.
#pragma once
#include <memory>
#include <random>
#include <string>

#include "interpreter.h"
#include "models/transformer.h"
#include "optimizers/optimizer.h"
#include "passes/passes.h"

namespace hydrac::test {

// A spec from the insides of its model and train maps. `targets`: the columns a series model predicts, "[y,
// z]"; `adapter`: the inside of that map. Throws with the rendered diagnostics when it is not valid.
spec::Spec small_spec(const std::string& model, const std::string& train, const std::string& targets = "",
                      const std::string& adapter = "");

// An encoder of replies of odd sizes; its files are nowhere.
spec::Encoder small_encoder();

// The spec of a file in specs/, for the cpu in fp32; `overrides` as on the command line.
spec::Spec shipped_spec(const std::string& name, std::vector<std::string> overrides = {});

struct Stages {
  passes::RecomputeChoice recompute;
  bool accumulate = false;     // several micro-batches a step
  bool all_functions = false;  // update, evaluate and generate beside micro_step
  bool rotate_norms = true;    // without it autodiff's part of the graph is worth nothing
  bool fuse = false;
  bool in_place = false;
  std::optional<passes::HeadParts> head_parts = {};  // the head in parts
  optimizers::LossScaling loss_scaling = {};
  ir::DType activations = ir::DType::f32;  // only as gradients take after them: there is no precision pass
  bool matmul_biases = false;              // matmuls add their biases,
  bool move_biases = false;                // or leave it to the kernels that read them
};

// A spec's graph: micro_step differentiated, laid out, packed and expanded; then fused and so on as asked.
struct SmallModel {
  SmallModel(spec::Spec spec, const Stages& stages);

  spec::Spec spec;
  ir::Graph graph;
  std::unique_ptr<models::Model> model;
  models::Pack pack;
  passes::Log log;

  // Parameters, tokens, targets (some ignored or missing), rope tables, random seeds: a function of `seed`.
  void fill(Interpreter& interpreter, unsigned seed = 1) const;
  void fill_texts(Interpreter& interpreter, std::mt19937& random) const;  // of an encoder of replies
  std::vector<ir::ValueId> parameters() const;
  ir::ValueId gradient_of(ir::ValueId parameter) const;
  const ir::Node& fused_node(const std::string& function, const std::string& region,
                             const std::string& part) const;
};

}  // namespace hydrac::test
