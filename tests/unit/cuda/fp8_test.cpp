// Training with matmuls of 8 bits: without its rounding it is training as before, whatever the scales are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gpu_model.h"

namespace hydrac::test {
namespace {

constexpr const char* kLlama =
    "hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 2, num_key_value_heads: 1, "
    "intermediate_size: 48, vocab_size: 97, head_dim: 16";
constexpr const char* kGpt2 =
    "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, vocab_size: 61, "
    "norm: layernorm, position: learned, hidden_act: gelu, max_position_embeddings: 16";
constexpr const char* kUntied =
    "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 48, vocab_size: 64, "
    "tie_word_embeddings: false";
constexpr const char* kTied =
    "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 48, vocab_size: 64, "
    "tie_word_embeddings: true";

passes::Fp8 everywhere() {
  return {.all = true, .tokens = 32, .flops_of_16_bits = 1, .flops_of_8_bits = 1, .bytes_per_second = 1};
}

// Everything that a run starts from, by name, from one model's memory to another's.
void copy_start(const ir::Graph& from, const Interpreter& state, const ir::Graph& graph, Interpreter& to) {
  for (const ir::Value& value : graph.values) {
    if (value.view || value.role == ir::Role::activation || value.name.starts_with("fp8.")) continue;
    const ir::ValueId id = from.find(value.name);
    if (id == ir::kNoValue) continue;
    for (int slot = 0; slot < value.slots; ++slot)
      to.write({value.id, {false, slot}}, state.read({id, {false, slot}}));
  }
}

// Bodies as if all types were wide: fusion decides which values pass through narrow ones.
void forget_rounding(ir::Graph& graph) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      for (ir::Node& node : region.nodes) {
        if (!node.body) continue;
        ir::Body body = *node.body;
        for (ir::Expr& expr : body.exprs) {
          if (expr.op == ir::ExprOp::round_to) expr.dtype = ir::DType::f32;
        }
        node.body = std::make_shared<const ir::Body>(std::move(body));
      }
    }
  }
}

void expect_equal(const GpuModel& a, const Interpreter& x, const GpuModel& b, const Interpreter& y,
                  const std::string& name) {
  const ir::Value& value = a.graph.value(a.graph.find(name));
  for (int slot = 0; slot < value.slots; ++slot) {
    const std::vector<double> p = x.read({value.id, {false, slot}}),
                              q = y.read({b.graph.find(name), {false, slot}});
    ASSERT_EQ(p.size(), q.size());
    double difference = 0, size = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      difference = std::max(difference, std::abs(p[i] - q[i]));
      size = std::max(size, std::abs(p[i]));
    }
    EXPECT_LE(difference, 1e-8 * size) << name << " " << slot;
  }
}

struct Case {
  const char* name;
  const char* model;
  passes::RecomputeChoice recompute = {};
  const char* head = nullptr;  // the weight of a head with matmuls of 8 bits
  std::optional<passes::HeadParts> head_parts = {};
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

class Fp8 : public testing::TestWithParam<Case> {};

TEST_P(Fp8, WithoutItsRoundingIsTheSameTraining) {
  const auto& [name, description, recompute, head, head_parts] = GetParam();
  const spec::Spec spec =
      small_spec(description, "sequence_len: 16, micro_batch_size: 2, optimizer: {name: sgd}");
  passes::Fp8 options = everywhere();
  options.head = head != nullptr;
  GpuModel wide(spec, ir::DType::bf16, recompute),
      narrow(spec, ir::DType::bf16, recompute, {}, options, head_parts);
  forget_rounding(wide.graph);
  forget_rounding(narrow.graph);
  ASSERT_EQ(ir::verify(narrow.graph), std::vector<std::string>{});
  Interpreter a(wide.graph), b(narrow.graph);
  randomize(wide, a);
  copy_start(wide.graph, a, narrow.graph, b);
  const auto count = [](const GpuModel& model) {
    int64_t matmuls = 0;
    for (const ir::Region& region : model.graph.function("micro_step").regions) {
      matmuls += std::ranges::count_if(region.nodes, [&](const ir::Node& node) {
        return node.op == ir::Op::gemm && is_f8(model.graph.value(node.inputs[0]).dtype);
      });
    }
    return matmuls;
  };
  EXPECT_EQ(count(wide), 0);
  // Four linear layers, or five, their gradients of inputs and weights, and what is computed again.
  EXPECT_GE(count(narrow), head ? 15 : 12);
  // Whatever is computed again, the same matmuls are of 8 bits.
  std::set<std::string> gradients;
  for (const ir::Region& region : narrow.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op == ir::Op::gemm && is_f8(narrow.graph.value(node.inputs[0]).dtype) &&
          narrow.graph.value(node.outputs[0]).role == ir::Role::gradient)
        gradients.insert(narrow.graph.value(node.outputs[0]).name);
    }
  }
  std::set<std::string> expected = {"d_attn.out.weight", "d_attn.qkv.weight", "d_mlp.down.weight",
                                    "d_mlp.up.weight"};
  if (head) expected.insert(std::string("d_") + head);
  EXPECT_EQ(gradients, expected);
  for (auto [model, state] : {std::pair{&wide, &a}, std::pair{&narrow, &b}}) {
    state->run("load");
    for (int step = 0; step < 2; ++step) {  // the second one with scales that the first one made
      state->run("micro_step");
      state->run("update");
    }
  }
  for (const ir::Value& value : wide.graph.values) {
    if (value.trains()) {
      expect_equal(wide, a, narrow, b, value.name);
      expect_equal(wide, a, narrow, b, "d_" + value.name);
    }
  }
  // The history holds what the steps had, and nothing is left for the next one.
  for (const ir::Value& value : narrow.graph.values) {
    if (value.view || !value.name.starts_with("fp8.")) continue;
    const std::vector<double> numbers = b.read({value.id, {}});
    if (value.name.ends_with(".largest")) {
      EXPECT_EQ(std::ranges::count(numbers, 0.0), std::ssize(numbers));
    }
    if (!value.name.ends_with(".history")) continue;
    for (size_t row = 0; row < numbers.size(); row += 16)
      EXPECT_EQ(std::count(numbers.begin() + static_cast<std::ptrdiff_t>(row),
                           numbers.begin() + static_cast<std::ptrdiff_t>(row) + 16, 0.0),
                14);
  }
}

// Parts of 16 of the 32 rows; logits have 2 bytes.
constexpr passes::HeadParts kTwoParts{16 * 64 * 2, 16};

INSTANTIATE_TEST_SUITE_P(
    Models, Fp8,
    testing::Values(Case{"llama", kLlama}, Case{"llama, recomputed", kLlama, {.block = true}},
                    Case{"gpt2", kGpt2}, Case{"head", kUntied, {}, "head.weight"},
                    Case{"head in two parts", kUntied, {}, "head.weight", kTwoParts},
                    Case{"tied head in two parts", kTied, {}, "token_embedding", kTwoParts}));

// What is quantized is written by the kernel that makes it: only what a library's kernel makes, and what the
// block before made, has a kernel of its own.
TEST(Fp8Fusion, TheMakerWritesTheEightBits) {
  const GpuModel model(small_spec(kLlama, "sequence_len: 8, micro_batch_size: 2"), ir::DType::bf16, {}, {},
                       everywhere());
  std::set<std::string> alone;
  for (const ir::Region& region : model.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op == ir::Op::fused && std::get<std::string>(node.attributes.at("name")) == "quantize")
        alone.insert(model.graph.value(node.outputs[0]).name);
    }
  }
  EXPECT_EQ(alone, (std::set<std::string>{"attn.mixed.f8e4m3", "d_attn.qkv.f8e5m2", "normed.f8e4m3"}));
}

TEST(Fp8Choice, KeepsSixteenBitsWhereEightAreSlowerOrDoNotFit) {
  passes::Fp8 options = everywhere();
  options.all = false;
  options.flops_of_8_bits = 1e-3;
  const auto spec = [&](const char* model) {
    return small_spec(model, "sequence_len: 8, micro_batch_size: 2");
  };
  const auto has_f8 = [](const GpuModel& model) {
    return std::ranges::any_of(model.graph.values, [](const ir::Value& value) { return is_f8(value.dtype); });
  };
  EXPECT_FALSE(has_f8(GpuModel(spec(kLlama), ir::DType::bf16, {}, {}, options)));
  EXPECT_FALSE(has_f8(GpuModel(spec("hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, "
                                    "intermediate_size: 40, vocab_size: 61, head_dim: 8"),
                               ir::DType::bf16, {}, {}, everywhere())));
}

}  // namespace
}  // namespace hydrac::test
