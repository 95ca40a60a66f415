// Keys that take a C++ function: what is read, what follows from it, and that resolved specs carry it.
#include <nlohmann/json.hpp>

#include "spec/print.h"
#include "support.h"

namespace hydrac::spec {
namespace {

const std::string kTwo =
    "float plain(float x) { return x * x; }\nfloat gated(float gate, float up) { return gate * up; }\n";

std::string with_act(const std::string& act) {
  std::string text = kSmall;
  text.insert(text.find("data:"), "  hidden_act: " + act + "\n");
  return text;
}

TEST(SpecFunction, IsReadBesideTheSpecAndLifted) {
  const Folder folder;
  folder.write("ops/two.h", kTwo);
  const Spec spec = good(with_act("{cpp: ops/two.h, function: plain}"), {}, folder.path("spec.yaml"));
  ASSERT_TRUE(spec.model.hidden_act.function);
  EXPECT_EQ(spec.model.hidden_act.function->text, kTwo);
  EXPECT_EQ(spec.model.hidden_act.function->lifted.name, "plain");
  EXPECT_FALSE(is_gated(spec.model.hidden_act));
  EXPECT_FALSE(spec.model.hidden_act == Activation::gelu);
  EXPECT_TRUE(spec.is_set("model.hidden_act"));
}

TEST(SpecFunction, OfTwoParametersIsGatedWithWhatFollows) {
  const Folder folder;
  folder.write("ops/two.h", kTwo);
  const auto size = [&](const std::string& function) {
    return good(with_act("{cpp: ops/two.h, function: " + function + "}"), {}, folder.path("spec.yaml"))
        .model.intermediate_size;
  };
  EXPECT_EQ(size("plain"), 4 * 128);
  EXPECT_EQ(size("gated"), 384);
}

TEST(SpecFunction, IsNamedOnTheCommandLineFromTheWorkingFolder) {
  const Folder folder;
  const std::string file = folder.write("two.h", kTwo);
  const Spec spec = good(kSmall, {"model.hidden_act={cpp: " + file + ", function: gated}"});
  EXPECT_TRUE(is_gated(spec.model.hidden_act));
  const Spec other = good(with_act("{cpp: two.h, function: gated}"), {"model.hidden_act.function=plain"},
                          folder.path("spec.yaml"));
  EXPECT_FALSE(is_gated(other.model.hidden_act));
  const Spec word =
      good(with_act("{cpp: two.h, function: gated}"), {"model.hidden_act=silu"}, folder.path("spec.yaml"));
  EXPECT_EQ(word.model.hidden_act, Activation::silu);
}

TEST(SpecFunction, RoundTripsWithItsText) {
  const Folder folder;
  const std::string text = "// \"quotes\", \\ and \xc3\xa9\n\t" + kTwo +
                           "double stairs(double s, double m) { return s < m / 2 ? 1 : 0.5; }\r\n";
  folder.write("two.h", text);
  const Spec spec = good(with_act("{cpp: two.h, function: gated}"),
                         {"train.lr_scheduler.name={cpp: " + folder.path("two.h") + ", function: stairs}"},
                         folder.path("spec.yaml"));
  const std::string printed = to_yaml(spec);
  const Spec again = good(printed, {}, "elsewhere/spec.yaml");
  EXPECT_EQ(again, spec);
  EXPECT_EQ(to_yaml(again), printed);
  EXPECT_EQ(again.model.hidden_act.function->lifted, spec.model.hidden_act.function->lifted);
  EXPECT_EQ(nlohmann::json::parse(to_json(spec))["model"]["hidden_act"],
            (nlohmann::json{{"cpp", "two.h"}, {"function", "gated"}, {"text", text}}));
  Spec changed = spec;
  changed.model.hidden_act.function->text += " ";
  EXPECT_FALSE(changed == spec);
}

// A resolved spec as a base: its text is of its own file, not of one that is named over it.
TEST(SpecFunction, ATextStaysWithItsFile) {
  const Folder folder;
  folder.write("base.yaml",
               with_act("{cpp: gone.h, function: plain, text: \"float plain(float x) { return x; }\"}"));
  folder.write("two.h", kTwo);
  const Spec same = good("extends: base.yaml\nname: same\n", {}, folder.path("spec.yaml"));
  EXPECT_EQ(same.model.hidden_act.function->text, "float plain(float x) { return x; }");
  const Spec other = good("extends: base.yaml\nname: other\nmodel: {hidden_act: {cpp: two.h}}\n", {},
                          folder.path("spec.yaml"));
  EXPECT_EQ(other.model.hidden_act.function->text, kTwo);
}

TEST(SpecFunction, ReplacesConfigJsonsActivation) {
  const Folder folder;
  folder.write("two.h", kTwo);
  folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 128, "vocab_size": 256, "n_positions": 64,
                   "activation_function": "quick_gelu"})");
  const Spec spec = good(
      "name: a\nmodel: {from: config.json, hidden_act: {cpp: two.h, function: plain}}\n"
      "data: {path: corpus.txt}\ntrain: {sequence_len: 64, micro_batch_size: 4, max_steps: 100}\n",
      {}, folder.path("spec.yaml"));
  ASSERT_TRUE(spec.model.hidden_act.function);
  EXPECT_EQ(spec.model.intermediate_size, 512);
}

TEST(SpecFunction, ACurveMakesTheOtherCurvesKeysVain) {
  const Folder folder;
  const std::string file =
      folder.write("c.h", "float c(float step, float max_steps) { return step / max_steps; }\n");
  const Loaded loaded = load(kSmall, {"train.lr_scheduler.name={cpp: " + file + ", function: c}",
                                      "train.lr_scheduler.min_ratio=0.5"});
  ASSERT_TRUE(loaded.spec);
  EXPECT_EQ(loaded.spec->train.lr_scheduler.decay_steps, 0);
  EXPECT_NE(
      loaded.text().find(
          "warning: train.lr_scheduler.min_ratio has no effect: the schedule is a function [no-effect]"),
      std::string::npos)
      << loaded.text();
}

TEST(SpecFunction, LossFollowsTheHead) {
  EXPECT_EQ(good(kSmall).train.loss, Loss::cross_entropy);
  const std::string series =
      "name: s\nmodel: {input: series, hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2}\n"
      "data: {path: a.csv, target: y}\ntrain: {sequence_len: 64, micro_batch_size: 4, max_steps: 100}\n";
  EXPECT_EQ(good(series).train.loss, Loss::mse);
  const Folder folder;
  const std::string file = folder.write(
      "l.h", "float l(float y, float target) { const float e = y - target; return e * e * e * e; }\n");
  EXPECT_TRUE(good(series, {"train.loss={cpp: " + file + ", function: l}"}).train.loss.function);
}

}  // namespace
}  // namespace hydrac::spec
