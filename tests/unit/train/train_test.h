// What the training loop's tests share: options of a small run, a run of it, and what it leaves behind.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "fake_program.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/error.h"
#include "runtime/log/metrics.h"
#include "runtime/train/train.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {

// What a run prints, as it stands in a file.
class Printed {
 public:
  Printed() : file_(std::tmpfile()) {}
  ~Printed() { std::fclose(file_); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  std::FILE* file() const { return file_; }
  std::string text() const {
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file_), text.size());
    return text;
  }

 private:
  std::FILE* file_;
};

// 12 steps of 3 micro-batches; evaluated every 4, saved every 5, logged every 2 steps.
inline TrainOptions small_run(const std::filesystem::path& run_dir) {
  TrainOptions options;
  options.run_dir = run_dir;
  options.max_steps = 12;
  options.gradient_accumulation_steps = 3;
  options.eval_steps = 4;
  options.eval_batches = 2;
  options.save_steps = 5;
  options.log_steps = 2;
  options.spec_text = "name: fake\n";
  options.identity = {{"data.fingerprint", "0123"}, {"train.seed", "7"}};
  options.checkpoint_files = {{"config.json", "{}\n"}};
  options.quiet = true;
  return options;
}

inline TrainReport run(const TrainOptions& options, FakeProgram&& program = {}) {
  return train(program, std::make_shared<FakeLoader>(), options);
}

inline TrainReport resume(TrainOptions options, FakeProgram&& program = {}) {
  options.resume = Resume::required;
  return run(options, std::move(program));
}

inline std::vector<nlohmann::ordered_json> whole_records(const std::filesystem::path& run_dir) {
  std::vector<nlohmann::ordered_json> records;
  std::istringstream lines(test::slurp(run_dir / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::ordered_json::parse(line));
  return records;
}

// The records of metrics.jsonl without what depends on time.
inline std::vector<nlohmann::ordered_json> records(const std::filesystem::path& run_dir) {
  std::vector<nlohmann::ordered_json> records = whole_records(run_dir);
  for (nlohmann::ordered_json& record : records) {
    for (const MetricField& field : metric_fields()) {
      if (field.is_timing) record.erase(field.key);
    }
  }
  return records;
}

// File name -> contents of a checkpoint.
inline std::map<std::string, std::string> checkpoint_contents(const std::filesystem::path& run_dir,
                                                              int64_t step) {
  std::map<std::string, std::string> files;
  const std::filesystem::path dir = checkpoint_path(run_dir, step);
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    files[entry.path().filename().string()] = test::slurp(entry.path());
  }
  return files;
}

// Sorted names of what is in `dir`.
inline std::vector<std::string> names_in(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline void expect_same_end(const std::filesystem::path& one, const std::filesystem::path& other,
                            int64_t step = 12) {
  EXPECT_EQ(records(one), records(other));
  EXPECT_EQ(checkpoint_contents(one, step), checkpoint_contents(other, step));
}

}  // namespace hydrac::runtime
