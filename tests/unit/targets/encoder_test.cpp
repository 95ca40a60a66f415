// What a program makes of texts by an encoder of replies, against BERT's definition in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "driver/compile.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/wordpiece.h"
#include "runtime/train/generation/reply_scores.h"
#include "runtime/train/generation/text_batches.h"
#include "runtime/train/initial_weights.h"
#include "spec/load.h"
#include "targets/cpu/executor.h"
#include "tests/unit/support/bert_folder.h"
#include "tests/unit/support/bert_reference.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

using test::BertReference;
using Rows = BertReference::Rows;

class EncoderTest : public testing::Test {
 protected:
  EncoderTest() { bert_.draw(3); }
  static void SetUpTestSuite() { kernels_ = new test::TempDir; }
  static void TearDownTestSuite() {
    delete kernels_;
    kernels_ = nullptr;
  }

  spec::Spec spec_of(const std::vector<std::string>& overrides = {}) {
    bert_.write(folder_ / "bert");
    const std::string text =
        "name: replies\ntarget: cpu\nmodel: {hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 4, "
        "intermediate_size: 64, vocab_size: 256}\n"
        "objective: {name: polychromic, prompts: 2, replies: 3, prompt_tokens: 8, max_new_tokens: 8, "
        "embed: " +
        (folder_ / "bert").string() +
        "}\ndata: {path: none.jsonl, format: chat, tokenizer: byte}\n"
        "train: {sequence_len: 40, micro_batch_size: 2, max_steps: 1}\noptimizations: {threads: 2}\n";
    diag::Diagnostics diagnostics;
    std::optional<spec::Spec> spec = spec::load_spec_text("replies.yaml", text, overrides, diagnostics);
    if (!spec) throw std::runtime_error(diagnostics.render());
    return *spec;
  }

  CpuProgram& program() {
    driver::CompileOptions options;
    options.threads = 2;
    const spec::Spec spec = spec_of();
    program_ = std::make_unique<CpuProgram>(driver::compile(spec, options), kernels_->path());
    program_->steps().initialize();
    return *program_;
  }
  CpuProgram& filled_program() {
    CpuProgram& made = program();
    runtime::WeightFiles(folder_ / "bert").fill_encoder(made.steps());
    return made;
  }

  static void embed(runtime::StepProgram& steps, const std::vector<runtime::EncodedText>& texts,
                    bool first_token) {
    clear_replies(steps);
    for (const runtime::Batch& batch : text_batches(texts, steps.facts().texts, first_token))
      runtime::embed(steps, batch);
  }
  // Row `segment` of what was added up.
  std::vector<float> embedding(int32_t segment) const {
    const auto all = program_->read(program_->compiled().graph.results.reply_embeddings, 0);
    const auto first = all.begin() + segment * bert_.width;
    return {first, first + bert_.width};
  }

  // Of 24 ids, as many as a row has, of 2 and of some in between.
  std::vector<runtime::EncodedText> texts() const {
    const runtime::WordPiece tokenizer = runtime::load_wordpiece(folder_ / "bert");
    std::vector<runtime::EncodedText> all;
    int32_t segment = 0;
    for (const char* text :
         {"a longer text than there is room for", "", "Two, words!", "x", "2 + 2 = 4", "the end"})
      all.push_back({segment++, tokenizer.encode(text, bert_.positions)});
    return all;
  }

  const test::TempDir folder_;
  test::BertFolder bert_;
  std::unique_ptr<CpuProgram> program_;

 private:
  static inline test::TempDir* kernels_ = nullptr;  // compiled once for all tests
};

TEST_F(EncoderTest, AddsUpWhatBertMakesOfTexts) {
  CpuProgram& built = filled_program();
  EXPECT_EQ(built.steps().facts().texts.rows, 1);
  EXPECT_EQ(built.steps().facts().texts.tokens, bert_.positions);
  const BertReference reference(bert_);
  const std::vector<runtime::EncodedText> all = texts();
  EXPECT_EQ(all[0].ids.size(), 24u);
  EXPECT_EQ(all[1].ids.size(), 2u);
  embed(built.steps(), all, false);
  for (const runtime::EncodedText& text : all) {
    const Rows hidden = reference.hidden(text.ids);
    const std::vector<float> found = embedding(text.segment);
    for (size_t c = 0; c < found.size(); ++c) {
      double sum = 0;
      for (const std::vector<double>& row : hidden) sum += row[c];
      EXPECT_NEAR(found[c] / static_cast<float>(hidden.size()), sum / static_cast<double>(hidden.size()),
                  1e-5)
          << "text " << text.segment;
    }
  }
}

TEST_F(EncoderTest, TakesTheFirstTokenAloneWhereThatIsWhatEmbeds) {
  CpuProgram& built = filled_program();
  const std::vector<runtime::EncodedText> all = texts();
  embed(built.steps(), all, true);
  for (const runtime::EncodedText& text : all) {
    const std::vector<double> first = BertReference(bert_).hidden(text.ids)[0];
    const std::vector<float> found = embedding(text.segment);
    for (size_t c = 0; c < found.size(); ++c) EXPECT_NEAR(found[c], first[c], 1e-5);
  }
}

TEST_F(EncoderTest, DistancesAreThoseOfTheEmbeddings) {
  CpuProgram& built = filled_program();
  embed(built.steps(), texts(), false);
  const runtime::ReplyDistances found = reply_distances(built.steps());
  ASSERT_EQ(found.mean.size(), 2u);
  const auto cosine = [&](int32_t i, int32_t j) {
    const std::vector<float> a = embedding(i), b = embedding(j);
    double ab = 0, aa = 0, bb = 0;
    for (size_t c = 0; c < a.size(); ++c) {
      ab += static_cast<double>(a[c]) * static_cast<double>(b[c]);
      aa += static_cast<double>(a[c]) * static_cast<double>(a[c]);
      bb += static_cast<double>(b[c]) * static_cast<double>(b[c]);
    }
    return ab / std::sqrt(aa * bb);
  };
  for (int32_t set = 0; set < 2; ++set) {
    const int32_t a = 3 * set, b = a + 1, c = a + 2;
    EXPECT_NEAR(found.mean[static_cast<size_t>(set)], (3 - cosine(a, b) - cosine(b, c) - cosine(a, c)) / 3,
                1e-5);
  }
}

TEST_F(EncoderTest, IsInNoCheckpointAndNeedsNoMasterCopy) {
  CpuProgram& built = program();
  for (const auto& tensors : {built.steps().tensors().parameters, built.steps().tensors().base,
                              built.steps().tensors().optimizer_state})
    for (const runtime::NamedTensor& tensor : tensors)
      EXPECT_EQ(tensor.name.find("word_embeddings"), std::string::npos);
  int64_t bytes = 0;
  for (const runtime::NamedTensor& tensor : built.steps().tensors().encoder) bytes += tensor.bytes();
  int64_t of_file = 0;
  for (const auto& [name, tensor] : bert_.tensors)
    if (!name.starts_with("pooler")) of_file += std::ssize(tensor.numbers) * 4;
  EXPECT_EQ(bytes, of_file);
}

TEST_F(EncoderTest, ReadsNamesWithThePrefixOfAWholeModel) {
  bert_ = {};
  bert_.prefix = "bert.";
  bert_.draw(3);
  CpuProgram& prefixed = filled_program();
  embed(prefixed.steps(), texts(), false);
  const std::vector<float> found = embedding(4);
  bert_ = {};
  bert_.draw(3);
  CpuProgram& plain = filled_program();
  embed(plain.steps(), texts(), false);
  EXPECT_EQ(embedding(4), found);
}

TEST_F(EncoderTest, NamesTensorsThatAreMissingOrOfAnotherShape) {
  CpuProgram& built = program();
  bert_.tensors.erase("encoder.layer.1.output.dense.bias");
  bert_.tensors["embeddings.LayerNorm.weight"] = {{4, 12}, std::vector<float>(48)};
  bert_.write_weights(folder_ / "bert");
  const std::string label = (folder_ / "bert").string();
  EXPECT_EQ(test::message_of<runtime::InputError>(
                [&] { runtime::WeightFiles(folder_ / "bert").fill_encoder(built.steps()); }),
            label +
                ": these are not the weights of its config.json:\n"
                "  missing: \"encoder.layer.1.output.dense.bias\"\n"
                "  of another shape or type: \"embeddings.LayerNorm.weight\" is [4, 12] in the file and "
                "[48] in the model");
}

}  // namespace
}  // namespace hydrac::targets
