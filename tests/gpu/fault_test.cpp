// Faults on a GPU: where a number went wrong is named, and a run that is stopped or killed ends, continued,
// as one that never was. $HYDRAC_PROGRAM names the hydrac that is driven, where it is not in its build
// folder.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "targets/cuda/executor.h"
#include "tests/e2e/cli.h"
#include "tests/gpu/gpu_test.h"
#include "tests/unit/core/small_models.h"

namespace hydrac::targets {
namespace {

using e2e::Outcome;
using e2e::Process;
using e2e::Words;
using e2e::Workplace;
using test::slurp;

constexpr int64_t kB = 2, kT = 16, kV = 64;

class GpuFault : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    target_ = find(detected_gpu().value());
  }

  // As the training loop has it: up to two steps in flight, one graph a step.
  std::unique_ptr<CudaProgram> fresh(int64_t micro_batches = 1) {
    spec::Spec spec = test::small_spec(
        "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, vocab_size: "
        "64, "
        "norm: layernorm, position: learned, hidden_act: gelu",
        "sequence_len: 16, micro_batch_size: 2");
    spec.target = target_->name;
    spec.train.gradient_accumulation_steps = micro_batches;
    machine_ = std::make_unique<CudaMachine>(*target_, e2e::shared_cache());
    auto program =
        std::make_unique<CudaProgram>(driver::compile(spec, machine_->compile_options(spec, "")), *machine_);
    program->initialize();
    return program;
  }

  static void begin(CudaProgram& program, int64_t number, float inv_count = 1.0f / (kB * kT)) {
    runtime::Batch batch;
    for (int64_t i = 0; i < kB * kT; ++i) {
      batch.tokens.push_back(static_cast<int32_t>((i * 5 + number) % kV));
      batch.targets.push_back(static_cast<int32_t>((i * 7 + number) % kV));
    }
    batch.target_count = kB * kT;
    for (int64_t i = 0; i < program.compiled().spec.train.gradient_accumulation_steps; ++i)
      program.micro_step(batch, inv_count);
    program.update();
  }

  static void set(CudaProgram& program, const std::string& name, int slot, size_t element, float number) {
    const ir::ValueId value = program.compiled().graph.find(name);
    std::vector<float> values = program.read(value, slot);
    values.at(element) = number;
    program.write(value, slot, values);
  }

  const Target* target_ = nullptr;
  std::unique_ptr<CudaMachine> machine_;
};

TEST_F(GpuFault, AParameterThatIsNotFiniteIsNamedAsInACheckpoint) {
  const auto program = fresh();
  set(*program, "mlp.up.weight", 1, 5, NAN);
  begin(*program, 0);
  EXPECT_FALSE(std::isfinite(program->finish_step().loss));
  EXPECT_EQ(
      program->explain_divergence(),
      "the parameter transformer.h.1.mlp.c_fc.weight holds NaN in 1 of 4096 elements, the first at [5, 0]");
}

TEST_F(GpuFault, TheFirstCallIsNamedWithTheNextStepInFlight) {
  for (const int64_t micro_batches : {1, 2}) {
    const auto program = fresh(micro_batches);
    begin(*program, 0);
    EXPECT_TRUE(std::isfinite(program->finish_step().loss));
    set(*program, "mlp.up.weight", 1, 0, 3e38f);
    begin(*program, 1);
    begin(*program, 2);
    EXPECT_FALSE(std::isfinite(program->finish_step().grad_norm));
    const std::string text = program->explain_divergence();
    EXPECT_EQ(text.find(micro_batches == 1 ? "first, gemm" : "first, in micro-batch 1 of 2, gemm"), 0u)
        << text;
    EXPECT_NE(text.find(" of layer 1 (model.intermediate_size, small.yaml:3) wrote infinity to mlp.up"),
              std::string::npos)
        << text;
  }
}

TEST_F(GpuFault, AStepThatIsNotFiniteChangesNothingNorDoesTheOneInFlight) {
  const auto program = fresh();
  begin(*program, 0);
  program->finish_step();
  const ir::ValueId parameters = program->compiled().pack.parameters;
  const std::vector<float> before = program->read(parameters, 0);
  begin(*program, 1, std::numeric_limits<float>::infinity());
  begin(*program, 2);
  EXPECT_FALSE(std::isfinite(program->finish_step().grad_norm));
  EXPECT_TRUE(std::isfinite(program->finish_step().grad_norm));
  EXPECT_TRUE(program->read(parameters, 0) == before);
}

TEST_F(GpuFault, CheckedKernelsGiveTheSameResultsAndStopAtTheFirstBadOne) {
  const auto plain = fresh();
  std::vector<float> losses;
  for (int64_t number = 0; number < 3; ++number) {
    begin(*plain, number);
    losses.push_back(plain->finish_step().loss);
  }
  const auto checked = fresh();
  checked->check_kernels();
  for (int64_t number = 0; number < 3; ++number) {
    begin(*checked, number);
    EXPECT_EQ(checked->finish_step().loss, losses[static_cast<size_t>(number)]);
  }
  set(*checked, "mlp.up.weight", 1, 0, 3e38f);
  try {
    begin(*checked, 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const runtime::RunError& error) {
    EXPECT_NE(std::string(error.what()).find(" wrote infinity to mlp.up"), std::string::npos) << error.what();
  }
}

class GpuRun : public test::GpuTest {
 protected:
  // Heads of 32, which GPU kernels take; checkpoints where `more` says.
  static Words command(const Words& more) {
    Words words = {"base.yaml", "target=auto", "model.num_attention_heads=2", "model.num_key_value_heads=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static void expect_same_end(const Workplace& place) {
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
      const e2e::fs::path file = e2e::fs::path("checkpoint-12") / name;
      EXPECT_TRUE(slurp(place / "runs/base" / file) == slurp(place / "runs/whole" / file)) << name;
    }
  }
};

TEST_F(GpuRun, DivergingNamesStepKernelTensorAndSpecLine) {
  const Workplace place;
  const Outcome outcome =
      place.run(command({"-q", "train.optimizer.learning_rate=100", "train.optimizer.weight_decay=1",
                         "train.lr_scheduler.warmup_steps=0", "train.eval_steps=0"}));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err.find("hydrac: the run failed: step "), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find("\nfirst, "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" wrote "), std::string::npos) << outcome.err;
}

TEST_F(GpuRun, KilledAndContinuedItEndsAsIfItHadNotBeen) {
  const Workplace place;
  ASSERT_EQ(place.run(command({"-q", "output.dir=runs/whole"})).code, 0);
  for (const char* when : {"saved ", "step 5/12", "step 9/12"}) {
    Words words = command({"train.save_steps=1"});
    if (e2e::fs::exists(place / "runs/base/metrics.jsonl")) words.push_back("--resume");
    Process process(place.path(), words);
    ASSERT_TRUE(process.wait_for(when)) << when;
    process.send(SIGKILL);
    EXPECT_EQ(process.finish().code, 1000 + SIGKILL);
  }
  const Outcome last = place.run(command({"train.save_steps=1", "--resume"}));
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_end(place);
}

// The search for algorithms is by timing, so that each fresh cache may end up with others.
TEST_F(GpuRun, ContinuedWithAFreshCacheItEndsAsIfTheCacheHadStayed) {
  const Workplace place;
  const Words larger =
      command({"-q", "model.hidden_size=256", "model.intermediate_size=1024", "model.num_attention_heads=4",
               "model.num_key_value_heads=2", "train.sequence_len=128", "train.micro_batch_size=8",
               "data.val_fraction=0", "train.eval_steps=0"});
  const auto run = [&](const Words& more, const std::string& cache) {
    Words words = larger;
    words.insert(words.end(), more.begin(), more.end());
    return place.run(words, {{"HYDRAC_CACHE", (place / cache).string()}});
  };
  ASSERT_EQ(run({"output.dir=runs/whole"}, "cache").code, 0);
  EXPECT_NE(slurp(place / "runs/whole/checkpoint-12/choices.json").find("\"cublaslt\""), std::string::npos);
  for (int number = 0; number < 8; ++number) {
    e2e::fs::remove_all(place / "runs/base");
    e2e::fs::copy(place / "runs/whole", place / "runs/base", e2e::fs::copy_options::recursive);
    for (const char* later : {"8", "10", "12"})
      e2e::fs::remove_all(place / ("runs/base/checkpoint-" + std::string(later)));
    const Outcome resumed =
        run({"output.dir=runs/base", "--resume", "--exact"}, "cache-" + std::to_string(number));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(resumed.err, "");
    expect_same_end(place);
    EXPECT_EQ(slurp(place / "runs/base/checkpoint-12/choices.json"),
              slurp(place / "runs/whole/checkpoint-12/choices.json"));
  }
}

TEST_F(GpuRun, InterruptedAndContinuedItEndsAsIfItHadNotBeen) {
  const Workplace place;
  ASSERT_EQ(place.run(command({"-q", "output.dir=runs/whole"})).code, 0);
  Process process(place.path(), command({"train.save_steps=0"}));
  ASSERT_TRUE(process.wait_for("step 3/12"));
  process.send(SIGINT);
  const Outcome stopped = process.finish();
  ASSERT_EQ(stopped.code, 4) << stopped.err;
  EXPECT_NE(stopped.out.find(" of 12; --resume continues it\n"), std::string::npos) << stopped.out;
  const Outcome resumed = place.run(command({"train.save_steps=0", "--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_end(place);
}

}  // namespace
}  // namespace hydrac::targets
