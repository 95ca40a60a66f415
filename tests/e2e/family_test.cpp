// Every family against transformers' numbers, where it is not installed: loss, gradients and logits of models
// whose weights are a formula. family_fixtures.py writes what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using Json = nlohmann::json;
using Values = std::vector<float>;

constexpr const char* kText = "it's the quick brown fox, 0123";  // 30 tokens of the byte tokenizer

fs::path cases() {
  return fs::path(test::source_dir()) / "tests/cases/families";
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cases())) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

// An element of a tensor, between -1/2 and 1/2 and exact in 21 bits.
float element(std::string_view name, uint32_t index) {
  uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  h ^= index * 2654435761u;
  h = (h ^ h >> 16) * 0x85EBCA6Bu;
  h = (h ^ h >> 13) * 0xC2B2AE35u;
  h ^= h >> 16;
  return std::ldexp(static_cast<float>(h >> 12), -20) - 0.5f;
}

Values weights(const std::string& name, const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  // Norms multiply by it, or by 1 more.
  const float mean = shape.size() == 1 && name.ends_with("weight") ? 0.5f : 0;
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = mean + element(name, static_cast<uint32_t>(i)) / 2;
  return values;
}

// The model's folder, with the weights that it returns.
std::map<std::string, Values> write_model(const fs::path& folder, const Json& expected) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << expected["config"].dump();
  std::map<std::string, Values> all;
  std::vector<runtime::TensorToWrite> tensors;
  for (const auto& [name, shape] : expected["tensors"].items()) {
    const Values& values = all[name] = weights(name, shape);
    tensors.push_back(
        runtime::raw_tensor_to_write(name, runtime::SafetensorsDtype::f32, shape, values.data()));
  }
  runtime::FileWriter file(folder / "model.safetensors");
  runtime::write_safetensors(file, std::move(tensors));
  file.close_durably();
  return all;
}

// A step of SGD with rate 1 over the only sequence leaves weights minus gradients.
std::string spec_text() {
  return R"(name: step
target: cpu
model: {from: model, dropout: 0, attention_dropout: 0}
data: {path: text.txt, tokenizer: byte, val_fraction: 0}
train:
  sequence_len: 29
  micro_batch_size: 1
  max_steps: 1
  max_grad_norm: 0
  lr_scheduler: {name: constant}
  optimizer: {name: sgd, learning_rate: 1, momentum: 0}
optimizations: {threads: 1}
sample: {max_new_tokens: 0}
)";
}

void expect_close(double ours, double theirs, double scale, const std::string& what) {
  EXPECT_NEAR(ours, theirs, 1e-5 * std::max(1.0, scale)) << what;
}

class Families : public testing::TestWithParam<std::string> {
 protected:
  void expect_gradients(const std::map<std::string, Values>& before, const Json& expected) const {
    const runtime::SafetensorsReader after(place_ / "runs/step/checkpoint-1/model.safetensors");
    for (const auto& [name, theirs] : expected["gradients"].items()) {
      const Values& values = before.at(name);
      constexpr std::string_view kTextPart = "language_model.";
      const size_t prefix = name.starts_with(kTextPart) ? kTextPart.size() : 0;
      const runtime::TensorEntry* tensor = after.find(name.substr(prefix));
      ASSERT_NE(tensor, nullptr) << "the checkpoint has no " << name;
      EXPECT_EQ(Json(tensor->shape), expected["tensors"][name]) << name;
      Values stepped(values.size());
      ASSERT_EQ(after.bytes(*tensor).size(), stepped.size() * sizeof(float)) << name;
      std::memcpy(stepped.data(), after.bytes(*tensor).data(), stepped.size() * sizeof(float));
      double squares = 0, along = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const double gradient = static_cast<double>(values[i]) - stepped[i];
        squares += gradient * gradient;
        along += gradient * element(name, static_cast<uint32_t>(i));
      }
      const double norm = theirs[0];
      expect_close(std::sqrt(squares), norm, norm, name + "'s gradient");
      expect_close(along, theirs[1], norm, name + "'s gradient");
    }
  }

  Workplace place_;
};

TEST_P(Families, ComputeWhatTransformersDoes) {
  const Json expected = Json::parse(std::ifstream(cases() / (GetParam() + ".json")));
  const std::map<std::string, Values> before = write_model(place_ / "model", expected);
  std::ofstream(place_ / "text.txt") << kText;
  std::ofstream(place_ / "step.yaml") << spec_text();
  run_well(place_, {"run", "-q", "step.yaml"});
  const double loss = expected["loss"];
  expect_close(records_of(place_ / "runs/step")[0]["loss"], loss, loss, "loss");
  expect_gradients(before, expected);

  const Outcome sampled = place_.run({"sample", "model", "--logits", "--threads", "1", "--prompt",
                                      std::string(kText).substr(0, 29), "data.tokenizer=byte"});
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  const Values logits = Json::parse(sampled.out)["logits"], theirs = expected["logits"];
  const double greatest = std::abs(std::ranges::max(theirs, {}, [](float logit) { return std::abs(logit); }));
  for (size_t i = 0; i < theirs.size(); ++i) expect_close(logits[16 * i], theirs[i], greatest, "a logit");
}

TEST(FamilyCases, AreOfAllFamilies) {
  std::set<std::string> types;
  for (const std::string& name : case_names()) {
    const Json config = Json::parse(std::ifstream(cases() / (name + ".json")))["config"];
    types.insert(config.contains("text_config") ? config["text_config"]["model_type"] : config["model_type"]);
  }
  std::istringstream lines(Workplace().run({"models"}).out);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.starts_with("| model_type") || line.starts_with("| ---")) continue;
    const std::string type = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_TRUE(types.contains(type)) << "family_fixtures.py has no model of " << type;
    ++count;
  }
  EXPECT_EQ(count, types.size());
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(case_names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace hydrac::e2e
