// The peer that bench times: what it prints, and that it trains the same model as the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "job_folder.h"
#include "small_model.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

TEST(Bench, TimesTheExampleJobWithoutAnyTensors) {
  JobFolder job;
  std::ifstream example(hydrac::test::source_dir() + "/oracle/example/job.json");
  job.root() = json::parse(example);
  job.root()["bench_steps"] = 2;
  job.write();
  std::filesystem::remove(job.path() / "tensors.safetensors");
  const Outcome outcome = job.run("bench");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json line = json::parse(outcome.out);
  EXPECT_GT(line["ms_min"].get<double>(), 0);
  EXPECT_GE(line["ms_per_step_median"], line["ms_min"]);
  EXPECT_NEAR(line["tokens_per_second"].get<double>() * line["ms_per_step_median"].get<double>(),
              4 * 32 * 1000.0, 1);
  EXPECT_GT(line["peak_rss_mib"].get<double>(), 10);
  EXPECT_NEAR(line["loss_first"].get<double>(), std::log(64.0), 0.1);
  EXPECT_NEAR(line["loss_last"].get<double>(), std::log(64.0), 0.3);
  EXPECT_FALSE(line["torch"].get<std::string>().empty());
  EXPECT_TRUE(line["blas"].is_string());
}

TEST(Bench, FailsForAGraphThatItCannotFeed) {
  JobFolder job;
  build_llama(job);
  job.value("mystery", {2}, "input", "i32");
  const Outcome outcome = job.write_and_run("bench");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "hydrac-oracle: error: nothing says what numbers input \"mystery\" may hold\n");
}

void expect_peer_equals_reference(JobFolder& job) {
  job.root()["optimizer"] = {{"name", "adamw"},
                             {"learning_rate", 0.01},
                             {"betas", {0.9, 0.99}},
                             {"eps", 1e-3},
                             {"weight_decay", 0.1}};
  job.root()["max_grad_norm"] = 0.5;
  const Outcome reference = job.write_and_run();
  job.root()["ops"] = "peer";
  const Outcome peer = job.write_and_run();
  ASSERT_EQ(peer.exit_code, 0) << peer.err;
  ASSERT_EQ(peer.values.size(), reference.values.size());
  for (const auto& [name, numbers] : reference.values)
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(peer.at(name)[i], numbers[i], 1e-10) << name;
}

TEST(Peer, ComputesWhatTheReferenceDoesForALlama) {
  JobFolder job;
  build_llama(job);
  expect_peer_equals_reference(job);
}

TEST(Peer, ComputesWhatTheReferenceDoesForAGptWithoutDropout) {
  JobFolder job;
  build_gpt(job);
  for (json& region : job.root()["graph"]["regions"])
    for (json& node : region["nodes"]) {
      if (node["op"] == "dropout") node["attrs"]["p"] = 0;
      if (node["op"] == "attention") node["attrs"]["dropout"] = 0;
    }
  expect_peer_equals_reference(job);
}

}  // namespace
}  // namespace hydrac::oracle
