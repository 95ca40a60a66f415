// A program that was emitted and built ahead of time trains exactly as hydrac itself does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/e2e/built/built_program.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

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
  ASSERT_EQ(shell(place.path(), "program/build/train --quiet --output runs/parts --steps 4").code, 0);
  const Outcome rest = place.run(with({"base.yaml", "-q", "output.dir=runs/parts", "--resume"}, growing));
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_equal_runs(place / "runs/jit", place / "runs/parts", "checkpoint-12");
}

TEST(AheadOfTime, ARangeTestFindsWhatTheJitFinds) {
  const Workplace place;
  const std::vector<int> cores = own_cores();
  const std::string automatic = "train.optimizer.learning_rate=auto",
                    affinity = fmt::format("train.cpu_affinity={}", cores[0]);
  build_program(place, {automatic, affinity});
  const Outcome built = shell(place.path(), "program/build/train --output runs/built");
  ASSERT_EQ(built.code, 0) << built.out;
  ASSERT_EQ(place.run({"base.yaml", automatic, affinity, "output.dir=runs/jit", "-q"}).code, 0);
  if (cores.size() > 1) {
    const Outcome elsewhere =
        shell(place.path(), fmt::format("taskset -c {} program/build/train --output runs/other", cores[1]));
    EXPECT_EQ(elsewhere.code, 2) << elsewhere.out;
    EXPECT_NE(
        elsewhere.out.find(fmt::format(
            "train.cpu_affinity: this process may not use core {}: it may use {}\n", cores[0], cores[1])),
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
