// What `adapter.base: nf4` takes of memory.
#include <gtest/gtest.h>

#include <cmath>

#include "driver/compile.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

Compiled compiled(const std::vector<std::string>& overrides) {
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 512, num_hidden_layers: 6, num_attention_heads: 8, num_key_value_heads: 2, "
      "vocab_size: 256, intermediate_size: 1024}\n"
      "adapter: {type: lora, base: nf4}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 1, max_steps: 10}\n",
      overrides);
  return compile(spec, {});
}

int64_t bytes(const Compiled& c, ir::ValueId id) {
  const ir::Value& value = c.graph.value(id);
  return element_count(value.shape) * size_of(value.dtype) * value.slots;
}

TEST(Nf4Base, TakesHalfAByteAWeightAndLittleMore) {
  const Compiled c = compiled({});
  int64_t matrices = 0;
  for (const ir::Value& value : c.graph.values) {
    if (!value.parameter || !value.parameter->nf4) continue;
    ++matrices;
    const ir::Nf4Storage& stored = *value.parameter->nf4;
    const int64_t elements = element_count(value.shape) * value.slots;
    EXPECT_EQ(bytes(c, stored.codes), elements / 2);
    EXPECT_EQ(bytes(c, stored.block_codes), elements / 64);
    EXPECT_EQ(bytes(c, stored.groups), elements / (64 * 256) * 8);
    for (const ir::ValueId id : {stored.codes, stored.block_codes, stored.groups})
      EXPECT_EQ(c.plan.placements.at(id).slots, 6);
  }
  EXPECT_EQ(matrices, 4);
}

// Of numbers, one layer's matrix is in memory at a time, in the forward and in the backward pass.
TEST(Nf4Base, HasTheNumbersOfOneMatrixAtATime) {
  const Compiled c = compiled({});
  int matrices = 0;
  for (const ir::Value& value : c.graph.values) {
    const bool is_matrix = value.shape.size() == 2 && value.slots == 6 &&
                           value.role == ir::Role::activation &&
                           value.name.find(".weight") != std::string::npos;
    if (!is_matrix) continue;
    ++matrices;
    EXPECT_EQ(c.plan.placements.at(value.id).slots, 1) << value.name;
    EXPECT_EQ(value.dtype, ir::DType::bf16);
  }
  EXPECT_EQ(matrices, 4 * 4);  // of forward, backward, evaluation and generation
  const int64_t wide = compiled({"adapter.base=compute"}).plan.arena_bytes;
  const auto weights = static_cast<double>(6 * (512 * 768 + 512 * 512 + 3 * 512 * 1024));
  const double saved = weights * (2 - 0.5 - 1.0 / 64 - 8.0 / (64 * 256)) - 2 * 2 * 1024 * 512 * 2;
  EXPECT_GT(static_cast<double>(wide - c.plan.arena_bytes), saved);
}

TEST(Nf4Base, IsExplained) {
  const Compiled c = compiled({});
  const auto said = std::ranges::find(c.decisions, "nf4", &passes::Decision::pass);
  ASSERT_NE(said, c.decisions.end());
  EXPECT_EQ(
      said->text,
      "42 linear layers of blocks are 4-bit codes: 13.4 million weights in 6.9 MB; a layer's matrix becomes "
      "bf16 before the matmul that reads it");
}

}  // namespace
}  // namespace hydrac::driver
