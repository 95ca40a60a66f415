// Runs that go wrong: what they print says where, and what they leave can be continued.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// Parameters grow a hundredfold each step, so that soon the attention's scores are infinite. Its kernel was
// asked for in line 25 of the spec.
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
    R"(kernel attention_forward of layer 0 \(optimizations\.attention, diverging\.yaml:25\) wrote (NaN|infinity) to )"
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

// llm.c's format: 256 numbers of 32 bits, then tokens of 16.
std::string token_file(int count) {
  std::string text(1024, '\0');
  const int32_t header[] = {20240520, 1, count};
  text.replace(0, sizeof header, reinterpret_cast<const char*>(header), sizeof header);
  for (int i = 0; i < count; ++i) text += {static_cast<char>('a' + i * i % 23), '\0'};
  return text;
}

TEST(Fault, ATokenFileThatIsShortenedIsNamedAndTheRunCanGoOn) {
  const Workplace place;
  const std::string tokens = token_file(1 << 17);
  test::spill(place / "tokens.bin", tokens);
  const Words command = {"base.yaml", "data.path=tokens.bin", "train.save_steps=5",
                         "train.save_total_limit=1", "train.lr_scheduler.name=constant"};
  Words endless = command;
  endless.push_back("train.max_steps=100000000");
  Process process(place.path(), endless);
  ASSERT_TRUE(process.wait_for("saved "));
  fs::resize_file(place / "tokens.bin", 2000);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(
      outcome.err,
      "hydrac: the run failed: tokens.bin: cannot read it any more: it was shortened, or its disk failed, "
      "after it had been opened; put it back as it was, then --resume continues from the newest "
      "checkpoint\n");
  test::spill(place / "tokens.bin", tokens);
  Words rest = command;
  rest.insert(rest.end(), {"--resume", "train.max_steps=1"});
  const Outcome resumed = place.run(rest);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("runs/base is complete: step "), std::string::npos) << resumed.out;
}

TEST(Fault, OutputThatCannotBeWrittenIsNoticed) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  for (const Words& words :
       {Words{"check", "base.yaml"}, Words{"check", "base.yaml", "--json"}, Words{"explain", "base.yaml"},
        Words{"keys"}, Words{"schema"}, Words{"--help"}, Words{"run", "--help"},
        Words{"diff", "base.yaml", "runs/base/spec.yaml", "data.path=x"},
        Words{"emit", "base.yaml", "-o", "program"}, Words{"sample", "runs/base", "--max-new-tokens", "2"}}) {
    const Outcome outcome = Process(place.path(), words, {}, "/dev/full").finish();
    EXPECT_EQ(outcome.code, 3) << words[0];
    EXPECT_EQ(outcome.err, "hydrac: the run failed: cannot write standard output: No space left on device\n")
        << words[0];
  }
}

TEST(Fault, ARunThatCannotPrintTrainsAllTheSame) {
  const Workplace place;
  const Outcome outcome = Process(place.path(), {"base.yaml"}, {}, "/dev/full").finish();
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("cannot write standard output: No space left on device; going on"),
            std::string::npos)
      << outcome.err;
  EXPECT_TRUE(fs::exists(place / "runs/base/checkpoint-12/manifest.json"));
}

// What `command` of sh ends with; in it "$HYDRAC" is the program, and 3 a pipe that nobody reads any more.
int ended_in_shell(const Workplace& place, const std::string& command) {
  const std::string script = fmt::format(
      "cd '{}' && export HYDRAC='{}' HYDRAC_CACHE='{}' && rm -f gone && mkfifo gone && "
      "{{ : <gone & exec 3>gone; wait; {}; }}",
      place.path().string(), hydrac_program(), shared_cache().string(), command);
  return WEXITSTATUS(std::system(script.c_str()));
}

// A width of 32 is a warning, which comes before all else.
TEST(Fault, ARunWhoseErrorsNobodyReadsTrainsAllTheSame) {
  const Workplace place;
  for (const char* outputs : {">/dev/null 2>/dev/full", ">/dev/null 2>&-", ">&3 2>&3", ">&- 2>&-"}) {
    fs::remove_all(place / "runs");
    EXPECT_EQ(ended_in_shell(place, std::string("\"$HYDRAC\" base.yaml model.hidden_size=32 ") + outputs), 0)
        << outputs;
    EXPECT_TRUE(fs::exists(place / "runs/base/checkpoint-12/manifest.json")) << outputs;
  }
}

// As any other program does.
TEST(Fault, AVerbWhoseResultNobodyReadsEndsWithoutAWord) {
  const Workplace place;
  for (const char* verb : {"keys", "check base.yaml", "--help"}) {
    EXPECT_EQ(ended_in_shell(place, std::string("\"$HYDRAC\" ") + verb + " >&3 2>err"), 141) << verb;
    EXPECT_EQ(slurp(place / "err"), "") << verb;
  }
}

}  // namespace
}  // namespace hydrac::e2e
