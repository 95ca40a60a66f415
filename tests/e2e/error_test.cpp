// What a user gets wrong: the whole message, the exit code, and nothing written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

// Runs in a folder that must be left as it was, but for the cache of tokens, which is the working folder's.
// `text` is all that is printed as errors.
void expect_text(const Workplace& place, const Words& words, const std::string& text,
                 const std::map<std::string, std::string>& environment = {}) {
  const Words before = files_below(place.path(), ".cache");
  const Outcome outcome = place.run(words, environment);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, text);
  EXPECT_EQ(files_below(place.path(), ".cache"), before);
  EXPECT_FALSE(fs::exists(place / "runs/refused"));
}

void expect_refused(const Workplace& place, const Words& words, const std::string& message,
                    const std::map<std::string, std::string>& environment = {}) {
  expect_text(place, words, "hydrac: error: " + message + "\n", environment);
}

Words run_with(const std::string& override) {
  return {"base.yaml", "output.dir=runs/refused", override};
}

TEST(BadCommand, NamesTheNearestVerb) {
  const Workplace place;
  expect_refused(place, {"verifi", "base.yaml"},
                 "\"verifi\" is neither a verb nor a spec (*.yaml); did you mean verify?");
  expect_refused(place, {"xyzzyxyzzy"},
                 "\"xyzzyxyzzy\" is neither a verb nor a spec (*.yaml); `hydrac --help` lists the verbs");
}

TEST(Command, HasNoOptionsBehindTwoDashes) {
  const Workplace place;
  fs::rename(place / "base.yaml", place / "-base.yaml");
  const Outcome named = place.run({"check", "-v", "--", "-base.yaml", "train.max_steps=3"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("max_steps: 3\n"), std::string::npos) << named.out;
  const Outcome behind = place.run({"check", "--", "-base.yaml", "--help"});
  EXPECT_EQ(behind.code, 2);
  EXPECT_EQ(behind.err,
            "hydrac: error: \"--help\" is one argument too many: overrides are written key=value\n");
}

TEST(BadCommand, NamesTheNearestOption) {
  const Workplace place;
  expect_refused(place, {"base.yaml", "--resum"}, "unknown option --resum; did you mean --resume?");
  expect_refused(place, {"sample", "runs/base", "--temprature", "1"},
                 "unknown option --temprature; did you mean --temperature?");
}

TEST(BadCommand, SaysWhatIsMissingOrTooMuch) {
  const Workplace place;
  expect_refused(place, {"check"}, "which spec? Give the path of a YAML file");
  expect_refused(place, {"sample"}, "which run? Give its folder");
  expect_refused(place, {"base.yaml", "--dump"}, "--dump needs a value: DIR");
  expect_refused(place, {"base.yaml", "--quiet=yes"}, "--quiet takes no value");
  expect_refused(place, {"base.yaml", "other.yaml"},
                 "\"other.yaml\" is one argument too many: overrides are written key=value");
  expect_refused(place, {"verify", "base.yaml", "--steps", "many"},
                 "--steps takes a whole number, not \"many\"");
  expect_refused(place, {"bench", "base.yaml", "--steps", "0"}, "--steps is 0; it must be 1 or more");
  expect_refused(place, {"emit", "base.yaml", "-o", ""}, "-o needs a value: FOLDER");
  expect_refused(place, {"check", ""}, "which spec? Give the path of a YAML file");
  expect_refused(place, {"keys", "modle"}, "there is no key modle: did you mean model?");
  expect_refused(place, {"schema", "train.max_steps=3"},
                 "schema prints the whole language: \"train.max_steps=3\" is one argument too many");
}

TEST(BadCommand, WithoutArgumentsPrintsTheHelp) {
  const Workplace place;
  const Outcome nothing = place.run({}), help = place.run({"--help"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(nothing.err, help.out);
  EXPECT_EQ(place.run({"help"}).out, help.out);
  const Outcome check = place.run({"help", "check"});
  EXPECT_EQ(check.code, 0);
  EXPECT_EQ(check.out, place.run({"check", "--help"}).out);
  EXPECT_NE(check.out, help.out);
}

TEST(BadSpec, UnknownOverrideNamesTheNearestKey) {
  const Workplace place;
  expect_text(place, run_with("train.max_stps=3"),
              "<command line>:1:31: error: there is no key max_stps in train [unknown-key]\n"
              "  output.dir=runs/refused train.max_stps=3\n"
              "                                ^\n"
              "  help: did you mean max_steps?\n");
}

// Also what is found after the spec was read.
TEST(BadSpec, AnOverrideIsShownWithACaret) {
  const Workplace place;
  expect_text(place, {"tune", "base.yaml", "output.dir=runs/refused", "parallel.data=2"},
              "<command line>:1:39: error: hydrac tune is about one process, and parallel.data is 2 "
              "[option-unsupported]\n"
              "  output.dir=runs/refused parallel.data=2\n"
              "                                        ^\n"
              "  help: write parallel.data=1 behind the spec's name\n");
}

TEST(BadSpec, FreezesWhatIsNotThere) {
  const Workplace place;
  expect_text(
      place, run_with("train.freeze=[model.embed_tokens.weigth]"),
      "<command line>:1:38: error: no parameter is named model.embed_tokens.weigth [freeze-matches-nothing]\n"
      "  output.dir=runs/refused train.freeze=[model.embed_tokens.weigth]\n"
      "                                       ^\n"
      "  help: did you mean model.embed_tokens.weight?\n");
  const auto help = [&](const std::string& pattern, const std::string& text) {
    const Outcome outcome = place.run(run_with("train.freeze=" + pattern));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("  help: " + text + "\n"), std::string::npos) << outcome.err;
  };
  help("model.layers.*.mpl.*", "model.layers.*.m* would match model.layers.0.mlp.gate_proj.weight");
  help("model.layers.7.*", "model.layers.* would match model.layers.0.self_attn.q_proj.weight");
  help("lm_head.*", "the head's matrix is the token embedding, model.embed_tokens.weight");
  help("transformer.h.0.*",
       "names are model.embed_tokens.weight to model.layers.1.post_attention_layernorm.weight; "
       "* stands for any characters");
}

TEST(BadSpec, FreezesPartOfAMatrixOrEverything) {
  const Workplace place;
  const auto refused = [&](const std::string& patterns, const std::string& text) {
    const Outcome outcome = place.run(run_with("train.freeze=" + patterns));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  refused("*.q_proj.weight",
          "error: train.freeze names model.layers.0.self_attn.q_proj.weight and not "
          "model.layers.0.self_attn.v_proj.weight, and the two are parts of one matrix [freeze-part]\n");
  refused("*", "error: train.freeze names every parameter, so that nothing trains [freeze-everything]\n");
}

TEST(BadSpec, AdaptsWhatIsNotThere) {
  const Workplace place;
  const auto refused = [&](const std::string& modules, const std::string& text) {
    Words command = run_with("adapter.target_modules=" + modules);
    command.push_back("adapter.type=lora");
    const Outcome outcome = place.run(command);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  refused("[q_proj, v_prj]", "error: no linear layer of a block is named v_prj [adapter-matches-nothing]\n");
  refused("[q_proj, v_prj]", "  help: did you mean v_proj?\n");
  refused(
      "[lm_head]",
      "  help: they are down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj; all-linear is all of "
      "them\n");
  refused("[model.layers.0.mlp.up_proj]",
          "error: model.layers.0.mlp.up_proj is named, and not the same linear layer of all other layers "
          "[adapter-matches-nothing]\n");
  refused("[model.layers.0.mlp.up_proj]", "  help: up_proj is all of them\n");
}

TEST(BadSpec, KeepsRowsThatAreNoBlocksAsCodes) {
  const Workplace place;
  Words command = run_with("model.intermediate_size=96");
  command.insert(command.end(), {"adapter.type=lora", "adapter.base=nf4"});
  const Outcome outcome = place.run(command);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("error: nf4 keeps rows in blocks of 64, and mlp.down_proj reads 96 "
                             "features [base-unsupported]\n"),
            std::string::npos)
      << outcome.err;
}

TEST(BadSpec, IsNoFile) {
  const Workplace place;
  const Outcome outcome = place.run({"nowhere.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("nowhere.yaml"), std::string::npos) << outcome.err;
}

// Without a driver, and without a GPU, the message goes on with what is missing. It comes before anything is
// read or tokenized.
TEST(BadTarget, AGpuIsNotTakenForTheCpu) {
  if (fs::exists("/dev/nvidia0")) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  const Workplace place;
  const Outcome outcome = place.run({"base.yaml", "output.dir=runs/refused", "target=h100",
                                     "optimizations.threads=0", "data.path=nowhere"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(
      outcome.err.starts_with("hydrac: error: target h100 needs a GPU. On this machine's processors: "
                              "target=cpu optimizations.precision=fp32\n"))
      << outcome.err;
  EXPECT_FALSE(fs::exists(place / "runs/refused"));
}

TEST(BadTarget, CudaIsNoOtherWordForAuto) {
  if (fs::exists("/dev/nvidia0")) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  const Workplace place;
  const Outcome outcome = place.run({"base.yaml", "target=cuda"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("[no-gpu]"), std::string::npos) << outcome.err;
  EXPECT_EQ(place.run({"check", "base.yaml", "target=auto"}).code, 0);
}

TEST(BadTarget, AHeadThatTheKernelsCannotTake) {
  const Workplace place;
  expect_text(
      place, run_with("model.head_dim=12"),
      "<command line>:1:40: error: head_dim is 12, and attention's kernels take multiples of 8 up to 256 "
      "[option-unsupported]\n"
      "  output.dir=runs/refused model.head_dim=12\n"
      "                                         ^\n"
      "  help: write head_dim: 64, 128 or another multiple of 8\n");
  const Outcome derived =
      place.run({"check", "base.yaml", "model.hidden_size=96", "model.num_attention_heads=8"});
  EXPECT_EQ(derived.code, 2);
  EXPECT_NE(derived.err.find("head_dim is 12, and"), std::string::npos) << derived.err;
  EXPECT_NE(derived.err.find("help: num_attention_heads: 6 would fit; or write head_dim"), std::string::npos)
      << derived.err;
}

TEST(BadData, ThatIsNotThere) {
  const Workplace place;
  expect_text(place, run_with("data.path=nowhere.txt"),
              "<command line>:1:35: error: nowhere.txt: there is no such file in " + place.path().string() +
                  " [unreadable-file]\n"
                  "  output.dir=runs/refused data.path=nowhere.txt\n"
                  "                                    ^\n");
  const std::string tokenizer =
      "<command line>:1:40: error: nowhere.json: there is no such file [unreadable-file]\n"
      "  output.dir=runs/refused data.tokenizer=nowhere.json\n"
      "                                         ^\n"
      "  help: a tokenizer is byte, char, or the path of a Hugging Face tokenizer.json\n";
  expect_text(place, run_with("data.tokenizer=nowhere.json"), tokenizer);
  // Where data is not read, its tokenizer is.
  expect_text(place, with({"check"}, run_with("data.tokenizer=nowhere.json")), tokenizer);
}

TEST(BadData, Empty) {
  const Workplace place;
  spill(place / "empty.txt", "");
  expect_refused(place, run_with("data.path=empty.txt"), "empty.txt: it is empty");
}

TEST(BadData, Binary) {
  const Workplace place;
  spill(place / "binary.txt", std::string("text\0more", 9));
  expect_refused(place, run_with("data.path=binary.txt"),
                 "binary.txt: byte 4 is NUL, so this is binary data or UTF-16, not UTF-8 text");
}

TEST(BadData, ShorterThanASequence) {
  const Workplace place;
  spill(place / "short.txt", "short");
  expect_refused(
      place, run_with("data.path=short.txt"),
      "the training data has 4 tokens, but a sequence of 16 needs 17; give more data or a shorter sequence");
}

TEST(BadData, ATokenizerThatWasCutOff) {
  const Workplace place;
  spill(place / "tokenizer.json", R"({"version": "1.0", "model": {"type")");
  expect_refused(place, run_with("data.tokenizer=tokenizer.json"),
                 "tokenizer.json: not valid JSON: it ends too early");
}

TEST(BadData, AVocabularySmallerThanTheTokenizers) {
  const Workplace place;
  expect_text(
      place, run_with("model.vocab_size=64"),
      "<command line>:1:42: error: the byte tokenizer has 256 ids, and vocab_size is 64 [vocab-too-small]\n"
      "  output.dir=runs/refused model.vocab_size=64\n"
      "                                           ^\n"
      "  help: remove vocab_size, or write 256 or more\n");
  const Words words = {"base.yaml", "output.dir=runs/refused", "data.tokenizer=char", "model.vocab_size=4"};
  expect_text(
      place, words,
      "<command line>:1:62: error: vocab_size is 4, and the tokenizer char has 31 tokens [vocab-too-small]\n"
      "  output.dir=runs/refused data.tokenizer=char model.vocab_size=4\n"
      "                                                               ^\n"
      "  help: remove it, or write 31 or more\n");
}

TEST(BadResume, WithoutARun) {
  const Workplace place;
  expect_refused(place, {"base.yaml", "--resume"},
                 "runs/base holds no run to resume; leave out --resume to begin one");
}

TEST(BadResume, WithAnotherSpecNamesEveryKeyThatDiffers) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  expect_refused(place, {"base.yaml", "--resume", "train.seed=4", "train.micro_batch_size=4"},
                 "runs/base/checkpoint-12 cannot be resumed, because what decides the results has changed:\n"
                 "  train.micro_batch_size: 2 in the checkpoint, 4 now\n"
                 "  train.seed: 1337 in the checkpoint, 4 now\n"
                 "change it back to continue this run, or start a new one without --resume (this one is then "
                 "moved aside, "
                 "not overwritten)");
}

TEST(BadResume, WithOtherData) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  spill(place / "corpus.txt", slurp(place / "corpus.txt") + "one line more\n");
  const Outcome outcome = place.run({"base.yaml", "--resume"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("\n  data: \""), std::string::npos) << outcome.err;
}

TEST(BadSample, AnOptionIsAnsweredByItsName) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "train.max_steps=1"}).code, 0);
  expect_refused(place, {"sample", "runs/base", "--temperature", "-1"},
                 "--temperature must be between 0 and 100, not -1");
  expect_refused(place, {"sample", "runs/base", "--threads", "many"},
                 "--threads takes a whole number, not the text \"many\"");
}

TEST(BadSample, OfWhatIsNoRun) {
  const Workplace place;
  fs::create_directory(place / "empty");
  const std::string wanted = "name a run's folder, or a checkpoint in it";
  expect_refused(place, {"sample", "empty"}, "empty holds no complete checkpoint; " + wanted);
  expect_refused(place, {"sample", "nowhere"}, "cannot open nowhere: No such file or directory");
  expect_refused(place, {"sample", "corpus.txt"}, "corpus.txt is a file; " + wanted);
}

TEST(BadMachine, WithoutACompiler) {
  const Workplace place;
  expect_refused(place, run_with("train.max_steps=12"),
                 "no C++ compiler found: the cpu target compiles the code it generates.\n"
                 "Install one (Debian, Ubuntu: apt-get install g++) or name yours in $CXX.",
                 {{"PATH", "/nonexistent"}, {"CXX", ""}, {"HYDRAC_CACHE", (place / "cache").string()}});
}

TEST(BadMachine, ACompilerThatDoesNotRun) {
  const Workplace place;
  const Outcome outcome =
      place.run({"base.yaml"}, {{"CXX", "no-such-compiler"}, {"HYDRAC_CACHE", (place / "cache").string()}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.err.starts_with(
      "hydrac: error: the compiler that $CXX names, no-such-compiler, does not run: "))
      << outcome.err;
  EXPECT_FALSE(fs::exists(place / "runs"));
}

TEST(BadMachine, ACacheThatCannotBeMadeIsDoneWithout) {
  const Workplace place;
  spill(place / "file", "");
  const Outcome outcome = place.run({"base.yaml"}, {{"HYDRAC_CACHE", (place / "file/cache").string()}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "warning: the cache folder " + (place / "file/cache").string() +
                             " cannot be made (Not a directory), so nothing is remembered; set $HYDRAC_CACHE "
                             "to a folder of yours that nobody else can write (chmod 700)\n");
  EXPECT_TRUE(fs::exists(place / "runs/base/checkpoint-12"));
}

TEST(BadOutput, AFileStandsInItsPlace) {
  const Workplace place;
  spill(place / "runs", "a file");
  spill(place / "base.yaml", base_spec() + "output:\n  dir: runs/own\n");
  const Outcome outcome = place.run({"base.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "base.yaml:29:8: error: nothing can be written into runs/own: Not a directory "
            "[output-not-writable]\n"
            "    dir: runs/own\n"
            "         ^\n"
            "  help: set output.dir to a folder that may be written\n");
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(slurp(place / "runs"), "a file");
}

TEST(BadOutput, AFolderThatCannotBeWritten) {
  if (::geteuid() == 0) {
    fprintf(stderr,
            "SKIPPED: root may write everywhere; run the tests as another user to see a read-only folder "
            "refused\n");
    GTEST_SKIP() << "root may write everywhere";
  }
  const Workplace place;
  fs::create_directory(place / "runs");
  fs::permissions(place / "runs", fs::perms::owner_read | fs::perms::owner_exec);
  const Outcome outcome = place.run({"base.yaml"});
  fs::permissions(place / "runs", fs::perms::owner_all);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("error: nothing can be written into runs/base: Permission denied "
                             "[output-not-writable]\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace hydrac::e2e
