// A program that was emitted and built ahead of time trains exactly as hydrac itself does.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <regex>
#include <thread>

#include "tests/e2e/cli.h"
#include "tests/e2e/pairs.h"
#include "tests/unit/support/bert_folder.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// Runs a command in a folder; its output and errors, with the exit code behind them.
Outcome shell(const fs::path& folder, const std::string& command) {
  Outcome outcome;
  const std::string line =
      "cd '" + folder.string() + "' && HYDRAC_CACHE='" + shared_cache().string() + "' " + command + " 2>&1";
  std::FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 4096> chunk;
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    outcome.out.append(chunk.data(), count);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  return outcome;
}

// The installed runtime, once for all tests.
const fs::path& installed_runtime() {
  static const test::TempDir folder;
  static const Outcome installed =
      shell(folder.path(), "cmake --install '" HYDRAC_BINARY_DIR "' --component hydrac-runtime --prefix .");
  EXPECT_EQ(installed.code, 0) << installed.out;
  return folder.path();
}

// Builds the emitted program in `source` as program/build/train.
void build_emitted(const Workplace& place, const std::string& source) {
  const Outcome configured =
      shell(place.path(), "cmake -S '" + source +
                              "' -B program/build -DCMAKE_CXX_COMPILER=" HYDRAC_COMPILER
                              " -DCMAKE_CXX_COMPILER_LAUNCHER=" HYDRAC_LAUNCHER " -DCMAKE_PREFIX_PATH='" +
                              installed_runtime().string() + "'");
  ASSERT_EQ(configured.code, 0) << configured.out;
  const Outcome built = shell(place.path(), "cmake --build program/build --parallel 2");
  ASSERT_EQ(built.code, 0) << built.out;
}

// Emits base.yaml into program/ and builds program/build/train.
void build_program(const Workplace& place, const Words& overrides = {}) {
  Words words = {"emit", "base.yaml", "-o", "program", "-q"};
  words.insert(words.end(), overrides.begin(), overrides.end());
  const Outcome emitted = place.run(words);
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  build_emitted(place, "program");
}

void expect_equal_runs(const fs::path& a, const fs::path& b, const std::string& checkpoint,
                       const char* parameters = "model.safetensors") {
  for (const char* name : {parameters, "optimizer.safetensors", "choices.json"}) {
    const std::string first = slurp(a / checkpoint / name);
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, slurp(b / checkpoint / name)) << name;
  }
  EXPECT_EQ(without_timing(slurp(a / "metrics.jsonl")), without_timing(slurp(b / "metrics.jsonl")));
}

TEST(AheadOfTime, ARunIsThatOfTheJitBitForBitAndEitherResumesTheOther) {
  const Workplace place;
  // The first checkpoint is one of a curriculum, the second one of epochs.
  const Words steps = {"train.max_steps=50", "train.eval_steps=25", "train.save_steps=25",
                       "data.curriculum.steps=30", "train.lr_scheduler.warmup_steps=3"};
  build_program(place, steps);
  const Outcome run = shell(place.path(), "program/build/train --output runs/built");
  ASSERT_EQ(run.code, 0) << run.out;
  EXPECT_NE(run.out.find("compiled ahead of time, matmuls by "), std::string::npos) << run.out;

  Words jit = {"base.yaml", "output.dir=runs/jit", "-q"};
  jit.insert(jit.end(), steps.begin(), steps.end());
  ASSERT_EQ(place.run(jit).code, 0);
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-50");
  const std::string metrics = slurp(place / "runs/built/metrics.jsonl");
  EXPECT_NE(metrics.find("\"step\":1,"), std::string::npos);
  EXPECT_NE(metrics.substr(0, metrics.find('\n')).find("\"learning_rate\":0.0001,"), std::string::npos)
      << "a third of 3e-4";
  EXPECT_NE(metrics.substr(metrics.rfind("{\"step\":50,")).find("\"learning_rate\":3e-05,"),
            std::string::npos)
      << "min_ratio of 3e-4";

  // The first half by one, the second by the other.
  for (const bool built_first : {true, false}) {
    const std::string folder = built_first ? "runs/built-jit" : "runs/jit-built";
    const std::string half = "program/build/train --quiet --output " + folder;
    Words other = {"base.yaml", "output.dir=" + folder, "-q"};
    other.insert(other.end(), steps.begin(), steps.end());
    if (built_first) {
      ASSERT_EQ(shell(place.path(), half + " --steps 25").code, 0);
      other.push_back("--resume");
      const Outcome rest = place.run(other);
      ASSERT_EQ(rest.code, 0) << rest.err;
    } else {
      ASSERT_EQ(place.run(other).code, 0);
      fs::remove_all(place / folder / "checkpoint-50");
      const Outcome rest = shell(place.path(), half + " --resume");
      ASSERT_EQ(rest.code, 0) << rest.out;
    }
    for (const char* name : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(slurp(place / folder / "checkpoint-50" / name),
                slurp(place / "runs/jit/checkpoint-50" / name))
          << folder << " " << name;
  }
}

TEST(AheadOfTime, SequencesThatGrowDoSoAsTheJitsAndGoOnWhereTheyWere) {
  const Workplace place;
  const Words growing = {"train.sequence_warmup={start: 4, steps: 8}", "data.tokenizer=char"};
  build_program(place, growing);
  const Outcome run = shell(place.path(), "program/build/train --output runs/built");
  ASSERT_EQ(run.code, 0) << run.out;
  const std::string told = "training sequences grow: 4 tokens in the first step, 16 from step 9 on\n";
  EXPECT_NE(run.out.find(told), std::string::npos) << run.out;
  const Outcome jit = place.run(with({"base.yaml", "output.dir=runs/jit"}, growing));
  ASSERT_EQ(jit.code, 0) << jit.err;
  EXPECT_NE(jit.out.find(told), std::string::npos) << jit.out;
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-12");
  ASSERT_EQ(shell(place.path(), "program/build/train --quiet --output runs/parts --steps 6").code, 0);
  const Outcome rest = place.run(with({"base.yaml", "-q", "output.dir=runs/parts", "--resume"}, growing));
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_equal_runs(place / "runs/jit", place / "runs/parts", "checkpoint-12");
}

TEST(AheadOfTime, ARangeTestFindsWhatTheJitFinds) {
  const Workplace place;
  const std::string automatic = "train.optimizer.learning_rate=auto", affinity = "train.cpu_affinity=0";
  build_program(place, {automatic, affinity});
  const Outcome built = shell(place.path(), "program/build/train --output runs/built");
  ASSERT_EQ(built.code, 0) << built.out;
  ASSERT_EQ(place.run({"base.yaml", automatic, affinity, "output.dir=runs/jit", "-q"}).code, 0);
  if (std::thread::hardware_concurrency() > 1) {
    const Outcome elsewhere = shell(place.path(), "taskset -c 1 program/build/train --output runs/other");
    EXPECT_EQ(elsewhere.code, 2) << elsewhere.out;
    EXPECT_NE(elsewhere.out.find("train.cpu_affinity: this process may not use core 0: it may use 1\n"),
              std::string::npos)
        << elsewhere.out;
  }
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-12");
  EXPECT_EQ(slurp(place / "runs/jit/range_test.json"), slurp(place / "runs/built/range_test.json"));
  const Outcome loop =
      shell(place.path(), "python3 -c \"import sys; sys.path.append('" + hydrac::test::source_dir() +
                              "/examples/own-loop'); import own_loop; "
                              "own_loop.Program('program/build/libtrain.so')\"");
  EXPECT_NE(
      loop.out.find("train.optimizer.learning_rate is auto, which is found by the program that trains by "
                    "itself; write a number into the spec, and emit it again"),
      std::string::npos)
      << loop.out;
}

// The examples' loops, which read the corpus as the trainer does where it does not shuffle.
TEST(AheadOfTime, ALoopOfOnesOwnTrainsThroughTheCInterfaceAsTheTrainerDoes) {
  const Workplace place;
  build_program(place, {"data.shuffle=false", "train.max_steps=3", "train.save_steps=3"});
  const Outcome run = shell(place.path(), "program/build/train --quiet --output runs/built");
  ASSERT_EQ(run.code, 0) << run.out;
  const std::string examples = hydrac::test::source_dir() + "/examples/own-loop";
  const Outcome compiled = shell(place.path(), HYDRAC_COMPILER " -std=c++20 '" + examples +
                                                   "/own_loop.cpp' -Iprogram -Lprogram/build -ltrain "
                                                   "-Wl,-rpath,program/build -o own_loop");
  ASSERT_EQ(compiled.code, 0) << compiled.out;
  const Outcome by_cpp = shell(place.path(), "./own_loop corpus.txt 3 runs/cpp");
  ASSERT_EQ(by_cpp.code, 0) << by_cpp.out;
  const Outcome by_python =
      shell(place.path(),
            "python3 '" + examples + "/own_loop.py' program/build/libtrain.so corpus.txt 3 runs/python");
  ASSERT_EQ(by_python.code, 0) << by_python.out;
  EXPECT_EQ(by_cpp.out, by_python.out);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string expected = slurp(place / "runs/built/checkpoint-3" / name);
    EXPECT_EQ(slurp(place / "runs/cpp/checkpoint-3" / name), expected) << name;
    EXPECT_EQ(slurp(place / "runs/python/checkpoint-3" / name), expected) << name;
  }
  const Outcome early =
      shell(place.path(), "python3 -c \"import sys; sys.path.append('" + examples +
                              "'); import own_loop; p = own_loop.Program('program/build/libtrain.so'); "
                              "p.require(p.library.train_update(p.handle, None) == 0)\"");
  EXPECT_NE(early.out.find("RuntimeError: there are no gradients: train_backward() makes them"),
            std::string::npos)
      << early.out;
  const Outcome wrong = shell(place.path(), "python3 -c \"import sys; sys.path.append('" + examples +
                                                "'); import own_loop, array; p = own_loop.Program("
                                                "'program/build/libtrain.so'); p.step(array.array('i', "
                                                "[-1] * 64), array.array('i', [0] * 64))\"");
  EXPECT_NE(wrong.out.find("RuntimeError: the batch has the token -1; tokens are 0 to "), std::string::npos)
      << wrong.out;
  const Outcome recorded = shell(place.path(), "program/build/smoke_test --record program/test/expected.txt");
  EXPECT_EQ(recorded.code, 0) << recorded.out;
  const Outcome same = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(same.code, 0) << same.out;
  const Outcome installed = shell(place.path(), "cmake --install program/build --prefix installed");
  EXPECT_EQ(installed.code, 0) << installed.out;
  for (const char* file : {"bin/train", "lib/libtrain.so", "include/train.h"})
    EXPECT_TRUE(fs::exists(place / "installed" / file)) << file << installed.out;
}

// The loop of examples/ in Python, six steps.
std::string own_loop() {
  return "python3 '" + hydrac::test::source_dir() +
         "/examples/own-loop/own_loop.py' program/build/libtrain.so corpus.txt 6 runs/own";
}

// The same, but that it reads no weights: with parallel.zero: 3 none is whole.
std::string own_loop_without_weights(const Workplace& place) {
  hydrac::test::spill(place / "loop.py",
                      "import sys\n"
                      "sys.path.insert(0, sys.argv[1])\n"
                      "import own_loop\n"
                      "own_loop.Program.names = lambda self: []\n"
                      "own_loop.main('program/build/libtrain.so', 'corpus.txt', 6, 'runs/own')\n");
  return "python3 loop.py '" + hydrac::test::source_dir() + "/examples/own-loop'";
}

// Started as two ranks it ends where runs/jit did.
void expect_own_loop_of_two_ranks(const Workplace& place, const std::string& command = own_loop()) {
  const Outcome loop = shell(place.path(), "sh program/test/ranks.sh 2 " + command);
  ASSERT_EQ(loop.code, 0) << loop.out;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(slurp(place / "runs/own/checkpoint-6" / name), slurp(place / "runs/jit/checkpoint-6" / name))
        << name;
}

// Reads a gradient between the halves of a step.
constexpr const char* kReadGradient = R"(import array, ctypes, sys
sys.path.insert(0, sys.argv[1])
import own_loop
program = own_loop.Program("program/build/libtrain.so")
sizes, library = program.sizes, program.library
tokens = array.array("i", [1] * (sizes.micro_batches * sizes.sequences * sizes.positions))
batch = own_loop.Batch(own_loop.address(tokens), own_loop.address(tokens))
program.require(library.train_backward(program.handle, ctypes.byref(batch)) == 0)
name = next(program.names()).encode()
values = array.array("f", bytes(4 * library.train_tensor_elements(program.handle, name)))
failed = library.train_read_gradient(program.handle, name, ctypes.c_void_p(own_loop.address(values)),
                                     ctypes.c_int64(len(values)))
print(library.train_error().decode() if failed else "read")
program.require(library.train_update(program.handle, ctypes.byref(own_loop.Result())) == 0)
program.close()
)";

class BuiltZero : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, BuiltZero,
                         testing::Values("parallel.zero=1", "parallel.zero=2", "parallel.zero=3"));

TEST_P(BuiltZero, RanksThatShareTheUpdateTrainAsThoseOfTheJit) {
  const Workplace place;
  const Words ranks = {"parallel.data=2",         GetParam(),          "train.gradient_accumulation_steps=2",
                       "optimizations.threads=1", "train.max_steps=6", "train.max_grad_norm=0.1",
                       "data.shuffle=false",      "train.eval_steps=3"};
  build_program(place, ranks);
  Words jit = {"base.yaml", "output.dir=runs/jit", "-q"};
  jit.insert(jit.end(), ranks.begin(), ranks.end());
  ASSERT_EQ(place.run(jit).code, 0);
  const Outcome run = shell(place.path(), "program/build/train --output runs/built --steps 3");
  ASSERT_EQ(run.code, 0) << run.out;
  const Outcome resumed = shell(place.path(), "program/build/train --quiet --output runs/built --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-6");
  const bool shares_weights = GetParam() == std::string("parallel.zero=3");
  expect_own_loop_of_two_ranks(place, shares_weights ? own_loop_without_weights(place) : own_loop());
  hydrac::test::spill(place / "read.py", kReadGradient);
  const Outcome read = shell(place.path(), "sh program/test/ranks.sh 2 python3 read.py '" +
                                               hydrac::test::source_dir() + "/examples/own-loop'");
  ASSERT_EQ(read.code, 0) << read.out;
  const std::string refused = "no rank has the gradient of tensor model.embed_tokens.weight whole";
  EXPECT_NE(read.out.find(GetParam() == std::string("parallel.zero=1") ? "read" : refused), std::string::npos)
      << read.out;
}

// Ranks that share layers: a parameter's rows, its columns, packed matrices, padding of the vocabulary, and
// as GPT-2 stores them; a checkpoint of either is continued by the other.
class BuiltTensor : public testing::TestWithParam<Words> {};
INSTANTIATE_TEST_SUITE_P(Models, BuiltTensor,
                         testing::Values(Words{"parallel.data=2", "model.qk_norm=true",
                                               "model.tie_word_embeddings=false", "model.vocab_size=259"},
                                         Words{"model.norm=layernorm", "model.norm_bias=true",
                                               "model.position=learned", "model.max_position_embeddings=16",
                                               "model.hidden_act=gelu_tanh", "model.attention_bias=true",
                                               "model.attention_output_bias=true", "model.mlp_bias=true",
                                               "model.num_key_value_heads=4", "adapter.type=lora",
                                               "adapter.dropout=0.1"}));

TEST_P(BuiltTensor, RanksThatShareLayersTrainAsThoseOfTheJit) {
  const Workplace place;
  const Words ranks = with(GetParam(), {"parallel.tensor=2", "train.max_steps=6", "train.max_grad_norm=0.1",
                                        "data.shuffle=false", "train.eval_steps=3"});
  build_program(place, ranks);
  ASSERT_EQ(place.run(with({"base.yaml", "output.dir=runs/jit", "-q"}, ranks)).code, 0);
  const Outcome run = shell(place.path(), "program/build/train --output runs/built --steps 3");
  ASSERT_EQ(run.code, 0) << run.out;
  const Outcome resumed = shell(place.path(), "program/build/train --quiet --output runs/built --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  const bool adapts = fs::exists(place / "runs/jit/checkpoint-6/adapter_model.safetensors");
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-6",
                    adapts ? "adapter_model.safetensors" : "model.safetensors");
  const Outcome jit = place.run(with({"base.yaml", "output.dir=runs/built", "-q", "--resume", "--exact"},
                                     with(ranks, {"train.max_steps=7"})));
  EXPECT_EQ(jit.code, 0) << jit.err;
  const Outcome tested = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;
}

// Two micro-batches a rank: ranks sum in another order than one process would, and choices.json says so.
TEST(AheadOfTime, SeveralRanksTrainAsThoseOfTheJitHoweverTheyAreStarted) {
  const Workplace place;
  const Words ranks = {"parallel.data=2",         "train.gradient_accumulation_steps=2",
                       "optimizations.threads=1", "train.max_steps=6",
                       "train.eval_steps=3",      "data.shuffle=false"};
  build_program(place, ranks);
  Words jit = {"base.yaml", "output.dir=runs/jit", "-q"};
  jit.insert(jit.end(), ranks.begin(), ranks.end());
  ASSERT_EQ(place.run(jit).code, 0);
  const Outcome run = shell(place.path(), "program/build/train --output runs/built");
  ASSERT_EQ(run.code, 0) << run.out;
  EXPECT_NE(run.out.find("2 ranks, each with "), std::string::npos) << run.out;
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-6");
  EXPECT_TRUE(fs::exists(place / "runs/built/rank-1.log"));
  const Outcome launched =
      shell(place.path(),
            "sh program/test/ranks.sh 2 program/build/train --quiet --output runs/launched --steps 3");
  ASSERT_EQ(launched.code, 0) << launched.out;
  const Outcome resumed = shell(place.path(), "program/build/train --quiet --output runs/launched --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  expect_equal_runs(place / "runs/jit", place / "runs/launched", "checkpoint-6");

  expect_own_loop_of_two_ranks(place);
  const Outcome alone = shell(place.path(), own_loop());
  EXPECT_NE(alone.out.find("this program is of 2 ranks, and nobody started them: torchrun "),
            std::string::npos)
      << alone.out;
  const Outcome tested = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;
}

// Replies are sampled, scored, rewarded and trained on.
TEST(AheadOfTime, AnObjectiveOfSeveralRanksTrainsAsThatOfTheJit) {
  const Workplace place;
  spill_pairs(place);
  test::spill(
      place / "replies.yaml",
      "name: replies\ntarget: cpu\n"
      "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
      "intermediate_size: 64}\n"
      "adapter: {type: lora, r: 4, dropout: 0.1}\n"
      "objective: {name: grpo, prompts: 4, replies: 2, weight: 1, kl: 0.1, prompt_tokens: 16, "
      "max_new_tokens: 8, top_k: 40}\n"
      "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
      "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 6, eval_steps: 0, log_steps: 1, "
      "optimizer: {learning_rate: 0.01}}\n"
      "parallel: {data: 2}\noptimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  test::spill(place / "reward.sh", "awk '{ print length($0); print length($0) % 7 }'\n");
  const std::string reward = "objective.reward.command=[sh, reward.sh]";
  const Outcome emitted = place.run({"emit", "replies.yaml", reward, "-o", "program", "-q"});
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  build_emitted(place, "program");
  ASSERT_EQ(place.run({"replies.yaml", reward, "output.dir=runs/jit", "-q"}).code, 0);
  const std::string train = "program/build/train --quiet --reward sh --reward reward.sh --output runs/";
  const Outcome run = shell(place.path(), train + "built --steps 3");
  ASSERT_EQ(run.code, 0) << run.out;
  const Outcome resumed = shell(place.path(), train + "built --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-6", "adapter_model.safetensors");
  ASSERT_EQ(shell(place.path(), train + "mixed --steps 3").code, 0);
  const Outcome rest = place.run({"replies.yaml", reward, "output.dir=runs/mixed", "-q", "--resume"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_equal_runs(place / "runs/jit", place / "runs/mixed", "checkpoint-6", "adapter_model.safetensors");
  const Outcome tested = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;
}

// Of an encoder that embeds replies the program holds the function, and its folder the weights.
class BuiltEncoder : public testing::Test {
 protected:
  BuiltEncoder() {
    bert_.layers = 3;  // the model has 2
    bert_.draw(5);
    bert_.write(place_ / "bert");
    spill_pairs(place_);
    test::spill(
        place_ / "replies.yaml",
        "name: replies\ntarget: cpu\n"
        "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 64}\n"
        "adapter: {type: lora, r: 4}\n"
        "objective: {name: polychromic, prompts: 3, replies: 3, weight: 1, prompt_tokens: 16, "
        "max_new_tokens: 8, embed: bert}\n"
        "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
        "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 6, eval_steps: 0, log_steps: 1, "
        "optimizer: {learning_rate: 0.01}}\n"
        "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  void emit() const {
    const Outcome emitted = place_.run({"emit", "replies.yaml", "-o", "program", "-q"});
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }
  Outcome train(const std::string& options) const {
    return shell(place_.path(), "program/build/train --quiet " + options);
  }
  // Nothing is made.
  void refused(const std::string& options, const std::string& why) const {
    const Outcome outcome = train("--output runs/refused " + options);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.out.find(why), std::string::npos) << outcome.out;
    EXPECT_FALSE(fs::exists(place_ / "runs/refused"));
  }

  const Workplace place_;
  test::BertFolder bert_;
};

TEST_F(BuiltEncoder, ReadsLikeTheRestOfTheProgram) {
  emit();
  const auto expect_lines = [&](const char* file, const std::vector<const char*>& lines) {
    const std::string text = slurp(place_ / "program" / file);
    for (const char* line : lines) EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  };
  expect_lines("embed.cpp",
               {"for (int l = 0; l < kTextLayers; ++l) encoder(m, run, l);", "text_encoder.qkv_weight[l]"});
  expect_lines("dims.h", {"kTextLayers = 3;", "Textwidth = 48;"});
  expect_lines("memory.h", {"struct TextEncoder {", "Slots<float> qkv_weight ="});
  expect_lines("layout.cpp",
               {"\"encoder.layer.{}.attention.self.key.weight\"", "{.offset = Textwidth * Textwidth}"});
  expect_lines("settings.cpp",
               {"encoder.folder = \"bert\";", "{\"config.json\", \"num_attention_heads\", \"3\"},"});
}

TEST_F(BuiltEncoder, TrainsAsThatOfTheJitWhereverItsFolderIs) {
  emit();
  build_emitted(place_, "program");
  ASSERT_EQ(place_.run({"replies.yaml", "output.dir=runs/jit", "-q"}).code, 0);
  for (const char* part : {"mixed", "parts"})
    ASSERT_EQ(train(std::string("--steps 3 --output runs/") + part).code, 0);
  ASSERT_EQ(train("--output runs/built").code, 0);
  expect_equal_runs(place_ / "runs/jit", place_ / "runs/built", "checkpoint-6", "adapter_model.safetensors");
  fs::rename(place_ / "bert", place_ / "moved");
  const Outcome rest = train("--output runs/parts --embed moved --resume");
  ASSERT_EQ(rest.code, 0) << rest.out;
  const Outcome by_jit =
      place_.run({"replies.yaml", "output.dir=runs/mixed", "objective.embed=moved", "-q", "--resume"});
  ASSERT_EQ(by_jit.code, 0) << by_jit.err;
  for (const char* part : {"mixed", "parts"})
    expect_equal_runs(place_ / "runs/jit", place_ / "runs" / part, "checkpoint-6",
                      "adapter_model.safetensors");
  const Outcome tested = shell(place_.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;

  refused("", "there is no folder bert, in which the encoder of replies would be");
  const std::string config = slurp(place_ / "moved/config.json");
  test::spill(place_ / "moved/config.json", std::regex_replace(config, std::regex("\"gelu\""), "\"silu\""));
  refused("--embed moved",
          "moved/config.json: hidden_act is \"silu\" here, and \"gelu\" in the encoder that the program was "
          "made for");
  test::spill(place_ / "moved/config.json", config);
  test::spill(place_ / "moved/sentence_bert_config.json", R"({"max_seq_length": 12})");
  refused("--embed moved", "moved/sentence_bert_config.json: max_seq_length is 12 here, and nothing in");
  fs::remove(place_ / "moved/sentence_bert_config.json");
  test::spill(place_ / "moved/vocab.txt", slurp(place_ / "moved/vocab.txt") + "more\n");
  refused("--embed moved", "moved: the tokenizer has the id ");
  fs::remove(place_ / "moved/vocab.txt");
  refused("--embed moved", "moved: there is neither tokenizer.json nor vocab.txt");
  bert_.write(place_ / "moved");
  bert_.tensors.erase("encoder.layer.2.output.dense.weight");
  bert_.write_weights(place_ / "moved");
  refused("--embed moved", "moved: these are not the weights of its config.json:");
}

// What `smoke_test --record` keeps: losses, norms, and of each tensor the gradient.
TEST(AheadOfTime, TheSmokeTestComparesTheGradientOfEveryTensor) {
  const Workplace place;
  build_program(place, {"train.freeze=\"*.o_proj.weight\""});
  const Outcome unrecorded = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(unrecorded.code, 0) << unrecorded.out;
  const fs::path file = place / "program/test/expected.txt";
  const std::string record = "program/build/smoke_test --record program/test/expected.txt";
  const Outcome nowhere =
      shell(place.path(), "program/build/smoke_test --record program/dims.h/expected.txt");
  EXPECT_NE(nowhere.out.find("failed: writing program/dims.h/expected.txt"), std::string::npos)
      << nowhere.out;
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(shell(place.path(), record).code, 0);
  const std::string recorded = slurp(file);
  EXPECT_EQ(recorded.find("o_proj"), std::string::npos) << recorded;
  EXPECT_EQ(shell(place.path(), "ctest --test-dir program/build").code, 0);

  const std::regex sum("(gradient [^\\t]*down_proj.weight signed_sum)\\t([^\\n]*)");
  std::smatch line;
  ASSERT_TRUE(std::regex_search(recorded, line, sum)) << recorded;
  test::spill(file, line.prefix().str() + line[1].str() + "\t9" + line.suffix().str() + "norm 9\t1\n");
  const Outcome other = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_NE(other.code, 0);
  for (const std::string& text :
       {"failed: " + line[1].str() + " is ", std::string(" and was 9 when it was recorded"),
        std::string(" has norm 9, which the program lacks: record it anew")})
    EXPECT_NE(other.out.find(text), std::string::npos) << text << "\n" << other.out;
}

// The checked-in program with the numbers that stand beside it.
TEST(AheadOfTime, TheGeneratedProgramComputesWhatWasRecorded) {
  const Workplace place;
  const std::string program = hydrac::test::source_dir() + "/generated/shakespeare-char-cpu";
  ASSERT_TRUE(fs::exists(program + "/test/expected.txt"));
  build_emitted(place, program);
  const Outcome tested = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;
}

TEST(AheadOfTime, AProgramWithUsersFunctionsAndAdaptersBesideCodesIsBuiltToo) {
  const Workplace place;
  test::spill(place / "act.h",
              "#include <cmath>\ninline float bend(float x) { return x / (1.0f + expf(-1.702f * x)); }\n");
  std::string spec = base_spec();
  spec.replace(spec.find("  dropout: 0.1"), 0, "  hidden_act: {cpp: act.h, function: bend}\n");
  test::spill(place / "base.yaml", "adapter: {type: lora, dropout: 0.1, base: nf4}\n" + spec);
  build_program(place);
  const Outcome run = shell(place.path(), "program/build/train --quiet --output runs/built");
  ASSERT_EQ(run.code, 0) << run.out;
  ASSERT_EQ(place.run({"base.yaml", "output.dir=runs/jit", "-q"}).code, 0);
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-12", "adapter_model.safetensors");
  EXPECT_EQ(slurp(place / "runs/jit/checkpoint-12/adapter_config.json"),
            slurp(place / "runs/built/checkpoint-12/adapter_config.json"));
}

TEST(AheadOfTime, AFaultIsTracedToItsCallAsByTheJit) {
  const Workplace place;
  const Words diverging = {"train.optimizer.learning_rate=100", "train.optimizer.weight_decay=1",
                           "train.lr_scheduler.warmup_steps=0", "train.eval_steps=0"};
  build_program(place, diverging);
  for (const std::string option : {"", "--check-kernels"}) {
    Words jit = {"base.yaml", "-q", "output.dir=runs/base"};
    jit.insert(jit.end(), diverging.begin(), diverging.end());
    if (!option.empty()) jit.push_back(option);
    const Outcome expected = place.run(jit);
    EXPECT_EQ(expected.code, 3);
    EXPECT_NE(expected.err.find(" of layer 0 (optimizations.attention, "), std::string::npos) << expected.err;
    fs::remove_all(place / "runs/base");
    const Outcome built = shell(place.path(), "program/build/train --quiet " + option);
    EXPECT_EQ(built.code, 3);
    // What is checked in names the key alone, which does not move with the spec's lines.
    const std::string by_key =
        std::regex_replace(expected.err.substr(expected.err.find(':')),
                           std::regex("\\(optimizations.attention, [^)]*"), "(optimizations.attention");
    EXPECT_EQ(built.out, "train" + by_key) << option;
    fs::remove_all(place / "runs/base");
  }
}

}  // namespace
}  // namespace hydrac::e2e
