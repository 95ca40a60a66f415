// Ranks that share the update against one that computes all of it: graphs lowered for a GPU, run in float64
// side by side, where the test does what ranks exchange. And the kernels of such an update.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "gpu_model.h"

namespace hydrac::test {
namespace {

using Numbers = std::vector<double>;

constexpr const char* kModel =
    "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 40, vocab_size: 50, "
    "norm: layernorm, mlp_bias: true, qk_norm: true";
constexpr const char* kTrain = "sequence_len: 8, micro_batch_size: 2, max_grad_norm: 0";

struct Config {
  const char* name;
  ir::DType activations = ir::DType::f32;
  spec::WeightType weights = spec::WeightType::fp32;
  spec::StateType state = spec::StateType::fp32;
  const char* train = kTrain;
};

spec::Spec spec_of(const Config& config, int ranks) {
  spec::Spec spec = small_spec(kModel, config.train);
  spec.optimizations.weights = config.weights;
  spec.optimizations.optimizer_state = config.state;
  spec.parallel.data = ranks;
  spec.parallel.zero = 1;
  return spec;
}

// Interpreters of one graph, one a rank.
class SideBySide {
 public:
  SideBySide(const ir::Graph& graph, int ranks) : graph_(graph), states_(ranks, Interpreter(graph)) {}

  Interpreter& of(size_t rank) { return states_[rank]; }
  ir::Use use(const std::string& name) const { return {graph_.find(name), {}}; }

  void run(const std::string& function) {
    for (const ir::Region& region : graph_.function(function).regions) {
      ASSERT_EQ(region.layers, 0);
      for (const ir::Node& node : region.nodes) run(node);
    }
  }

  // Of all ranks, one behind the other.
  Numbers gathered(ir::Use part) const {
    Numbers all;
    for (const Interpreter& state : states_) {
      const Numbers own = state.read(part);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  // Gives each rank its part of `whole`, behind which is padding.
  void write_parts(ir::Use part, Numbers whole) {
    const size_t own = static_cast<size_t>(element_count(graph_.value(part).shape));
    whole.resize(own * states_.size());
    for (size_t r = 0; r < states_.size(); ++r)
      states_[r].write(part, Numbers(whole.begin() + static_cast<std::ptrdiff_t>(r * own),
                                     whole.begin() + static_cast<std::ptrdiff_t>((r + 1) * own)));
  }

 private:
  void run(const ir::Node& node) {
    if (node.op == ir::Op::all_gather) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Numbers all = gathered(node.inputs[i]);
        for (Interpreter& state : states_) state.write(node.outputs[i], all);
      }
    } else if (node.op == ir::Op::own_part) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        write_parts(node.outputs[i], states_[0].read(node.inputs[i]));
    } else if (node.op == ir::Op::all_reduce) {
      for (const ir::Use use : node.outputs) {
        Numbers sum(static_cast<size_t>(element_count(graph_.value(use).shape)));
        for (const Interpreter& state : states_) {
          const Numbers term = state.read(use);
          std::ranges::transform(sum, term, sum.begin(), std::plus());
        }
        for (Interpreter& state : states_) state.write(use, sum);
      }
    } else {
      for (Interpreter& state : states_) state.run(node, 0);
    }
  }

  const ir::Graph& graph_;
  std::vector<Interpreter> states_;
};

// Exact in 16 bits.
Numbers random_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (double& number : numbers) number = (static_cast<double>(random() % 255) - 127) / 64;
  return numbers;
}

// The first rows of `shared` are those of `whole`.
void expect_begins_with(const Numbers& shared, const Numbers& whole, const std::string& what) {
  ASSERT_GE(shared.size(), whole.size()) << what;
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), shared.begin())) << what;
}

class SharedUpdate : public testing::TestWithParam<Config> {};

TEST_P(SharedUpdate, IsThatOfOneRankThatHasAll) {
  constexpr int kRanks = 3;
  const GpuModel whole_model(spec_of(GetParam(), 1), GetParam().activations);
  const GpuModel shared_model(spec_of(GetParam(), kRanks), GetParam().activations);
  const bool has_copies =
      GetParam().activations != ir::DType::f32 && GetParam().weights == spec::WeightType::fp32;
  SideBySide whole(whole_model.graph, 1), shared(shared_model.graph, kRanks);
  const auto elements =
      static_cast<size_t>(element_count(whole_model.graph.value(whole.use("parameters")).shape));
  const Numbers parameters = random_numbers(elements, 1), gradients = random_numbers(elements, 2);
  whole.of(0).write(whole.use("parameters"), parameters);
  whole.of(0).write(whole.use("gradients"), gradients);
  shared.write_parts(shared.use("own_gradients"), gradients);
  if (has_copies) shared.write_parts(shared.use("own_parameters"), parameters);
  for (size_t r = 0; r < kRanks; ++r) {
    shared.of(r).write(shared.use("rank"), {static_cast<double>(r)});
    if (has_copies) continue;
    Numbers padded = parameters;
    padded.resize(
        static_cast<size_t>(element_count(shared_model.graph.value(shared.use("parameters")).shape)));
    shared.of(r).write(shared.use("parameters"), padded);
  }
  for (int step = 0; step < 2; ++step) {
    whole.run("update");
    shared.run("update");
    whole.of(0).write(whole.use("gradients"), gradients);
    shared.write_parts(shared.use("own_gradients"), gradients);
  }
  const Numbers updated = whole.of(0).read(whole.use("parameters"));
  EXPECT_NE(updated, parameters);
  expect_begins_with(has_copies ? shared.gathered(shared.use("own_parameters"))
                                : shared.of(2).read(shared.use("parameters")),
                     updated, "parameters");
  for (const char* moment : {"adam.m", "adam.v"}) {
    if (whole_model.graph.find(moment) == ir::kNoValue) continue;
    expect_begins_with(shared.gathered(shared.use(moment)), whole.of(0).read(whole.use(moment)), moment);
  }
  if (!has_copies) return;
  // What "load" makes of the parts is what the update has left.
  for (const char* function : {"update", "load"}) {
    if (function == std::string("load")) shared.run(function);
    int vectors = 0;
    for (const ir::Value& value : shared_model.graph.values) {
      const std::string suffix = ".whole";
      if (value.name == "parameters.bf16")
        expect_begins_with(shared.of(1).read({value.id, {}}), whole.of(0).read(whole.use(value.name)),
                           value.name);
      if (!value.name.ends_with(suffix)) continue;
      ++vectors;
      const ir::Use of_whole = whole.use(value.name.substr(0, value.name.size() - suffix.size()));
      for (int slot = 0; slot < value.slots; ++slot)
        EXPECT_EQ(shared.of(0).read({value.id, {false, slot}}),
                  whole.of(0).read({of_whole.value, {false, slot}}))
            << value.name << " after " << function;
    }
    EXPECT_GT(vectors, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Configs, SharedUpdate,
    testing::Values(Config{"fp32"}, Config{"bf16", ir::DType::bf16},
                    Config{"bf16_state", ir::DType::bf16, spec::WeightType::fp32, spec::StateType::bf16},
                    Config{"bf16_weights", ir::DType::bf16, spec::WeightType::bf16, spec::StateType::bf16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::test
