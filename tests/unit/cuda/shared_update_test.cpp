// Ranks that share the update against one that computes all of it: graphs lowered for a GPU, run in float64
// side by side, where the test does what ranks exchange. And the kernels of such an update.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "gpu_model.h"

namespace hydrac::test {
namespace {

using Numbers = std::vector<double>;

// Whose parameters no ranks divide by themselves.
constexpr const char* kModel =
    "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 40, vocab_size: 50, "
    "norm: layernorm, mlp_bias: true, qk_norm: true";
// Of which two ranks divide layers' matrices, and the embedding not.
constexpr const char* kDivided =
    "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 96, vocab_size: 48, "
    "norm: layernorm, mlp_bias: true, qk_norm: true";
constexpr const char* kTrain = "sequence_len: 8, micro_batch_size: 2, max_grad_norm: 0";

struct Config {
  const char* name;
  ir::DType activations = ir::DType::f32;
  spec::WeightType weights = spec::WeightType::fp32;
  spec::StateType state = spec::StateType::fp32;
  const char* train = kTrain;
  const char* model = kModel;
  int ranks = 3;
};

spec::Spec spec_of(const Config& config, int ranks) {
  spec::Spec spec = small_spec(config.model, config.train);
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
    for (const ir::Region& region : graph_.function(function).regions)
      for (int layer = 0; layer < std::max(region.layers, 1); ++layer)
        for (const ir::Node& node : region.nodes) run(node, layer);
  }

 private:
  void run(const ir::Node& node, int layer) {
    if (node.op == ir::Op::all_gather) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        Numbers all;
        for (const Interpreter& state : states_) {
          const Numbers own = state.read(node.inputs[i], layer);
          all.insert(all.end(), own.begin(), own.end());
        }
        for (Interpreter& state : states_) state.write(node.outputs[i], all, layer);
      }
    } else if (node.op == ir::Op::own_part) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Numbers all = states_[0].read(node.inputs[i], layer);
        const auto own = static_cast<std::ptrdiff_t>(all.size() / states_.size());
        for (size_t r = 0; r < states_.size(); ++r) {
          const auto first = all.begin() + static_cast<std::ptrdiff_t>(r) * own;
          states_[r].write(node.outputs[i], Numbers(first, first + own), layer);
        }
      }
    } else if (node.op == ir::Op::all_reduce) {
      for (const ir::Use use : node.outputs) {
        Numbers sum(static_cast<size_t>(element_count(graph_.value(use).shape)));
        for (const Interpreter& state : states_) {
          const Numbers term = state.read(use, layer);
          std::ranges::transform(sum, term, sum.begin(), std::plus());
        }
        for (Interpreter& state : states_) state.write(use, sum, layer);
      }
    } else {
      for (Interpreter& state : states_) state.run(node, layer);
    }
  }

  const ir::Graph& graph_;
  std::vector<Interpreter> states_;
};

// Where one process has each row of the pack, and which rank has it where. Of one group.
class Division {
 public:
  explicit Division(const models::Pack& pack) : row_(static_cast<size_t>(pack.row)) {
    for (const models::Stretch& stretch : pack.groups[0].stretches)
      for (int slot = 0; slot < stretch.slots; ++slot)
        for (int64_t i = 0; i < stretch.rows; ++i)
          rows_.push_back({i / stretch.own, stretch.first_own_row + slot * stretch.own + i % stretch.own,
                           stretch.first_row + slot * stretch.own * pack.sharing_ranks + i});
  }

  // Gives each rank its rows of `whole`, behind which is padding.
  void write_parts(SideBySide& ranks, ir::Use part, const Numbers& whole) const {
    std::map<int64_t, Numbers> parts;
    for (const Row& row : rows_) {
      const auto rank = static_cast<size_t>(row.rank);
      auto [found, is_new] = parts.try_emplace(row.rank);
      if (is_new) found->second.resize(ranks.of(rank).read(part).size());
      copy(whole, &row - rows_.data(), found->second, row.own);
    }
    for (const auto& [rank, numbers] : parts) ranks.of(static_cast<size_t>(rank)).write(part, numbers);
  }

  // What all ranks have, as one process has it.
  Numbers gathered(SideBySide& ranks, ir::Use part) const {
    Numbers whole(rows_.size() * row_);
    for (const Row& row : rows_)
      copy(ranks.of(static_cast<size_t>(row.rank)).read(part), row.own, whole, &row - rows_.data());
    return whole;
  }

  // With padding, and without.
  Numbers padded(const Numbers& whole, size_t elements) const {
    Numbers numbers(elements);
    for (const Row& row : rows_) copy(whole, &row - rows_.data(), numbers, row.padded);
    return numbers;
  }
  Numbers without_padding(const Numbers& padded) const {
    Numbers whole(rows_.size() * row_);
    for (const Row& row : rows_) copy(padded, row.padded, whole, &row - rows_.data());
    return whole;
  }

 private:
  struct Row {
    int64_t rank, own, padded;
  };
  void copy(const Numbers& from, int64_t row, Numbers& to, int64_t to_row) const {
    const auto first = from.begin() + row * static_cast<std::ptrdiff_t>(row_);
    std::copy(first, first + static_cast<std::ptrdiff_t>(row_),
              to.begin() + to_row * static_cast<std::ptrdiff_t>(row_));
  }

  size_t row_;
  std::vector<Row> rows_;
};

// Exact in 16 bits.
Numbers random_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (double& number : numbers) number = (static_cast<double>(random() % 255) - 127) / 64;
  return numbers;
}

class SharedUpdate : public testing::TestWithParam<Config> {};

TEST_P(SharedUpdate, IsThatOfOneRankThatHasAll) {
  const int ranks = GetParam().ranks;
  const GpuModel whole_model(spec_of(GetParam(), 1), GetParam().activations);
  const GpuModel shared_model(spec_of(GetParam(), ranks), GetParam().activations);
  const Division division(shared_model.pack);
  EXPECT_EQ(shared_model.pack.groups[0].stretches.size() > 2, GetParam().model == kDivided);
  const bool has_copies =
      GetParam().activations != ir::DType::f32 && GetParam().weights == spec::WeightType::fp32;
  SideBySide whole(whole_model.graph, 1), shared(shared_model.graph, ranks);
  const auto elements =
      static_cast<size_t>(element_count(whole_model.graph.value(whole.use("parameters")).shape));
  const auto padded_elements =
      static_cast<size_t>(element_count(shared_model.graph.value(shared.use("parameters")).shape));
  const Numbers parameters = random_numbers(elements, 1), gradients = random_numbers(elements, 2);
  whole.of(0).write(whole.use("parameters"), parameters);
  whole.of(0).write(whole.use("gradients"), gradients);
  division.write_parts(shared, shared.use("own_gradients"), gradients);
  if (has_copies) division.write_parts(shared, shared.use("own_parameters"), parameters);
  for (int r = 0; r < ranks; ++r) {
    shared.of(r).write(shared.use("rank"), {static_cast<double>(r)});
    if (!has_copies)
      shared.of(r).write(shared.use("parameters"), division.padded(parameters, padded_elements));
  }
  for (int step = 0; step < 2; ++step) {
    whole.run("update");
    shared.run("update");
    whole.of(0).write(whole.use("gradients"), gradients);
    division.write_parts(shared, shared.use("own_gradients"), gradients);
  }
  const Numbers updated = whole.of(0).read(whole.use("parameters"));
  EXPECT_NE(updated, parameters);
  EXPECT_TRUE((has_copies ? division.gathered(shared, shared.use("own_parameters"))
                          : division.without_padding(shared.of(ranks - 1).read(shared.use("parameters")))) ==
              updated);
  EXPECT_EQ(shared.of(1).read_scalar(shared.use("grad_square").value),
            whole.of(0).read_scalar(whole.use("grad_square").value));
  for (const char* moment : {"adam.m", "adam.v"}) {
    if (whole_model.graph.find(moment) == ir::kNoValue) continue;
    EXPECT_TRUE(division.gathered(shared, shared.use(moment)) == whole.of(0).read(whole.use(moment)))
        << moment;
  }
  if (!has_copies) return;
  // What "load" makes of the parts is what the update has left.
  for (const char* function : {"update", "load"}) {
    if (function == std::string("load")) shared.run(function);
    int vectors = 0;
    for (const ir::Value& value : shared_model.graph.values) {
      const std::string suffix = ".whole";
      if (value.name == "parameters.bf16") {
        EXPECT_TRUE(division.without_padding(shared.of(1).read({value.id, {}})) ==
                    whole.of(0).read(whole.use(value.name)))
            << value.name;
      }
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
                    Config{"bf16_weights", ir::DType::bf16, spec::WeightType::bf16, spec::StateType::bf16},
                    Config{"divided", ir::DType::bf16, spec::WeightType::fp32, spec::StateType::bf16, kTrain,
                           kDivided, 2},
                    Config{"divided_weights", ir::DType::bf16, spec::WeightType::bf16, spec::StateType::bf16,
                           kTrain, kDivided, 2}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::test
