// A run on a GPU whose replies an encoder embeds: diversity is reported, and a run that was stopped goes on
// to the same bits.
#include "tests/e2e/cli.h"
#include "tests/gpu/gpu_test.h"
#include "tests/unit/support/bert_folder.h"

namespace hydrac::targets {
namespace {

using e2e::Outcome;
using e2e::Words;
using e2e::Workplace;
using test::slurp;

class GpuEncoderRun : public test::GpuTest {
 protected:
  GpuEncoderRun() {
    test::BertFolder bert{.width = 128, .heads = 4, .inner = 512, .positions = 64};
    bert.draw(4);
    bert.write(place_ / "bert");
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += R"({"prompt": "after )" + std::to_string(i) + R"( comes ", "completion": ")" +
               std::to_string(i + 1) + "\"}\n";
    test::spill(place_ / "pairs.jsonl", lines);
    test::spill(
        place_ / "replies.yaml",
        "name: replies\ntarget: cuda\n"
        "model: {hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2}\n"
        "adapter: {type: lora, r: 8}\n"
        "objective: {name: polychromic, prompts: 4, replies: 3, weight: 1, kl: 0.1, prompt_tokens: 16, "
        "max_new_tokens: 16, embed: bert}\n"
        "data: {path: pairs.jsonl, format: chat, val_fraction: 0}\n"
        "train: {sequence_len: 64, micro_batch_size: 4, max_steps: 8, log_steps: 1, optimizer: "
        "{learning_rate: 0.01}}\nsample: {max_new_tokens: 0}\n");
  }

  void train(const Words& more) const {
    const Outcome trained = place_.run(e2e::with({"-q", "replies.yaml"}, more));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  const Workplace place_;
};

TEST_F(GpuEncoderRun, ThatWasStoppedGoesOnToTheSameBits) {
  for (const std::string precision : {"fp32", "bf16"}) {
    const std::string asked = "optimizations.precision=" + precision;
    train({"name=whole-" + precision, asked});
    train({"name=parts-" + precision, asked, "train.save_steps=4"});
    const std::filesystem::path whole = place_ / ("runs/whole-" + precision),
                                parts = place_ / ("runs/parts-" + precision);
    std::filesystem::remove_all(parts / "checkpoint-8");
    train({"name=parts-" + precision, asked, "train.save_steps=4", "--resume"});
    for (const char* name : {"adapter_model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(slurp(parts / "checkpoint-8" / name), slurp(whole / "checkpoint-8" / name)) << name;
    const std::string metrics = e2e::without_timing(slurp(whole / "metrics.jsonl"));
    EXPECT_EQ(e2e::without_timing(slurp(parts / "metrics.jsonl")), metrics);
    EXPECT_NE(metrics.find("\"diversity\":"), std::string::npos) << metrics;
  }
}

}  // namespace
}  // namespace hydrac::targets
