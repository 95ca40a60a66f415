// Models and datasets by name, fetched by Hugging Face's client from a server on loopback.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/child_process.h"
#include "tests/e2e/cli.h"
#include "tests/unit/support/command.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

class Hub : public testing::Test {
 protected:
  void SetUp() override {
    const std::string python = test::python_with_packages();
    packages_ = test::source_dir() + "/.cache/huggingface_hub";
    if (test::run_command("PYTHONPATH='" + packages_ + "' '" + python + "' -c 'import huggingface_hub'")
            .code != 0)
      GTEST_SKIP() << "NOT RUN: " << python << " has no huggingface_hub; ./dev setup gets it";
    fs::create_directories(place_ / "hub/models");
    fs::create_directories(place_ / "hub/datasets");
    server_.emplace(std::vector<std::string>{python, test::source_dir() + "/tests/e2e/data/hub_server.py",
                                             (place_ / "hub").string()},
                    runtime::ChildSetup{.output = runtime::kPipe});
    std::string address;
    for (char byte; ::read(server_->output(), &byte, 1) == 1 && byte != '\n';) address += byte;
    ASSERT_TRUE(address.starts_with("http://")) << address;
    environment_ = {{"HF_ENDPOINT", address},
                    {"HF_HOME", (place_ / "home").string()},
                    {"HF_HUB_DOWNLOAD_TIMEOUT", "60"},
                    {"HYDRAC_PYTHON", python},
                    {"PYTHONPATH", packages_}};
  }

  Outcome run(const Words& words, std::map<std::string, std::string> changes = {}) const {
    changes.insert(environment_.begin(), environment_.end());
    return place_.run(words, changes);
  }
  void dataset(const std::string& file, const std::string& text) const {
    const fs::path path = place_ / ("hub/datasets/owner/data/" + file);
    fs::create_directories(path.parent_path());
    spill(path, text);
  }
  // The resolved spec's files of data.path, without their folder.
  std::string taken(const std::string& name) const {
    const Outcome outcome =
        run({"check", "-v", "base.yaml", "data.path=" + name, "data.document_mask=false"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const size_t begin = outcome.out.find("  path: ");
    if (begin == std::string::npos) return "";
    const std::string line = outcome.out.substr(begin, outcome.out.find('\n', begin) - begin);
    std::string files;
    for (size_t at = 0; (at = line.find("/snapshots/", at)) != std::string::npos;) {
      at += 11 + 41;  // the commit's hash
      files += (files.empty() ? "" : " ") + line.substr(at, line.find_first_of("\",]", at) - at);
    }
    return files;
  }
  void expect_refused(const std::string& override, const std::string& message,
                      const std::map<std::string, std::string>& changes = {}) const {
    const Outcome outcome = run({"base.yaml", override}, changes);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err << "\nand not\n" << message;
    EXPECT_FALSE(fs::exists(place_ / "runs"));
  }
  std::string requests() const { return slurp(place_ / "hub/requests"); }

  Workplace place_;
  std::string packages_;
  std::optional<runtime::ChildProcess> server_;
  std::map<std::string, std::string> environment_;
};

std::string json_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += "{\"text\": \"The words of document " + std::to_string(i) + "\"}\n";
  return lines;
}

TEST_F(Hub, ARunGoesFromNamesToAPushedModelAndResumesWithoutTheHub) {
  ASSERT_EQ(
      run({"base.yaml", "output.dir=runs/base", "train.max_steps=2", "model.attention_bias=false"}).code, 0);
  ASSERT_EQ(run({"export", "-q", "runs/base", "-o", "hub/models/owner/tiny"}).code, 0);
  dataset("data/train-00000-of-00001.jsonl", json_lines(60));
  dataset("data/test-00000-of-00001.jsonl", json_lines(20));
  spill(place_ / "tuned.yaml", R"(name: tuned
target: cpu
model: {from: "hf:owner/tiny"}
data: {path: "hf:owner/data", val_path: "hf:owner/data:test", tokenizer: byte}
train: {sequence_len: 16, micro_batch_size: 2, max_steps: 4, save_steps: 2, save_total_limit: 0}
optimizations: {threads: 1}
sample: {max_new_tokens: 0}
)");
  const Outcome tuned = run({"tuned.yaml"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("hydrac: fetching "), std::string::npos) << tuned.err;
  EXPECT_NE(slurp(place_ / "runs/tuned/spec.yaml").find("/models--owner--tiny/snapshots/"),
            std::string::npos);

  server_.reset();
  fs::remove_all(place_ / "runs/tuned/checkpoint-4");
  const std::map<std::string, std::string> no_python = {{"HYDRAC_PYTHON", "/nonexistent/python"}};
  const Outcome resumed = run({"tuned.yaml", "--resume"}, no_python);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(Hub, InitBeginsWithAModelByItsName) {
  ASSERT_EQ(
      run({"base.yaml", "output.dir=runs/base", "train.max_steps=2", "model.max_position_embeddings=64"})
          .code,
      0);
  ASSERT_EQ(run({"export", "-q", "runs/base", "-o", "hub/models/owner/tiny"}).code, 0);
  spill(place_ / "mine.jsonl", json_lines(200));
  const Words words = {"init",  "--task", "finetune", "--data",     "mine.jsonl",
                       "--for", "cpu",    "-o",       "helper.yaml"};
  const Outcome made = run(with(words, {"--model", "hf:owner/tiny"}));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(slurp(place_ / "helper.yaml").find("from: \"hf:owner/tiny\""), std::string::npos)
      << slurp(place_ / "helper.yaml");
  const Outcome tuned = run({"helper.yaml", "-q", "train.max_steps=2", "train.lr_scheduler.warmup_steps=0"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;

  const Outcome refused = run(with(words, {"--force", "--model", "hf:owner/other"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--model hf:owner/other: "), std::string::npos) << refused.err;
}

TEST_F(Hub, ExportPushesAModelToARepositoryOfItsOwn) {
  ASSERT_EQ(run({"base.yaml", "output.dir=runs/base", "train.max_steps=2"}).code, 0);
  const Outcome pushed = run({"export", "runs/base", "-o", "out", "--push", "me/tiny"});
  ASSERT_EQ(pushed.code, 0) << pushed.err;
  EXPECT_NE(pushed.out.find("/me/tiny/commit/"), std::string::npos) << pushed.out;
  EXPECT_EQ(files_below(place_ / "hub/models/me/tiny"), files_below(place_ / "out"));
  EXPECT_EQ(slurp(place_ / "hub/models/me/tiny/model.safetensors"), slurp(place_ / "out/model.safetensors"));

  const Outcome refused = run({"export", "runs/base", "-o", "other", "--push", "me/tiny"},
                              {{"HF_ENDPOINT", "http://127.0.0.1:9"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--push me/tiny: http://127.0.0.1:9 cannot be reached"), std::string::npos)
      << refused.err;
  EXPECT_FALSE(fs::exists(place_ / "other"));
}

TEST_F(Hub, FilesOfASplitAreThoseThatTheirNamesMark) {
  for (const char* file : {"data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl",
                           "data/test-00000-of-00001.jsonl", "de/train.jsonl", "de/training-notes.pdf"})
    dataset(file, json_lines(9));
  EXPECT_EQ(taken("hf:owner/data/data"), "data/train-00000-of-00002.jsonl data/train-00001-of-00002.jsonl");
  EXPECT_EQ(taken("hf:owner/data/data:test"), "data/test-00000-of-00001.jsonl");
  EXPECT_EQ(taken("hf:owner/data@main/de:train"), "de/train.jsonl");
  const std::string before = requests();
  EXPECT_EQ(taken("hf:owner/data/data:test"), "data/test-00000-of-00001.jsonl");
  EXPECT_EQ(requests(), before);
  expect_refused("data.path=hf:owner/data/fr", "hf:owner/data/fr has no subset fr but data, de [hub-name]");
  expect_refused("data.path=hf:owner/data/de:dev", "has no files of a split dev, but of train [hub-name]");
}

TEST_F(Hub, FilesOfASplitAreThoseThatTheCardNames) {
  for (const char* file : {"sample/10BT/a.jsonl", "sample/10BT/b.jsonl", "rest/deep/c.jsonl", "rest/d.jsonl"})
    dataset(file, json_lines(9));
  dataset("README.md", R"(---
configs:
- config_name: all
  data_files: [{split: train, path: ["sample/*/*", "rest/**"]}, {split: some, path: "rest/*"}]
- config_name: sample-10BT
  data_files: sample/10BT/*
- config_name: in-a-folder
  data_dir: rest/deep
---
)");
  EXPECT_EQ(taken("hf:owner/data/all"),
            "rest/d.jsonl rest/deep/c.jsonl sample/10BT/a.jsonl sample/10BT/b.jsonl");
  EXPECT_EQ(taken("hf:owner/data/all:some"), "rest/d.jsonl");
  EXPECT_EQ(taken("hf:owner/data/sample-10BT"), "sample/10BT/a.jsonl sample/10BT/b.jsonl");
  EXPECT_EQ(taken("hf:owner/data/in-a-folder"), "rest/deep/c.jsonl");
  expect_refused(
      "data.path=hf:owner/data",
      "has several subsets, all, sample-10BT, in-a-folder: name one of them, as in owner/data/all");
  expect_refused("data.path=hf:owner/data/all:test", "has no split test but train, some");
}

TEST_F(Hub, ADatasetIsPreparedByItsName) {
  dataset("de/train.jsonl", json_lines(40));
  const Words words = {"data", "prepare", "hf:owner/data/de", "-o", "tokens", "--tokenizer", "byte"};
  const Outcome prepared = run(words);
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  EXPECT_NE(prepared.out.find("\ndata "), std::string::npos) << prepared.out;
  const Outcome none = run({"data", "prepare", "hf:owner/none", "-o", "other", "--tokenizer", "byte"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(none.err.starts_with("hydrac: error: hf:owner/none is no dataset on http://")) << none.err;
}

TEST_F(Hub, RefusalsAreOneSentenceBeforeAnythingIsWritten) {
  dataset("train.jsonl", json_lines(9));
  expect_refused("data.path=hf:owner/none", "hf:owner/none is no dataset on http://");
  expect_refused("data.path=hf:owner/data@0.1", "has no revision 0.1 [hub-name]");
  expect_refused("data.path=hf:owner/data", "cannot be fetched: http://127.0.0.1:9 cannot be reached, and ",
                 {{"HF_ENDPOINT", "http://127.0.0.1:9"}});
  expect_refused("data.path=hf:owner/data", "and HF_HUB_OFFLINE forbids to fetch it",
                 {{"HF_HUB_OFFLINE", "1"}});
  expect_refused("data.path=hf:owner/data",
                 "needs huggingface_hub, and /nonexistent/python cannot be run: install it (pip install "
                 "huggingface_hub), or name a Python that has it in $HYDRAC_PYTHON",
                 {{"HYDRAC_PYTHON", "/nonexistent/python"}});
  dataset(".size", "1000000000000000000");
  expect_refused("data.path=hf:owner/data", "takes 1000000000.0 GB, and the disk of ");
  fs::remove(place_ / "hub/datasets/owner/data/.size");
  dataset(".gated", "");
  expect_refused("data.path=hf:owner/data", "is gated: ask for access on http://");
  EXPECT_FALSE(fs::exists(place_ / "home/hub/datasets--owner--data/hydrac"));
}

TEST_F(Hub, ANameFollowsItsBranchOnceTheCacheDoes) {
  dataset("train.jsonl", json_lines(9));
  EXPECT_EQ(taken("hf:owner/data"), "train.jsonl");
  dataset("train-2.jsonl", json_lines(9));
  EXPECT_EQ(taken("hf:owner/data"), "train.jsonl");
  spill(place_ / "home/hub/datasets--owner--data/refs/main", std::string(40, '0'));
  EXPECT_EQ(taken("hf:owner/data"), "train-2.jsonl train.jsonl");
  fs::remove_all(place_ / "home/hub/datasets--owner--data/snapshots");
  EXPECT_EQ(taken("hf:owner/data"), "train-2.jsonl train.jsonl");
}

}  // namespace
}  // namespace hydrac::e2e
