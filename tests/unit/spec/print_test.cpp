#include "spec/print.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support.h"

namespace hydrac::spec {
namespace {

void expect_round_trip(const Spec& spec) {
  const std::string text = to_yaml(spec);
  const Spec again = good(text);  // without a warning
  EXPECT_EQ(again, spec) << text;
  EXPECT_EQ(to_yaml(again), text);
}

TEST(Print, RoundTripsEveryShippedSpec) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "specs")) {
    if (entry.path().extension() != ".yaml") continue;
    diag::Diagnostics diagnostics;
    const auto spec = load_spec(entry.path().string(), {}, diagnostics);
    EXPECT_EQ(diagnostics.render(), "");
    ASSERT_TRUE(spec) << entry.path();
    expect_round_trip(*spec);
    ++count;
  }
  EXPECT_GE(count, 8);
}

TEST(Print, RoundTripsTextThatNeedsQuotes) {
  for (const std::string prompt : {"",
                                   "true",
                                   "no",
                                   "123",
                                   "0x1F",
                                   "1e5",
                                   "~",
                                   "null",
                                   "a: b",
                                   "# x",
                                   " a ",
                                   "\"",
                                   "\\",
                                   "\n\t\r",
                                   "'",
                                   "*a",
                                   "&a",
                                   "!a",
                                   "[a]",
                                   "{a}",
                                   "- a",
                                   "%",
                                   "@",
                                   "`",
                                   "\xc3\xa9\xe2\x82\xac",
                                   "\xe2\x80\xa8",
                                   "\xc2\x85",
                                   "a,b",
                                   "NO",
                                   "y"}) {
    Spec spec = good(kSmall);
    spec.sample.prompt = prompt;
    spec.data.path = {prompt + "x", "b"};
    expect_round_trip(spec);
  }
}

TEST(Print, RoundTripsEveryKindOfValue) {
  expect_round_trip(
      good(kSmall, {"train.optimizer={name: lion, learning_rate: 1.2345678901234567e-5, betas: [0.1, 0.3]}",
                    "optimizations.recompute=[norm, mlp]", "model.rope_scaling={factor: 8}",
                    "train.seed=9007199254740991", "model.norm_eps=1e-12"}));
  expect_round_trip(
      good(kSmall, {"optimizations.recompute=block", "train.optimizer.name=sgd",
                    "train.lr_scheduler.name=constant", "train.eval_steps=0", "sample.temperature=0"}));
  expect_round_trip(good(kSmall, {"model.input=series", "data.target=y", "model.head=classification",
                                  "model.num_labels=3", "data.val_path=val.csv"}));
}

TEST(Print, IsReadable) {
  const std::string text = to_yaml(good(kSmall));
  EXPECT_EQ(text.substr(0, text.find("  head_dim")),
            "name: small\n"
            "target: cpu\n"
            "model:\n"
            "  input: tokens\n"
            "  num_features: 0\n"
            "  head: language_model\n"
            "  num_labels: 0\n"
            "  hidden_size: 128\n"
            "  num_hidden_layers: 2\n"
            "  num_attention_heads: 2\n"
            "  num_key_value_heads: 2\n");
  EXPECT_NE(text.find("  rope_scaling:\n    rope_type: llama3\n    factor: 1\n"), std::string::npos);
}

TEST(Print, JsonHoldsTheSameValues) {
  const auto json = nlohmann::json::parse(to_json(good(kSmall, {"optimizations.recompute=[act, attn]"})));
  EXPECT_EQ(json["name"], "small");
  EXPECT_EQ(json["model"]["hidden_size"], 128);
  EXPECT_EQ(json["model"]["norm"], "rmsnorm");
  EXPECT_EQ(json["model"]["rope_scaling"]["factor"], 1.0);
  EXPECT_EQ(json["train"]["optimizer"]["betas"], nlohmann::json({0.9, 0.95}));
  EXPECT_EQ(json["optimizations"]["recompute"], nlohmann::json({"act", "attn"}));
  EXPECT_EQ(json["data"]["path"], nlohmann::json({"corpus.txt"}));
  EXPECT_FALSE(json.contains("extends"));
}

}  // namespace
}  // namespace hydrac::spec
