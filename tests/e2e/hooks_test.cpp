// Hooks of an emitted program: its owner's code in a step.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/built/built_program.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

// docs/emitted-code.md shows these functions.
std::string norms_of_the_stream() {
  const std::string page = slurp(fs::path(test::source_dir()) / "docs/emitted-code.md");
  const std::string fence = "```cpp hooks.cpp\n";
  const size_t begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST(Hooks, ChangeNothingButReportTheirMetrics) {
  const Workplace place;
  build_program(place, {"--hooks", "train.max_steps=4"});
  const fs::path hooks = place / "program/hooks.cpp";
  const Outcome empty = shell(place.path(), "program/build/train --output runs/empty");
  ASSERT_EQ(empty.code, 0) << empty.out;
  ASSERT_EQ(place.run({"base.yaml", "output.dir=runs/jit", "-q", "train.max_steps=4"}).code, 0);
  expect_equal_runs(place / "runs/jit", place / "runs/empty", "checkpoint-4");

  spill(hooks, norms_of_the_stream());
  const Outcome kept = place.run(
      {"emit", "base.yaml", "-o", "program", "train.max_steps=4", "train.optimizer.learning_rate=1e-4"});
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_NE(kept.out.find("kept     hooks.cpp\n"), std::string::npos) << kept.out;
  EXPECT_EQ(slurp(hooks), norms_of_the_stream());
  build_emitted(place, "program");
  const Outcome run = shell(place.path(), "program/build/train --output runs/norms");
  ASSERT_EQ(run.code, 0) << run.out;
  EXPECT_NE(run.out.find("stream "), std::string::npos) << run.out;
  ASSERT_EQ(place
                .run({"base.yaml", "output.dir=runs/slow", "-q", "train.max_steps=4",
                      "train.optimizer.learning_rate=1e-4"})
                .code,
            0);
  EXPECT_EQ(slurp(place / "runs/slow/checkpoint-4/model.safetensors"),
            slurp(place / "runs/norms/checkpoint-4/model.safetensors"));
  double last = 0;
  for (const nlohmann::json& step : records_of(place / "runs/norms")) {
    if (!step.contains("loss")) continue;
    for (const char* name : {"stream_norm_1", "stream_norm_2"}) {
      ASSERT_TRUE(step.contains(name)) << step;
      EXPECT_GT(step[name].get<double>(), 0);
      EXPECT_LT(step[name].get<double>(), 1000);
    }
    EXPECT_NE(step["stream_norm_2"].get<double>(), last);
    last = step["stream_norm_2"].get<double>();
  }
  EXPECT_GT(last, 0);
}

TEST(Hooks, AreTheOwnersAndMustFit) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--hooks", "-q"}).code, 0);
  EXPECT_EQ(place.run({"diff", "base.yaml", "program"}).out, "");
  const fs::path hooks = place / "program/hooks.cpp";
  const std::string first = slurp(hooks);
  spill(hooks, first + "// ours\n");
  const Outcome kept = place.run({"diff", "base.yaml", "program"});
  EXPECT_EQ(kept.code, 0);
  EXPECT_EQ(kept.out, "kept     hooks.cpp\n");
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program", "--force", "-q"}).code, 0);
  EXPECT_EQ(slurp(hooks), first + "// ours\n");

  std::string other = first;
  const std::string update = "void after_update(";
  other.replace(other.find(update), update.size(), "void after_updates(");
  spill(hooks, other);
  const Outcome refused = place.run({"emit", "base.yaml", "-o", "program", "train.max_steps=30"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(
      refused.err.find("program/hooks.cpp: the program calls another function than it defines\n"
                       "  called:  void after_update(const Memory& m, const HookMemory& own, const Run& "
                       "run)\n  defined: none of that name"),
      std::string::npos)
      << refused.err;

  // Without the file the program has no hooks.
  fs::remove(hooks);
  const Outcome without = place.run({"emit", "base.yaml", "-o", "program"});
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_NE(without.out.find("removed  hooks.h\n"), std::string::npos) << without.out;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "plain", "-q"}).code, 0);
  EXPECT_EQ(slurp(place / "plain/program.cpp"), slurp(place / "program/program.cpp"));
}

// Loops over several layers an iteration, and over some of the layers.
TEST(Hooks, KnowTheirLayer) {
  const Workplace place;
  ASSERT_EQ(place
                .run({"emit", "base.yaml", "-o", "program", "--hooks", "-q", "target=h200",
                      "optimizations.precision=bf16", "model.num_hidden_layers=4",
                      "optimizations.recompute=block", "optimizations.recompute_layers=1"})
                .code,
            0);
  const std::string forward = slurp(place / "program/forward.cpp");
  EXPECT_NE(forward.find("  block0(m, run, 0);\n  after_layer(m, own, run, 0);\n"), std::string::npos)
      << forward;
  EXPECT_NE(forward.find("after_layer(m, own, run, l + 1);"), std::string::npos) << forward;
  EXPECT_NE(slurp(place / "program/hooks.cu").find("void after_layer("), std::string::npos);
  const std::string program = slurp(place / "program/program.cpp");
  EXPECT_LT(program.find("main_.follow(side_);"), program.find("after_backward(memory_, hooks_, run);"));
}

}  // namespace
}  // namespace hydrac::e2e
