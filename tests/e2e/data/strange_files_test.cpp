// Files that are not what they are taken for: pipes, links that lead elsewhere, other data under an old name,
// names and contents that a terminal or a shell would act on.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

void expect_refused(const Workplace& place, const Words& words, const std::string& why) {
  const Outcome outcome = place.run(words);
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
}

const std::string kSeries =
    "name: series\ntarget: cpu\n"
    "model: {input: series, head: regression, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 4, "
    "norm: layernorm, hidden_act: gelu, position: learned}\n"
    "data: {path: x.csv, target: [y], val_fraction: 0.1}\n"
    "train: {sequence_len: 16, micro_batch_size: 4, max_steps: 4, save_steps: 2, eval_steps: 0}\n"
    "optimizations: {threads: 1}\n";

// `slope` of the target.
std::string series_csv(int slope) {
  std::string csv = "a,y\n";
  for (int row = 0; row < 200; ++row)
    csv += std::to_string(row % 7) + "," + std::to_string(slope * (row % 7)) + "\n";
  return csv;
}

TEST(OtherData, OfASeriesIsNotResumedWith) {
  const Workplace place;
  spill(place / "series.yaml", kSeries);
  spill(place / "x.csv", series_csv(1));
  run_well(place, {"series.yaml", "-q"});
  spill(place / "x.csv", series_csv(-2));
  expect_refused(place, {"series.yaml", "-q", "--resume", "train.max_steps=6"}, "\n  data: \"200 rows, ");
}

TEST(OtherData, ToValidateWithIsNotResumedWith) {
  const Workplace place;
  spill(place / "val.txt", slurp(place / "corpus.txt"));
  const Words run = {"base.yaml", "-q", "data.val_path=val.txt", "data.val_fraction=0"};
  run_well(place, run);
  std::string text = slurp(place / "val.txt");
  text[text.size() / 2] = '#';
  spill(place / "val.txt", text);
  expect_refused(place, with(run, {"--resume"}), "\n  data.val_path, the files: \"");
}

TEST(APipe, IsRefusedInAFilesPlace) {
  const Workplace place;
  run_well(place, {"base.yaml", "-q"});
  fs::copy(place / "runs/base/checkpoint-12", place / "model");
  const auto put_pipe = [&](const fs::path& path) {
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  };
  put_pipe(place / "model/model.safetensors");
  expect_refused(place, {"base.yaml", "name=b", "model.weights=model"},
                 "cannot read model/model.safetensors: it is a pipe, no regular file");
  put_pipe(place / "runs/base/metrics.jsonl");
  expect_refused(place, {"base.yaml", "--resume", "train.max_steps=14"},
                 "runs/base/metrics.jsonl exists and belongs to no run");
}

TEST(ARunsFolder, IsNotWrittenThroughALink) {
  const Workplace place;
  run_well(place, {"base.yaml", "-q", "train.max_steps=2"});
  fs::rename(place / "runs/base/metrics.jsonl", place / "elsewhere");
  fs::create_symlink(place / "elsewhere", place / "runs/base/metrics.jsonl");
  const std::string before = slurp(place / "elsewhere");
  expect_refused(place, {"base.yaml", "--resume"}, "runs/base/metrics.jsonl exists and belongs to no run");
  EXPECT_EQ(slurp(place / "elsewhere"), before);
}

TEST(ARunsFolder, WithAFolderOfTheUsersUnderACheckpointsNameIsNotTrainedIn) {
  const Workplace place;
  run_well(place, {"base.yaml", "-q", "train.max_steps=2"});
  for (const char* name : {"checkpoint-best", "checkpoint-4"}) {
    const fs::path mine = place / "runs/base" / name;
    fs::create_directory(mine);
    spill(mine / "notes", "mine");
    const Words before = files_below(place / "runs");
    expect_refused(place, {"base.yaml", "--resume", "train.save_best=true"},
                   "runs/base/" + std::string(name) + " exists and belongs to no run");
    EXPECT_EQ(files_below(place / "runs"), before);
    fs::remove_all(mine);
  }
}

TEST(ALink, ToNothingIsNotLeftOutOfData) {
  const Workplace place;
  fs::create_directory(place / "texts");
  fs::copy_file(place / "corpus.txt", place / "texts/a.txt");
  fs::create_symlink("/nonexistent/b.txt", place / "texts/b.txt");
  const std::string why =
      "texts/b.txt is a link to /nonexistent/b.txt, which cannot be read: No such file or directory";
  expect_refused(place, {"data", "prepare", "texts", "-o", "out", "--tokenizer", "byte"},
                 why.substr(std::string("texts/").size()));
  expect_refused(place, {"base.yaml", "data.path=texts/*.txt"}, why);
  EXPECT_FALSE(fs::exists(place / "out"));
}

TEST(ALink, OutOfACheckpointIsNotCopied) {
  const Workplace place;
  run_well(place, {"base.yaml", "-q", "train.max_steps=2"});
  spill(place / "secret", "not for everybody");
  fs::create_symlink("../../../secret", place / "runs/base/checkpoint-2/chat_template.jinja");
  expect_refused(place, {"export", "runs/base", "-o", "out"}, "chat_template.jinja is a link that leads out");
  EXPECT_FALSE(fs::exists(place / "out"));
}

TEST(ALink, OfHuggingFacesCacheIsFollowedToItsBlobs) {
  const Workplace place;
  run_well(place, {"base.yaml", "-q", "train.max_steps=2"});
  const fs::path blobs = place / "models--a--b/blobs", snapshot = place / "models--a--b/snapshots/01ab";
  fs::create_directories(blobs);
  fs::create_directories(snapshot);
  spill(place / "runs/base/checkpoint-2/tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}) {
    fs::copy_file(place / "runs/base/checkpoint-2" / name, blobs / name);
    fs::create_symlink(fs::path("../../blobs") / name, snapshot / name);
  }
  spill(place / "tuned.yaml",
        "name: tuned\ntarget: cpu\nmodel: {from: models--a--b/snapshots/01ab}\n"
        "data: {path: corpus.txt, val_fraction: 0}\n"
        "train: {sequence_len: 16, micro_batch_size: 2, max_steps: 1}\noptimizations: {threads: 1}\n");
  run_well(place, {"tuned.yaml", "-q"});
  const std::string written = slurp(place / "runs/tuned/checkpoint-1/tokenizer_config.json");
  EXPECT_NE(written.find("{{ messages }}"), std::string::npos) << written;
  fs::remove(snapshot / "tokenizer_config.json");
  fs::create_symlink("../../../corpus.txt", snapshot / "tokenizer_config.json");
  expect_refused(place, {"tuned.yaml", "-q"}, "tokenizer_config.json is a link that leads out of its folder");
}

TEST(ALink, InTheNameOfAnUnfinishedFolderIsNotEmptied) {
  const Workplace place;
  fs::create_directory(place / "mine");
  spill(place / "mine/text", "stays");
  fs::create_directory_symlink("mine", place / "out.hydrac-tmp");
  EXPECT_NE(place.run({"data", "prepare", "corpus.txt", "-o", "out", "--tokenizer", "byte"}).code, 0);
  EXPECT_EQ(slurp(place / "mine/text"), "stays");
}

TEST(TheTokenCache, IsNotPutWhereVersionControlIs) {
  const Workplace place;
  expect_refused(place, {"base.yaml", "data.cache_dir=.git/hooks"},
                 ".git/hooks is a part of .git, which belongs to version control; set data.cache_dir to "
                 "another folder");
  EXPECT_FALSE(fs::exists(place / ".git"));
}

TEST(Messages, HoldNothingThatATerminalActsOn) {
  const Workplace place;
  const std::string harmful = "\x1b[2J\x1b]0;owned\a\xc2\x9b";
  spill(place / "series.yaml", kSeries);
  spill(place / "x.csv", "a,y\n1,2\n" + harmful + "x,2\n");
  spill(place / "chat.jsonl", R"({"messages": [{"role": "\u001b[2J\u0007", "content": "x"}]})"
                              "\n");
  fs::create_directory(place / ("d" + harmful));
  const Words chat = {"data.path=chat.jsonl", "data.format=chat", "data.chat_template=chatml",
                      "data.tokenizer=byte"};
  for (const Words& words : std::vector<Words>{{"series.yaml"},
                                               with({"base.yaml"}, chat),
                                               {"report", "d" + harmful},
                                               {"check", harmful + ".yaml"},
                                               {harmful},
                                               {"base.yaml", "data.path=" + harmful}}) {
    const Outcome outcome = place.run(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    for (const char* bad : {"\x1b", "\a", "\xc2\x9b"})
      EXPECT_EQ((outcome.err + outcome.out).find(bad), std::string::npos) << outcome.err;
  }
}

TEST(Messages, AreCutWhereAFieldIsLong) {
  const Workplace place;
  spill(place / "series.yaml", kSeries);
  spill(place / "x.csv", "a,y\n1," + std::string(5'000'000, '7') + "\n");
  const Outcome outcome = place.run({"series.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_LT(outcome.err.size(), 1000u) << outcome.err.substr(0, 1000);
}

TEST(AnEmittedReadme, HasCommandsThatAShellRunsAsTheyWereMeant) {
  const Workplace place;
  const std::string spec = "a b; touch owned; $(touch owned) #.yaml";
  fs::copy_file(place / "base.yaml", place / spec);
  run_well(place, {"emit", spec, "-o", "program", "data.path=[corpus.txt, \"corpus.txt\"]"});
  std::istringstream readme(slurp(place / "program/README.md"));
  std::string line, command;
  while (std::getline(readme, line))
    if (line.starts_with("    hydrac diff ")) command = line;
  ASSERT_NE(command.find("FOLDER"), std::string::npos);
  command.replace(command.find("FOLDER"), 6, "program");
  const std::string shell = "cd '" + place.path().string() + "' && hydrac() { '" + hydrac_program() +
                            "' \"$@\"; } && " + command + " > said 2>&1";
  EXPECT_EQ(std::system(shell.c_str()), 0) << command << "\n" << slurp(place / "said");
  EXPECT_FALSE(fs::exists(place / "owned"));
}

}  // namespace
}  // namespace hydrac::e2e
