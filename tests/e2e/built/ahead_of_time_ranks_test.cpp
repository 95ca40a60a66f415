// Several ranks of a program that was emitted and built ahead of time train exactly as those of hydrac itself
// do.
#include <gtest/gtest.h>

#include "tests/e2e/built/built_program.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

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

}  // namespace
}  // namespace hydrac::e2e
