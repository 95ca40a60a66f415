// An encoder of replies on a GPU: its embeddings are those of BERT's definition, as far as the precision
// goes.
#include <cmath>

#include "runtime/text/tokenizer/wordpiece.h"
#include "runtime/train/generation/reply_scores.h"
#include "runtime/train/generation/text_batches.h"
#include "runtime/train/initial_weights.h"
#include "spec/load.h"
#include "targets/cuda/executor.h"
#include "tests/gpu/gpu_test.h"
#include "tests/unit/support/bert_folder.h"
#include "tests/unit/support/bert_reference.h"

namespace hydrac::targets {
namespace {

struct Precision {
  const char* name;
  double tolerance;  // of a number of a mean hidden state, which is of the size of 1
};

void PrintTo(const Precision& precision, std::ostream* out) {
  *out << precision.name;
}

class GpuEncoder : public test::GpuTest, public testing::WithParamInterface<Precision> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const Target& target = *find(detected_gpu().value());
    machine_ = std::make_unique<CudaMachine>(target, folder_.path());
    // Heads as MiniLM's, and rows that no tile divides.
    bert_ = {.width = 128, .layers = 3, .heads = 4, .inner = 512, .positions = 100, .largest_weight = 0.15f};
    bert_.draw(9);
    bert_.write(folder_ / "bert");
    const std::string text =
        "name: replies\ntarget: " + std::string(target.name) +
        "\nmodel: {hidden_size: 128, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 256}\n"
        "objective: {name: polychromic, prompts: 3, replies: 4, prompt_tokens: 32, max_new_tokens: 32, "
        "embed: " +
        (folder_ / "bert").string() +
        "}\ndata: {path: none.jsonl, format: chat, tokenizer: byte}\n"
        "train: {sequence_len: 64, micro_batch_size: 2, max_steps: 1}\noptimizations: {precision: " +
        GetParam().name + "}\n";
    diag::Diagnostics diagnostics;
    const std::optional<spec::Spec> spec =
        spec::load_spec_text("replies.yaml", text, {}, diagnostics, target.name);
    ASSERT_TRUE(spec) << diagnostics.render();
    program_ = std::make_unique<CudaProgram>(driver::compile(*spec, machine_->compile_options(*spec, "")),
                                             *machine_);
    program_->initialize();
    runtime::WeightFiles(folder_ / "bert").fill_encoder(*program_);
  }

  // Of 2 to 100 ids, more than one call of "embed" takes.
  std::vector<runtime::EncodedText> texts() const {
    const runtime::WordPiece tokenizer = runtime::load_wordpiece(folder_ / "bert");
    std::vector<runtime::EncodedText> all;
    std::string text;
    for (int32_t segment = 0; segment < 12; ++segment) {
      all.push_back({segment, tokenizer.encode(text, bert_.positions)});
      for (int i = 0; i < 12; ++i) text += static_cast<char>('!' + (segment * 31 + i * i * 7) % 60);
    }
    return all;
  }

  std::vector<float> embeddings(const std::vector<runtime::EncodedText>& texts) {
    clear_replies(*program_);
    for (const runtime::Batch& batch : text_batches(texts, program_->facts().texts, false))
      embed(*program_, batch);
    const runtime::Place sums = program_->layout().results.reply_embeddings;
    std::vector<float> all(static_cast<size_t>(sums.elements));
    program_->copy_out(sums.offset, std::as_writable_bytes(std::span(all)));
    return all;
  }

  test::TempDir folder_;
  test::BertFolder bert_;
  std::unique_ptr<CudaMachine> machine_;
  std::unique_ptr<CudaProgram> program_;
};

TEST_P(GpuEncoder, AddsUpWhatBertMakesOfTexts) {
  const std::vector<runtime::EncodedText> all = texts();
  ASSERT_EQ(all.back().ids.size(), 100u);
  const std::vector<float> found = embeddings(all);
  const test::BertReference reference(bert_);
  for (const runtime::EncodedText& text : all) {
    const auto hidden = reference.hidden(text.ids);
    for (size_t c = 0; c < hidden[0].size(); ++c) {
      double mean = 0;
      for (const std::vector<double>& row : hidden) mean += row[c] / static_cast<double>(hidden.size());
      const size_t at = static_cast<size_t>(text.segment) * hidden[0].size() + c;
      ASSERT_NEAR(found[at] / static_cast<float>(hidden.size()), mean, GetParam().tolerance)
          << "text " << text.segment << ", column " << c;
    }
  }
}

TEST_P(GpuEncoder, GivesTheSameBitsAgain) {
  const std::vector<runtime::EncodedText> all = texts();
  const std::vector<float> first = embeddings(all);
  const runtime::ReplyDistances distances = reply_distances(*program_);
  EXPECT_EQ(embeddings(all), first);
  EXPECT_EQ(reply_distances(*program_).of_each, distances.of_each);
  for (const float mean : distances.mean) {
    EXPECT_GT(mean, 0);
    EXPECT_LT(mean, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, GpuEncoder,
                         testing::Values(Precision{"fp32", 2e-5}, Precision{"tf32", 5e-3},
                                         Precision{"fp16", 6e-3}, Precision{"bf16", 5e-2}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::targets
