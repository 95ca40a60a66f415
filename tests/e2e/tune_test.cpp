// `hydrac tune` and the lock file: written, taken, refused where it does not fit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

// base.yaml with an open micro-batch and any number of threads, tuned once for all tests.
class Tuned : public ::testing::Test {
 protected:
  static std::string open_spec() {
    return replaced(replaced(base_spec(), "  micro_batch_size: 2\n  gradient_accumulation_steps: 2\n",
                             "  global_batch_size: 4\n"),
                    "  threads: 1\n", "  precision: fp32\n");
  }
  void SetUp() override {
    spill(place_ / "open.yaml", open_spec());
    if (lock_.empty()) {
      const Outcome outcome = place_.run({"tune", "open.yaml", "--minutes", "0.1", "--effort", "quick"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_NE(outcome.out.find("written: open.lock.yaml"), std::string::npos) << outcome.out;
      lock_ = slurp(place_ / "open.lock.yaml");
    }
    spill(place_ / "open.lock.yaml", lock_);
  }
  Outcome check(const Words& more = {}) const { return place_.run(with({"check", "open.yaml", "-v"}, more)); }

  const Workplace place_;
  static inline std::string lock_;
};

// Milliseconds of a step, by what `hydrac tune` says and writes.
struct Found {
  double best = 0, slowest = 0;
  std::string text;
};

// Of the library for matmuls and the number of threads alone.
Found tuned_quickstart(const Workplace& place) {
  const Outcome outcome = place.run({"tune", "quickstart.yaml", "--minutes", "1", "data.path=corpus.txt"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string lock = slurp(place / "quickstart.lock.yaml");
  const auto number = [](const std::string& text, const char* pattern) {
    std::smatch found;
    return std::regex_search(text, found, std::regex(pattern)) ? std::stod(found[1]) : 0.0;
  };
  return {std::min(number(lock, "\n +step_ms: ([0-9.]+)\n"), number(lock, "defaults_step_ms: ([0-9.]+)\n")),
          number(outcome.out, "the slowest of them, .*: ([0-9.]+) ms\n"), outcome.out};
}

// The one test that asserts a time: the worst choice takes two or three times as long as the best one
// wherever there are two libraries and two cores. Other tests that run meanwhile may hide that, but hardly
// three times.
TEST(Tune, FindsMuchOverTheWorstLibraryAndThreads) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  const Workplace place;
  spill(place / "quickstart.yaml",
        replaced(slurp(test::source_dir() + "/specs/quickstart.yaml"), "sample:\n",
                 "optimizations: {loss: materialized, recompute: none}\nsample:\n"));
  Found found;
  for (int attempt = 0; attempt < 3 && !(found.best > 0 && found.best < 0.95 * found.slowest); ++attempt)
    found = tuned_quickstart(place);
  EXPECT_GT(found.best, 0);
  EXPECT_LT(found.best, 0.95 * found.slowest) << found.text;
}

TEST_F(Tuned, IsWrittenWithAllThatItChose) {
  for (const char* part :
       {"hydrac_lock: 1\n", "target: cpu\n", "step_ms: ", "spread_percent: ", "planned_bytes: ",
        "train.micro_batch_size: ", "optimizations.threads: ", "library: ", "compiler: "})
    EXPECT_NE(lock_.find(part), std::string::npos) << part << " in\n" << lock_;
}

TEST_F(Tuned, IsTakenByTheSpec) {
  const Outcome locked = check({"--locked"});
  EXPECT_EQ(locked.code, 0) << locked.err;
  EXPECT_EQ(locked.err, "");
  const size_t at = lock_.find("train.micro_batch_size: ");
  const std::string chosen = lock_.substr(at + 6, lock_.find('\n', at) - at - 6);
  EXPECT_NE(locked.out.find("  " + chosen + "\n"), std::string::npos) << chosen << " in\n" << locked.out;
  spill(place_ / "open.lock.yaml", replaced(lock_, chosen, "micro_batch_size: 1"));
  EXPECT_NE(check().out.find("  micro_batch_size: 1\n  gradient_accumulation_steps: 4\n"), std::string::npos);
  EXPECT_NE(check({"--lock", "none"}).out.find("  micro_batch_size: 4\n"), std::string::npos);
}

// Nothing is measured, and nothing depends on a cache.
TEST_F(Tuned, RunsBitForBitWithEmptyCaches) {
  for (const char* name : {"first", "second"}) {
    const Outcome outcome =
        place_.run({"open.yaml", "--locked", "-q", std::string("output.dir=runs/") + name},
                   {{"HYDRAC_CACHE", (place_ / (std::string("cache-") + name)).string()}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_FALSE(fs::exists(place_ / (std::string("cache-") + name) / "blas-choices"))
        << "a BLAS was measured";
  }
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "choices.json"}) {
    EXPECT_EQ(slurp(place_ / "runs/first/checkpoint-12" / file),
              slurp(place_ / "runs/second/checkpoint-12" / file))
        << file;
  }
}

TEST_F(Tuned, OfAnotherMachineLeavesTheSpecAsItIs) {
  const size_t at = lock_.find("cores: ");
  spill(place_ / "open.lock.yaml",
        replaced(lock_, lock_.substr(at, lock_.find('\n', at) - at), "cores: \"999\""));
  const Outcome outcome = check();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("note: open.lock.yaml has no section for this machine ("), std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.out, check({"--lock", "none"}).out);
  const Outcome locked = check({"--locked"});
  EXPECT_EQ(locked.code, 2);
  EXPECT_NE(locked.err.find("error: --locked: open.lock.yaml has no section for this machine"),
            std::string::npos)
      << locked.err;
}

TEST_F(Tuned, OfAnotherSpecSaysWhatChanged) {
  const Outcome outcome = check({"model.intermediate_size=64"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(
      outcome.err.find("open.lock.yaml is for another spec:\n  model.intermediate_size: 128 then, 64 now"),
      std::string::npos)
      << outcome.err;
  EXPECT_EQ(check({"model.intermediate_size=64", "--locked"}).code, 2);
  EXPECT_EQ(check({"train.max_steps=99", "train.optimizer.learning_rate=0.1"}).err, "")
      << "no time depends on these";
}

TEST_F(Tuned, OfAnotherLibrarySaysWhatChanged) {
  const size_t at = lock_.find("compiler: ");
  spill(place_ / "open.lock.yaml",
        replaced(lock_, lock_.substr(at, lock_.find('\n', at) - at), "compiler: \"1.0\""));
  const Outcome outcome = place_.run({"open.yaml", "-q", "output.dir=runs/other"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("warning: this machine does not repeat the choices of open.lock.yaml:\n"
                             "  kernels compiler: 1.0 in the lock, "),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(place_.run({"open.yaml", "-q", "--locked", "output.dir=runs/locked"}).code, 2);
}

TEST_F(Tuned, ThatIsHostileIsRefusedWithItsPlace) {
  spill(place_ / "open.lock.yaml", replaced(lock_, "    keys:\n", "    keys:\n      output.dir: /etc\n"));
  Outcome outcome = check();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("error: a lock file cannot set output.dir [unknown-key]"), std::string::npos)
      << outcome.err;
  const size_t at = lock_.find("optimizations.threads: ");
  spill(place_ / "open.lock.yaml",
        replaced(lock_, lock_.substr(at, lock_.find('\n', at) - at), "optimizations.threads: -3"));
  outcome = check();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("open.lock.yaml:"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("error: optimizations.threads must be between 0 and 4096, not -3"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(place_.run({"tune", "open.yaml", "--minutes", "0.1"}).code, 0) << "its keys are written anew";
}

TEST_F(Tuned, IsCarriedByAnEmittedProgram) {
  ASSERT_EQ(place_.run({"emit", "open.yaml", "-o", "program", "-q"}).code, 0);
  EXPECT_NE(slurp(place_ / "program/settings.cpp").find("settings.choices.set(\"blas\", \"library\", "),
            std::string::npos);
  EXPECT_EQ(place_.run({"diff", "open.yaml", "program"}).code, 0);
  ASSERT_EQ(place_.run({"emit", "open.yaml", "-o", "plain", "-q", "--lock", "none", "--threads", "1"}).code,
            0);
  EXPECT_EQ(slurp(place_ / "plain/settings.cpp").find("settings.choices"), std::string::npos);
}

// Attention's tiles and matmuls by name, which only a GPU's section has.
TEST(TunedForAGpu, IsEmittedWithTilesAndMatmuls) {
  const Workplace place;
  spill(place / "gpu.yaml",
        "name: gpu\ntarget: h100\n"
        "model: {hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 256}\n"
        "data: {path: a.txt, tokenizer: byte}\n"
        "train: {sequence_len: 128, micro_batch_size: 16, max_steps: 2}\n");
  spill(place / "a.txt", std::string(10000, 'a'));
  const std::string section =
      "hydrac_lock: 1\nsections:\n  - machine: {target: h100, name: H100}\n    spec: {}\n    keys:\n";
  spill(place / "gpu.lock.yaml", section +
                                     "      optimizations.attention_tiles.forward: 128x64\n"
                                     "      optimizations.attention_tiles.dkv: 128x64\n"
                                     "      optimizations.fused_matmuls: none\n"
                                     "      optimizations.own_matmuls: [mlp.up]\n");
  Outcome outcome = place.run({"emit", "gpu.yaml", "-o", "tuned", "-q"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(place
                .run({"emit", "gpu.yaml", "-o", "plain", "-q", "--lock", "none",
                      "optimizations.fused_matmuls=none"})
                .code,
            0);
  const auto files = [&](const char* folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(place / folder / "kernels"))
      names.insert(entry.path().filename());
    return names;
  };
  EXPECT_TRUE(files("tuned").contains("attention_key_gradients.cu"));
  EXPECT_FALSE(files("plain").contains("attention_key_gradients.cu"));
  EXPECT_TRUE(files("tuned").contains("matmul_swiglu.cu"));
  EXPECT_FALSE(files("plain").contains("matmul_swiglu.cu"));
  EXPECT_EQ(place.run({"diff", "gpu.yaml", "tuned"}).code, 0);
  spill(place / "gpu.lock.yaml", section + "      optimizations.own_matmuls: [nothing]\n");
  outcome = place.run({"check", "gpu.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(
      outcome.err.find("gpu.lock.yaml:6:34: optimizations.own_matmuls: no matmul that could be hydrac's is "
                       "named nothing; there are "),
      std::string::npos)
      << outcome.err;
  spill(place / "gpu.lock.yaml", section + "      optimizations.attention_tiles.forward: 64x32\n");
  outcome = place.run({"check", "gpu.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("the kernels of sm_90 take 64 or 128 [option-unsupported]"), std::string::npos)
      << outcome.err;
}

TEST_F(Tuned, ShowsItsChangesInADiff) {
  spill(place_ / "other.yaml", open_spec());
  const bool onednn = lock_.find("library: onednn") != std::string::npos;
  spill(place_ / "other.lock.yaml",
        replaced(lock_, onednn ? "library: onednn" : "library: openblas", "library: mkl"));
  const Outcome outcome = place_.run({"diff", "open.yaml", "other.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(std::string("choices\n  blas library: ") + (onednn ? "onednn" : "openblas") +
                             " in the first lock, mkl in the second\n"),
            std::string::npos)
      << outcome.out;
}

TEST_F(Tuned, KeepsWhatWasFoundWhenItIsStopped) {
  fs::remove(place_ / "open.lock.yaml");
  Process process(place_.path(), {"tune", "open.yaml", "--minutes", "5", "--effort", "max"});
  ASSERT_TRUE(process.wait_for("0 tried"));  // the defaults were measured
  process.send(SIGINT);
  EXPECT_EQ(process.finish().code, 4);
  const Outcome outcome = check({"--locked"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Tuned, SaysWhatItMakesSmall) {
  const Outcome outcome =
      place_.run({"tune", "open.yaml", "--effort", "quick", "--minutes", "1", "--objective", "memory"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::regex_search(
      outcome.out, std::regex("\n[^\n]*micro_batch_size [12]: [0-9.]+ .iB planned; the defaults, at the "
                              "start: [0-9.]+ .iB; compared by plan: -[0-9.]+%\n")))
      << outcome.out;
  EXPECT_EQ(outcome.out.find("noisy"), std::string::npos) << "a plan is not measured: " << outcome.out;
}

TEST_F(Tuned, RefusesWhatCannotBeBeforeItMeasures) {
  const std::pair<Words, std::string> cases[] = {
      {{"-o", "no/such/folder/a.yaml"},
       "no/such/folder/a.yaml cannot be written (No such file or directory)"},
      {{"-o", "/proc/a.yaml"}, "the lock file /proc/a.yaml cannot be written"},
      {{"--objective", "energy"}, "--objective energy: hydrac counts the energy of GPUs"},
      {{"--objective", "speed"}, "--objective: \"speed\" is none of time, memory, energy"},
      {{"--effort", "some"}, "--effort: \"some\" is none of quick, normal, max"},
      {{"--minutes", "-1"}, "--minutes: \"-1\" is no number of minutes"},
  };
  for (const auto& [words, message] : cases) {
    const Outcome outcome = place_.run(with({"tune", "open.yaml"}, words));
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  }
  spill(place_ / "open.lock.yaml", "hydrac_lock: 7\n");
  EXPECT_EQ(place_.run({"tune", "open.yaml"}).code, 2) << "what is there and wrong is not overwritten";
  EXPECT_EQ(slurp(place_ / "open.lock.yaml"), "hydrac_lock: 7\n");
  EXPECT_EQ(check({"--lock", "missing.lock.yaml"}).code, 2);
}

// Rows by name, of `hydrac bench --ablate --json`.
std::map<std::string, nlohmann::json> ablation(const Workplace& place, const Words& more) {
  const Outcome outcome = place.run(with({"bench", "base.yaml", "--ablate", "--json", "--steps", "2"}, more));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const nlohmann::json table = nlohmann::json::parse(outcome.out);
  std::map<std::string, nlohmann::json> rows;
  for (const nlohmann::json& row : table["rows"]) rows[row["name"]] = row;
  return rows;
}

TEST(Ablate, AddsKeysThatTheSpecHasNot) {
  const Workplace place;
  const auto rows = ablation(
      place, {"--combine", "recompute=[norm,act]+optimizer_state=int8,train.micro_batch_size=4+threads=1"});
  ASSERT_EQ(rows.size(), 4u);  // on a cpu with one thread the spec itself is plain
  const auto& plain = rows.at("plain fp32");
  const auto& smaller = rows.at("plain + recompute=[norm,act]+optimizer_state=int8");
  EXPECT_LT(smaller["planned_bytes"], plain["planned_bytes"]);
  EXPECT_GT(rows.at("plain + train.micro_batch_size=4+threads=1")["planned_bytes"], plain["planned_bytes"]);
  EXPECT_EQ(rows.at("the spec (base)")["loss"], plain["loss"]);
  EXPECT_EQ(plain["step_ms_rounds"].size(), 5u);
  EXPECT_FALSE(plain.contains("effect"));
  const auto& effect = smaller["effect"];
  EXPECT_EQ(effect["against"], "plain fp32");
  EXPECT_LE(effect["least"], effect["speed"]);
  EXPECT_LE(effect["speed"], effect["most"]);
  EXPECT_TRUE(effect["within_spread"].is_boolean());
}

// fit: auto recomputes here, which the plain program does not.
TEST(Ablate, ChoosesOpenKeysOnceForAllRows) {
  const Workplace place;
  const auto plan = [&](const std::string& key) {
    const Outcome outcome = place.run({"check", "base.yaml", key});
    const size_t at = outcome.out.find("\narena") + 6;
    return std::stoll(outcome.out.substr(at));
  };
  const double limit =
      static_cast<double>(plan("optimizations.recompute=block") + plan("optimizations.recompute=none")) / 2;
  const auto rows = ablation(
      place, {"optimizations.fit=auto", fmt::format("optimizations.memory_limit={:.6f}", limit / 0x1p30)});
  EXPECT_NE(rows.at("plain fp32")["impossible"].get<std::string>().find("the program needs"),
            std::string::npos);
  EXPECT_LE(rows.at("the spec (base)")["planned_bytes"], limit);
  int without = 0;
  for (const auto& [name, row] : rows) without += name.starts_with("without recompute");
  EXPECT_EQ(without, 1);
}

TEST(Ablate, RefusesACombinationOfWhatIsNoKey) {
  const Workplace place;
  const auto refused = [&](const char* combination) {
    const Outcome outcome = place.run({"bench", "base.yaml", "--ablate", "--combine", combination});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_NE(
      refused("recompute").find("is no optimization of this spec, which has none; write recompute=VALUE"),
      std::string::npos);
  EXPECT_NE(refused("recomputing=block").find("\"recomputing\" is no key"), std::string::npos);
}

}  // namespace
}  // namespace hydrac::e2e
