// Runs that go wrong: what they print says where, and what they leave can be continued.
#include <gtest/gtest.h>

#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// Parameters grow a hundredfold each step, so that soon the attention's scores are infinite. Its kernel was
// asked for in line 24 of the spec.
Outcome diverging_run(const Workplace& place, const Words& more) {
  std::string spec = base_spec();
  const std::string section = "optimizations:\n";
  spec.insert(spec.find(section) + section.size(), "  attention: generated\n");
  test::spill(place / "diverging.yaml", spec);
  Words words = {"-q",
                 "diverging.yaml",
                 "train.optimizer.learning_rate=100",
                 "train.optimizer.weight_decay=1",
                 "train.lr_scheduler.warmup_steps=0",
                 "train.eval_steps=0"};
  words.insert(words.end(), more.begin(), more.end());
  return place.run(words);
}

// As a regular expression; what the processor's rounding decides is left open.
const std::string kFirst =
    R"(kernel attention_forward of layer 0 \(optimizations\.attention, diverging\.yaml:24\) wrote (NaN|infinity) to )"
    R"(attn\.mixed\[0\] in \d+ of 2048 elements, the first at \[\d+, \d+, \d+\]; all that it read is finite)";
const std::string kNewest = R"(\nthe newest checkpoint is runs/base/checkpoint-\d+\n)";

TEST(Fault, ADivergingRunNamesStepKernelTensorAndSpecLine) {
  const Workplace place;
  const Outcome outcome = diverging_run(place, {});
  EXPECT_EQ(outcome.code, 3);
  const std::string begin =
      R"(hydrac: the run failed: step \d+: the (loss is NaN|loss is infinite), so the training diverged; lower )"
      R"(train\.optimizer\.learning_rate or raise train\.lr_scheduler\.warmup_steps\nfirst, in micro-batch [12] of 2, )";
  EXPECT_TRUE(std::regex_match(outcome.err, std::regex(begin + kFirst + kNewest))) << outcome.err;
}

TEST(Fault, CheckedKernelsNameTheSame) {
  const Workplace place;
  const Outcome outcome = diverging_run(place, {"--check-kernels"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(
      std::regex_match(outcome.err, std::regex(R"(hydrac: the run failed: step \d+: )" + kFirst + kNewest)))
      << outcome.err;
}

TEST(Fault, CheckingKernelsChangesNoResult) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/plain"}).code, 0);
  const Outcome checked = place.run({"-q", "base.yaml", "output.dir=runs/checked", "--check-kernels"});
  ASSERT_EQ(checked.code, 0) << checked.err;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    EXPECT_TRUE(slurp(place / "runs/plain/checkpoint-12" / name) ==
                slurp(place / "runs/checked/checkpoint-12" / name))
        << name;
  }
}

}  // namespace
}  // namespace hydrac::e2e
