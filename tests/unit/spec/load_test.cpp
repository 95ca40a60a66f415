#include <gtest/gtest.h>

#include <stdexcept>

#include "spec/print.h"
#include "spec/reader/overrides.h"
#include "spec/with_data.h"
#include "support.h"

namespace hydrac::spec {
namespace {

TEST(Load, KeepsWhatIsWrittenAndDerivesTheRest) {
  const Spec spec = good(kSmall);
  EXPECT_EQ(spec.name, "small");
  EXPECT_EQ(spec.target, "cpu");
  EXPECT_EQ(spec.model.hidden_size, 128);
  EXPECT_EQ(spec.model.num_key_value_heads, 2);
  EXPECT_EQ(spec.model.head_dim, 64);
  EXPECT_EQ(spec.model.intermediate_size, 384);  // 8/3 * 128 = 341.3
  EXPECT_EQ(spec.model.max_position_embeddings, 64);
  EXPECT_EQ(spec.model.head, Head::language_model);
  EXPECT_EQ(spec.data.path, StringList{"corpus.txt"});
  EXPECT_EQ(spec.train.optimizer.betas, (Betas{0.9, 0.95}));
  EXPECT_EQ(spec.train.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(spec.train.lr_scheduler.decay_steps, 100);
  EXPECT_EQ(spec.optimizations.precision, Precision::fp32);
  EXPECT_FALSE(spec.optimizations.cuda_graph);
  EXPECT_EQ(spec.output.dir, "runs/small");
}

TEST(Load, DerivesIntermediateSizeByTheKindOfMlp) {
  EXPECT_EQ(good(kSmall, {"model.hidden_act=gelu"}).model.intermediate_size, 512);
  EXPECT_EQ(good(kSmall, {"model.hidden_size=192", "model.hidden_act=geglu"}).model.intermediate_size, 512);
  EXPECT_EQ(good(kSmall, {"model.hidden_size=768"}).model.intermediate_size, 2048);
}

TEST(Load, DerivesBiasesFromTheNorm) {
  const auto biases = [](const Spec& spec) {
    const auto& m = spec.model;
    return std::vector<bool>{m.norm_bias, m.attention_bias, m.attention_output_bias, m.mlp_bias};
  };
  using Flags = std::vector<bool>;
  EXPECT_EQ(biases(good(kSmall)), (Flags{false, false, false, false}));
  EXPECT_EQ(biases(good(kSmall, {"model.norm=layernorm", "model.hidden_act=gelu"})),
            (Flags{true, true, true, true}));
  EXPECT_EQ(biases(good(kSmall, {"model.norm=layernorm"})), (Flags{true, true, true, false}));
  EXPECT_EQ(biases(good(kSmall, {"model.attention_bias=true"})), (Flags{false, true, true, false}));
  EXPECT_EQ(biases(good(kSmall, {"model.attention_bias=true", "model.attention_output_bias=false"})),
            (Flags{false, true, false, false}));
}

TEST(Load, DerivesTheOptimizersNumbersFromItsName) {
  const auto lion = good(kSmall, {"train.optimizer.name=lion"}).train.optimizer;
  EXPECT_EQ(lion.learning_rate, 1e-4);
  EXPECT_EQ(lion.betas, (Betas{0.9, 0.99}));
  const auto sgd = good(kSmall, {"train.optimizer.name=sgd"}).train.optimizer;
  EXPECT_EQ(sgd.learning_rate, 0.1);
  EXPECT_EQ(sgd.weight_decay, 0);
}

TEST(Load, DerivesTheDecayFromTheSchedule) {
  const auto decay = [](const std::string& name, const std::string& warmup) {
    return good(kSmall, {"train.lr_scheduler.name=" + name, "train.lr_scheduler.warmup_steps=" + warmup})
        .train.lr_scheduler.decay_steps;
  };
  EXPECT_EQ(decay("cosine", "20"), 80);
  EXPECT_EQ(decay("linear", "100"), 0);
  EXPECT_EQ(decay("wsd", "20"), 10);
  EXPECT_EQ(decay("wsd", "95"), 5);
  EXPECT_EQ(decay("constant", "20"), 0);
}

// A schedule that fits stays, and so does one that the command line gives beside the length.
TEST(Load, ShortensAScheduleThatTheCommandLineLeavesNoRoomFor) {
  const std::string spec = kSmall + "profile: {start: 90, steps: 5}\n";
  const auto with = [&](const std::string& schedule, const std::vector<std::string>& overrides) {
    std::string text = spec;
    text.replace(text.find("max_steps: 100}"), 15, "max_steps: 100, lr_scheduler: {" + schedule + "}}");
    return load(text, overrides);
  };
  const Loaded shorter = with("warmup_steps: 20", {"train.max_steps=10"});
  ASSERT_TRUE(shorter.spec) << shorter.text();
  EXPECT_EQ(shorter.spec->train.lr_scheduler.warmup_steps, 1);
  EXPECT_EQ(shorter.spec->train.lr_scheduler.decay_steps, 9);
  EXPECT_EQ(shorter.spec->profile.start, 6);
  EXPECT_EQ(shorter.diagnostics.all().size(), 1u) << shorter.text();
  const Loaded wsd = with("name: wsd, warmup_steps: 6, decay_steps: 50", {"train.max_steps=10"});
  ASSERT_TRUE(wsd.spec) << wsd.text();
  EXPECT_EQ(wsd.spec->train.lr_scheduler.warmup_steps, 6);
  EXPECT_EQ(wsd.spec->train.lr_scheduler.decay_steps, 1);
  const Loaded fits = with("warmup_steps: 20", {"train.max_steps=99"});
  EXPECT_EQ(fits.text(), "");
  const Loaded both = with("warmup_steps: 5", {"train.max_steps=10", "train.lr_scheduler.warmup_steps=20"});
  EXPECT_FALSE(both.spec) << "both were typed";
}

TEST(Load, DerivesTheOrderOfACurriculumFromTheData) {
  const std::vector<std::string> curriculum = {"data.curriculum.steps=50"};
  const Spec spec = good(kSmall, curriculum);
  EXPECT_EQ(spec.data.curriculum.by, CurriculumOrder::file);
  EXPECT_EQ(good(to_yaml(spec)), spec);
  EXPECT_EQ(good(kSmall, {"data.curriculum.steps=50", "data.format=chat"}).data.curriculum.by,
            CurriculumOrder::length);
  EXPECT_EQ(to_yaml(good(kSmall)).find("curriculum"), std::string::npos);
}

TEST(Load, DerivesPrecisionAndGraphFromTheTarget) {
  const auto h200 = good(kSmall, {"target=h200"}).optimizations;
  EXPECT_EQ(h200.precision, Precision::bf16);
  EXPECT_TRUE(h200.cuda_graph);
  EXPECT_EQ(good(kSmall, {"target=gtx1650ti"}).optimizations.precision, Precision::fp16);
  EXPECT_EQ(good(kSmall, {"target=sm_86"}).optimizations.precision, Precision::bf16);
}

TEST(Load, SettlesAutoOnTheGivenTarget) {
  diag::Diagnostics diagnostics;
  const auto spec = load_spec_text("spec.yaml", kSmall, {}, diagnostics, "rtx3090");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->target, "rtx3090");
}

TEST(Load, SettlesCudaOnTheMachinesGpuOnly) {
  diag::Diagnostics diagnostics;
  const auto spec =
      load_spec_text("spec.yaml", kSmall, std::vector<std::string>{"target=cuda"}, diagnostics, "rtx3090");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->target, "rtx3090");
  EXPECT_EQ(load(kSmall, {"target=cuda"}).diagnostics.all()[0].kind, diag::Kind::no_gpu);
}

const std::string kEpochs = kSmall.substr(0, kSmall.find(", max_steps")) + ", epochs: 2.5}\n";

TEST(Epochs, BecomeStepsWithTheData) {
  Spec spec = good(kEpochs, {"train.gradient_accumulation_steps=3", "train.lr_scheduler.warmup_steps=20"});
  EXPECT_TRUE(waits_for_data(spec));
  EXPECT_NE(to_yaml(spec).find("epochs: 2.5\n"), std::string::npos);
  EXPECT_EQ(good(to_yaml(spec)), spec) << "printed before the data is known";
  diag::Diagnostics diagnostics;
  ASSERT_TRUE(complete_with_data(spec, {1000, 0}, diagnostics));
  EXPECT_EQ(spec.train.max_steps, 209);  // 2.5 * 1000 / 12 = 208.3
  EXPECT_EQ(spec.train.lr_scheduler.decay_steps, 189);
  EXPECT_FALSE(waits_for_data(spec));
  EXPECT_EQ(to_yaml(spec).find("epochs"), std::string::npos);
  EXPECT_EQ(good(to_yaml(spec)), spec) << "a resumed run is the same";
}

TEST(Epochs, AreCheckedWithTheData) {
  const auto kinds = [](const std::vector<std::string>& overrides, int64_t sequences) {
    Spec spec = good(kEpochs, overrides);
    diag::Diagnostics diagnostics;
    EXPECT_FALSE(complete_with_data(spec, {sequences, 0}, diagnostics));
    return std::string(id(diagnostics.all().at(0).kind));
  };
  EXPECT_EQ(kinds({"train.lr_scheduler.warmup_steps=20"}, 10), "warmup-too-long");
  EXPECT_EQ(kinds({"train.epochs=1000000"}, 10000000), "out-of-range");
  EXPECT_EQ(kinds({"data.curriculum.steps=20"}, 10), "curriculum-too-long");
}

const std::string kMixed =
    "name: mixed\nmodel: {hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2}\n"
    "data: {mix: {web: web.txt, code: {path: [code.py, more.py], weight: 0.5, epochs: 2}}, val: {chat: "
    "chat.txt}}\n"
    "train: {sequence_len: 16, micro_batch_size: 4, max_steps: 10}\n";

TEST(Mixture, HasSourcesByTheirNames) {
  const Spec spec = good(kMixed, {"data.mix.web.path=[b.txt]", "data.mix.web.weight=3"});
  EXPECT_EQ(spec.data.mix, (Sources{{"web", {"b.txt"}, 3, 0}, {"code", {"code.py", "more.py"}, 0.5, 2}}));
  EXPECT_EQ(spec.data.val, (Sources{{"chat", {"chat.txt"}}}));
  EXPECT_EQ(good(to_yaml(spec)), spec) << to_yaml(spec);
  EXPECT_FALSE(spec.data.document_mask);
  const Spec plain = good(kMixed, {"data.path=a.txt", "data.val_path=b.txt"});
  EXPECT_TRUE(plain.data.mix.empty() && plain.data.val.empty()) << "what is laid over it replaces it";
  EXPECT_TRUE(good(kMixed, {"data.mix.web=a.jsonl", "data.mix.code=b.parquet"}).data.document_mask);
}

TEST(Mixture, LastsNoLongerThanItsEpochs) {
  Spec spec = good(kMixed);
  diag::Diagnostics diagnostics;
  EXPECT_TRUE(complete_with_data(spec, {1000, 0, 40}, diagnostics)) << diagnostics.render();
  EXPECT_FALSE(complete_with_data(spec, {1000, 0, 39}, diagnostics));
  EXPECT_EQ(diagnostics.all().at(0).message,
            "max_steps is 10, and the epochs of data.mix allow 39 sequences, which are 9 steps");
  EXPECT_EQ(diagnostics.all().at(0).suggestion,
            "write max_steps: 9, or more epochs for a source (0 = any number)");
}

TEST(Epochs, AndStepsReplaceEachOtherWhereOneIsLaidOverTheOther) {
  EXPECT_EQ(good(kSmall, {"train.epochs=2"}).train.epochs, 2);
  EXPECT_EQ(good(kEpochs, {"train.max_steps=7"}).train.max_steps, 7);
  EXPECT_EQ(good(kSmall, {"train.epochs=2", "train.max_steps=7"}).train.epochs, 0);
  EXPECT_EQ(load(kSmall, {"train={epochs: 2, max_steps: 7}"}).diagnostics.all()[0].kind,
            diag::Kind::steps_and_epochs);
  const Folder folder;
  folder.write("base.yaml", kEpochs);
  diag::Diagnostics diagnostics;
  const auto spec =
      load_spec(folder.write("spec.yaml", "extends: base.yaml\ntrain: {max_steps: 9}\n"), {}, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->train.max_steps, 9);
}

TEST(Validation, OfMoreBatchesThanThereAreIsAWarning) {
  Spec spec = good(kSmall, {"train.eval_batches=30"});
  diag::Diagnostics diagnostics;
  EXPECT_TRUE(complete_with_data(spec, {1000, 7}, diagnostics));
  EXPECT_EQ(diagnostics.render(),
            "<command line>:1:20: warning: eval_batches is 30, and the validation data has 7: each "
            "validation takes all "
            "of them [no-effect]\n  help: write 7\n");
  spec = good(kSmall);
  diag::Diagnostics none;
  EXPECT_TRUE(complete_with_data(spec, {1000, 7}, none));
  EXPECT_EQ(none.render(), "") << "nobody asked for 20";
}

TEST(Options, AreAnsweredByTheirNames) {
  EXPECT_EQ(option_problem("sample.temperature", "-1", "--temperature"),
            "--temperature must be between 0 and 100, not -1");
  EXPECT_EQ(option_problem("sample.top_k", "few", "--top-k"),
            "--top-k takes a whole number, not the text \"few\"");
  EXPECT_EQ(option_problem("sample.top_k", "40", "--top-k"), "");
}

TEST(Load, CountsFeaturesAndLabelsOfASeries) {
  const Spec spec = good(kSmall, {"model.input=series", "data.features=[a, b, c]", "data.target=[y, z]"});
  EXPECT_EQ(spec.model.head, Head::regression);
  EXPECT_EQ(spec.model.num_features, 3);
  EXPECT_EQ(spec.model.num_labels, 2);
}

TEST(Load, RemembersWhereEachKeyWasWritten) {
  const Spec spec = good(kSmall, {"train.seed=7"});
  EXPECT_EQ(spec.where("model.hidden_size"), (diag::Location{"spec.yaml", 3, 16}));
  EXPECT_EQ(spec.where("train.seed"), (diag::Location{"<command line>", 1, 12}));
  EXPECT_FALSE(spec.where("model.head_dim").known());
  EXPECT_TRUE(spec.is_set("name"));
  EXPECT_FALSE(spec.is_set("sample.seed"));
  EXPECT_THROW(spec.where("model.hidden"), std::logic_error);
}

TEST(Load, LeavesTheUsersOwnKeysAlone) {
  const Spec spec = good(kSmall + "x-note: {a: [1, {b: c}]}\nsample: {x-why: because, seed: 3}\n");
  EXPECT_EQ(spec.sample.seed, 3);
}

TEST(Load, ReadsNumbersAsYaml12Does) {
  EXPECT_EQ(good(kSmall, {"train.seed=0x1F"}).train.seed, 31);
  EXPECT_EQ(good(kSmall, {"train.seed=0o17"}).train.seed, 15);
  EXPECT_EQ(good(kSmall, {"train.seed=017"}).train.seed, 17);
  EXPECT_EQ(good(kSmall, {"train.seed=+5"}).train.seed, 5);
  EXPECT_EQ(good(kSmall, {"model.norm_eps=1e-6"}).model.norm_eps, 1e-6);
  EXPECT_EQ(good(kSmall, {"model.norm_eps=.001"}).model.norm_eps, 1e-3);
  EXPECT_EQ(good(kSmall, {"model.rope_theta=5E+5"}).model.rope_theta, 5e5);
  EXPECT_EQ(good(kSmall, {"model.rope_theta=500000"}).model.rope_theta, 5e5);
}

TEST(Load, ReadsRecomputeAsAWordOrAList) {
  using Mode = Recompute::Mode;
  EXPECT_EQ(good(kSmall, {"optimizations.recompute=block"}).optimizations.recompute,
            (Recompute{.mode = Mode::block}));
  EXPECT_EQ(good(kSmall, {"optimizations.recompute=[norm, attn]"}).optimizations.recompute,
            (Recompute{.mode = Mode::list, .norm = true, .attn = true}));
  EXPECT_EQ(good(kSmall, {"target=h100", "optimizations.recompute=auto"}).optimizations.recompute,
            (Recompute{.mode = Mode::automatic}));
}

TEST(Load, DropsAByteOrderMarkOnlyFromFiles) {
  const Folder folder;
  diag::Diagnostics diagnostics;
  const auto spec = load_spec(folder.write("spec.yaml", "\xef\xbb\xbf" + kSmall), {}, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->where("name").col, 7);
}

TEST(Overrides, WinOverTheFileInOrder) {
  EXPECT_EQ(good(kSmall, {"train.max_steps=10", "train.max_steps=20"}).train.max_steps, 20);
}

TEST(Overrides, TakeTextAsItStands) {
  EXPECT_EQ(good(kSmall, {"sample.prompt=To be: or # not {to} be"}).sample.prompt, "To be: or # not {to} be");
  EXPECT_EQ(good(kSmall, {"sample.prompt=\"a\\nb\""}).sample.prompt, "a\nb");
  EXPECT_EQ(good(kSmall, {"sample.prompt=42"}).sample.prompt, "42");
  EXPECT_EQ(good(kSmall, {"sample.prompt=a=b"}).sample.prompt, "a=b");
  EXPECT_EQ(good(kSmall, {"data.path=*.txt"}).data.path, StringList{"*.txt"});
  EXPECT_EQ(good(kSmall, {"data.path=[a.txt, 'b*.txt']"}).data.path, (StringList{"a.txt", "b*.txt"}));
}

TEST(Load, CoresAreNumbersAndRanges) {
  const auto cores = [](const std::string& text) {
    return good(kSmall, {"train.cpu_affinity=" + text}).train.cpu_affinity.numbers;
  };
  EXPECT_EQ(cores("[0-3, 8, 5]"), (std::vector<int>{0, 1, 2, 3, 8, 5}));
  EXPECT_EQ(cores("2-3"), (std::vector<int>{2, 3}));
  EXPECT_EQ(cores("7"), std::vector<int>{7});
  EXPECT_EQ(cores("none"), std::vector<int>());
  const std::string resolved = to_yaml(good(kSmall, {"train.cpu_affinity=[6, 7, 8, 5, 0-1]"}));
  EXPECT_NE(resolved.find("\n  cpu_affinity: [6-8, 5, 0-1]\n"), std::string::npos) << resolved;
}

TEST(Overrides, MergeMapsKeyByKey) {
  const auto optimizer =
      good(kSmall, {"train.optimizer={name: sgd, momentum: 0.5}", "train.optimizer.learning_rate=0.01"})
          .train.optimizer;
  EXPECT_EQ(optimizer.name, Optimizer::sgd);
  EXPECT_EQ(optimizer.momentum, 0.5);
  EXPECT_EQ(optimizer.learning_rate, 0.01);
}

TEST(Overrides, MayWriteAnywhere) {
  EXPECT_EQ(good(kSmall, {"output.dir=/scratch/run"}).output.dir, "/scratch/run");
  EXPECT_EQ(good(kSmall, {"data.cache_dir=../cache"}).data.cache_dir, "../cache");
}

TEST(Overrides, WithoutAValueSaySo) {
  EXPECT_EQ(
      load(kSmall, {"train.max_steps="}).text(),
      "<command line>:1:17: error: train.max_steps takes a whole number, and there is no value [wrong-type]\n"
      "  train.max_steps=\n"
      "                  ^\n");
}

TEST(Overrides, WithControlCharactersAreRefused) {
  EXPECT_EQ(load(kSmall, {"name=a\x1b[2J"}).text(),
            "<command line>:1:7: error: this is no text file: byte 6 is 0x1b [binary-file]\n"
            "  name=a?[2J\n"
            "        ^\n"
            "  help: a spec is YAML in UTF-8\n");
}

TEST(Extends, OverlaysKeyByKeyAcrossFolders) {
  const Folder folder;
  folder.write("base/middle.yaml", "extends: ../root.yaml\ntrain: {max_steps: 50, seed: 2}\n");
  folder.write("root.yaml", kSmall + "sample: {seed: 9}\n");
  const std::string top =
      folder.write("top/spec.yaml", "extends: ../base/middle.yaml\nname: top\ntrain: {seed: 3}\n");
  diag::Diagnostics diagnostics;
  const auto spec = load_spec(top, {}, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "top");
  EXPECT_EQ(spec->train.max_steps, 50);
  EXPECT_EQ(spec->train.seed, 3);
  EXPECT_EQ(spec->sample.seed, 9);
  EXPECT_EQ(spec->extends, "");
  EXPECT_EQ(spec->where("train.max_steps"), (diag::Location{folder.path("base/middle.yaml"), 2, 20}));
  EXPECT_EQ(spec->where("model.hidden_size"), (diag::Location{folder.path("root.yaml"), 3, 16}));
}

TEST(Extends, ReplacesListsAsAWhole) {
  const Folder folder;
  folder.write("base.yaml", kSmall + "optimizations: {recompute: [norm, act]}\n");
  diag::Diagnostics diagnostics;
  const auto spec = load_spec(
      folder.write("spec.yaml", "extends: base.yaml\noptimizations: {recompute: [mlp]}\n"), {}, diagnostics);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->optimizations.recompute, (Recompute{.mode = Recompute::Mode::list, .mlp = true}));
}

TEST(Extends, AFileThatExtendsItselfIsACycle) {
  const Folder folder;
  const std::string spec =
      folder.write("spec.yaml", "extends: ./../" +
                                    std::filesystem::path(folder.path("")).parent_path().filename().string() +
                                    "/spec.yaml\n");
  diag::Diagnostics diagnostics;
  EXPECT_FALSE(load_spec(spec, {}, diagnostics));
  ASSERT_EQ(diagnostics.all().size(), 1u);
  EXPECT_EQ(diagnostics.all()[0].kind, diag::Kind::extends_cycle);
}

TEST(Extends, AMissingBaseIsTheOnlyMissingThing) {
  const Loaded loaded = load("extends: nowhere/base.yaml\nname: 5\n");
  EXPECT_EQ(loaded.text(),
            "spec.yaml:1:10: error: cannot read nowhere/base.yaml: there is no such file [unreadable-file]\n"
            "  extends: nowhere/base.yaml\n"
            "           ^\n"
            "spec.yaml:2:7: error: name takes text, not the number 5 [wrong-type]\n"
            "  name: 5\n"
            "        ^\n"
            "  help: write \"5\" in quotes if you mean the text\n");
}

}  // namespace
}  // namespace hydrac::spec
