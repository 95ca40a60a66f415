// What random batches say of a row's documents.
#include "verify/batches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "spec/load.h"

namespace hydrac::verify {
namespace {

spec::Spec spec_of(const std::vector<std::string>& overrides) {
  diag::Diagnostics diagnostics;
  const auto spec = spec::load_spec_text(
      "spec.yaml",
      "name: batches\ntarget: cpu\nmodel: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4, "
      "vocab_size: 256}\ndata: {path: a.txt}\ntrain: {sequence_len: 48, micro_batch_size: 3, max_steps: 9}\n",
      overrides, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  return *spec;
}

int32_t longest_document(const std::vector<runtime::Batch>& step) {
  int32_t longest = 0;
  for (const runtime::Batch& batch : step)
    longest = std::max(longest, 1 + *std::ranges::max_element(batch.positions));
  return longest;
}

TEST(RandomBatches, OfSequencesThatGrowAreThoseOfTheirSteps) {
  const spec::Spec spec = spec_of({"train.sequence_warmup={start: 8, steps: 5}"});
  const Batches batches = random_batches(spec, 6, 1);
  for (size_t step = 0; step < 6; ++step)
    EXPECT_EQ(longest_document(batches[step]), (std::vector{8, 16, 24, 32, 40, 48})[step]) << step;
  const runtime::Batch& first = batches[0][0];
  ASSERT_EQ(first.documents.size(), 2u * 3 * 48);
  EXPECT_EQ(first.documents[2 * 47], 40);
  EXPECT_EQ(first.documents[2 * 48 + 1], 8);
  EXPECT_EQ(longest_document(random_batches(spec, 1, 1, 5)[0]), 48);
}

TEST(RandomBatches, OfDocumentsAreCutWhereTheyAreLonger) {
  const Batches cut = random_batches(
      spec_of({"data.document_mask=true", "train.sequence_warmup={start: 4, steps: 9}"}), 1, 1);
  const Batches whole = random_batches(spec_of({"data.document_mask=true"}), 1, 1);
  EXPECT_EQ(longest_document(cut[0]), 4);
  EXPECT_GT(longest_document(whole[0]), 4);
  EXPECT_EQ(cut[0][0].tokens, whole[0][0].tokens);
  EXPECT_TRUE(random_batches(spec_of({}), 1, 1)[0][0].documents.empty());
}

}  // namespace
}  // namespace hydrac::verify
