// The head in parts of the rows: the same losses and gradients, with a part's logits in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/plan.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

using passes::HeadParts;
using Numbers = std::vector<double>;

TEST(RowsOfAPart, AreAllWhereTheirLogitsFit) {
  EXPECT_EQ(passes::rows_of_part(3000, 400, {3000 * 400, 1}), 3000);
  EXPECT_EQ(passes::rows_of_part(1, 400, {400, 1024}), 1);
}
TEST(RowsOfAPart, AreTheLargestDivisorThatFits) {
  EXPECT_EQ(passes::rows_of_part(3000, 400, {3000 * 400 - 1, 1}), 1500);
  EXPECT_EQ(passes::rows_of_part(3000, 400, {1100 * 400, 1}), 1000);
  EXPECT_EQ(passes::rows_of_part(65536, 50257 * 2, {512 << 20, 1024}), 4096);
}
TEST(RowsOfAPart, AreNotFewerThanTheLeast) {
  EXPECT_EQ(passes::rows_of_part(3000, 400, {400, 300}), 300);
  EXPECT_EQ(passes::rows_of_part(3000, 400, {400, 301}), 375);
  EXPECT_EQ(passes::rows_of_part(100, 400, {400, 300}), 100);
}
TEST(RowsOfAPart, OfAPrimeNumberOfRowsAreAllOrOne) {
  EXPECT_EQ(passes::rows_of_part(3001, 400, {400, 2}), 3001);
  EXPECT_EQ(passes::rows_of_part(3001, 400, {400, 1}), 1);
}

struct Case {
  const char* name;
  spec::Spec spec;
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

// 15 rows.
constexpr const char* kTrain = "sequence_len: 5, micro_batch_size: 3";

std::vector<Case> cases() {
  const std::string sizes = "hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 2, ";
  return {
      {"Tied", small_spec(sizes + "vocab_size: 11, dropout: 0.2", kTrain)},
      {"UntiedSmoothed", small_spec(sizes + "vocab_size: 11, tie_word_embeddings: false, norm: layernorm",
                                    std::string(kTrain) + ", label_smoothing: 0.1")},
      {"ClassesWithBias",
       small_spec(sizes + "input: series, num_features: 3, head: classification, num_labels: 4", kTrain,
                  "[y]")},
  };
}

// What training and evaluation leave, with everything that must be overwritten full of NaN before.
struct Outcome {
  double loss, eval_loss;
  Numbers gradients, parameters, d_hidden;
};

Outcome outcome_of(const SmallModel& small, int micro_batches) {
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  const ir::Graph& graph = small.graph;
  interpreter.write({graph.results.eval_loss, {}}, {std::nan("")});
  if (micro_batches == 1) {
    for (ir::ValueId parameter : small.parameters()) {
      const ir::Value& gradient = small.graph.value(small.gradient_of(parameter));
      for (int slot = 0; slot < gradient.slots; ++slot)
        interpreter.write({gradient.id, {false, slot}}, Numbers(element_count(gradient.shape), std::nan("")));
    }
  }
  for (int i = 0; i < micro_batches; ++i) interpreter.run("micro_step");
  Outcome outcome;
  outcome.loss = interpreter.read_scalar(graph.results.loss);
  outcome.gradients = interpreter.read({small.pack.groups[0].gradients, {}});
  const auto d_hidden = std::ranges::find_if(small.graph.values, [](const ir::Value& value) {
    return value.name == "d_normed" && value.slots > 1;  // of every layer
  });
  outcome.d_hidden = interpreter.read({d_hidden->id, {false, d_hidden->slots - 1}});
  interpreter.run("update");
  interpreter.run("evaluate");
  outcome.parameters = interpreter.read({small.pack.parameters, {}});
  outcome.eval_loss = interpreter.read_scalar(graph.results.eval_loss);
  return outcome;
}

void expect_close(const Numbers& found, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << what << " " << i;
}

class ChunkHead : public testing::TestWithParam<Case> {
 protected:
  static SmallModel build(std::optional<HeadParts> parts, int micro_batches, bool lowered) {
    return SmallModel(GetParam().spec, {.accumulate = micro_batches > 1,
                                        .all_functions = true,
                                        .fuse = lowered,
                                        .in_place = lowered,
                                        .head_parts = parts});
  }
  static HeadParts parts_of(int64_t rows) {
    const spec::Model& m = GetParam().spec.model;
    return {rows * 4 * (m.head == spec::Head::classification ? m.num_labels : m.vocab_size), 1};
  }
};

TEST_P(ChunkHead, GivesTheWholeBatchsResults) {
  for (int micro_batches : {1, 3}) {
    const Outcome expected = outcome_of(build({}, micro_batches, false), micro_batches);
    for (int64_t rows : {1, 3, 5}) {
      for (bool lowered : {false, true}) {
        SCOPED_TRACE("micro-batches " + std::to_string(micro_batches) + ", rows " + std::to_string(rows) +
                     (lowered ? ", fused" : ""));
        const SmallModel small = build(parts_of(rows), micro_batches, lowered);
        ASSERT_EQ(ir::verify(small.graph), std::vector<std::string>{});
        ASSERT_EQ(small.graph.value(small.graph.find("logits")).shape[0].size, rows);
        const Outcome found = outcome_of(small, micro_batches);
        EXPECT_NEAR(found.loss, expected.loss, 1e-13 * expected.loss);
        EXPECT_NEAR(found.eval_loss, expected.eval_loss, 1e-13 * expected.eval_loss);
        EXPECT_EQ(found.d_hidden, expected.d_hidden);  // rows do not know of each other: bits are kept
        expect_close(found.gradients, expected.gradients, "gradient");
        expect_close(found.parameters, expected.parameters, "parameter");
      }
    }
  }
}

// The first part overwrites the matmul's gradient, so a step without accumulation zeroes no weights.
TEST_P(ChunkHead, ZeroesOnlyWhatNoMatmulWrites) {
  const SmallModel small = build(parts_of(5), 1, false);
  std::vector<std::string> zeroed;
  for (const ir::Region& region : small.graph.function("micro_step").regions) {
    if (region.name != "before_head") continue;
    for (const ir::Node& node : region.nodes) zeroed.push_back(small.graph.value(node.outputs[0]).name);
  }
  EXPECT_EQ(zeroed, GetParam().spec.model.head == spec::Head::classification
                        ? std::vector<std::string>{"d_head.bias"}
                        : std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Heads, ChunkHead, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ChunkHeadPass, SaysWhatItDid) {
  const SmallModel small(cases()[0].spec, {.head_parts = HeadParts{3 * 44, 1}});
  std::vector<std::string> said;
  for (const passes::Decision& decision : small.log) {
    if (decision.pass == "chunk head") said.push_back(decision.text);
  }
  EXPECT_EQ(said, std::vector<std::string>{
                      "micro_step: 5 parts of 3 rows, with 132 bytes of logits each instead of 660"});
  const std::string text = to_text(small.graph);
  EXPECT_NE(text.find("region head for l = 0..4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("normed.part f32 [R,C] = [3,8] x 5 activation in normed[2] at 0\n"), std::string::npos)
      << text;
}

TEST(ChunkHeadPass, LeavesABatchThatIsOnePart) {
  const SmallModel whole(cases()[0].spec, {}), one(cases()[0].spec, {.head_parts = HeadParts{660, 1}});
  EXPECT_EQ(to_text(one.graph), to_text(whole.graph));
  EXPECT_EQ(one.log[0].text, "micro_step: all 15 rows are one part, with 660 bytes of logits");
}

TEST(ChunkHeadPass, LeavesARegression) {
  const spec::Spec spec = small_spec(
      "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2", kTrain,
      "[y, z]");
  EXPECT_EQ(to_text(SmallModel(spec, {.head_parts = HeadParts{1, 1}}).graph),
            to_text(SmallModel(spec, {}).graph));
}

// Not the logits of all 65536 rows any more; hidden states and their gradient stay whole.
TEST(ChunkHeadPass, ShrinksThePlan) {
  const auto planned = [](std::optional<HeadParts> parts) {
    SmallModel small(shipped_spec("gpt2-124m"),
                     {.all_functions = true, .fuse = true, .in_place = true, .head_parts = parts});
    const plan::Plan plan = plan::make_plan(small.graph);
    EXPECT_EQ(plan::verify(small.graph, plan), std::vector<std::string>{});
    const auto logits = plan.placements.at(storage_of(small.graph, small.graph.find("logits")));
    EXPECT_EQ(logits.slots, 1);
    return std::pair(plan.arena_bytes, logits.bytes());
  };
  const auto [whole, all_logits] = planned({});
  const auto [parts, logits] = planned(HeadParts{512 << 20, 1024});
  EXPECT_EQ(all_logits, 65536LL * 50257 * 4);
  EXPECT_EQ(logits, 2048LL * 50257 * 4);
  // A little more than a part's logits then decides: the first block's backward pass.
  EXPECT_GT(static_cast<double>(whole - parts), 0.9 * static_cast<double>(all_logits - logits));
}

}  // namespace
}  // namespace hydrac::test
