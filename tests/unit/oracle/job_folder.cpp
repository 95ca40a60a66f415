#include "job_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "oracle/job/safetensors.h"

namespace hydrac::oracle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

json fixed_slot(int id, int offset) {
  return {{"value", id}, {"slot", "fixed"}, {"offset", offset}};
}
json layer_slot(int id, int offset) {
  return {{"value", id}, {"slot", "layer"}, {"offset", offset}};
}

Numbers wavy(std::size_t count, double seed) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double large = std::sin(seed * 12.9898 + static_cast<double>(i) * 78.233) * 43758.5453;
    numbers[i] = 2 * (large - std::floor(large)) - 1;
  }
  return numbers;
}

const Numbers& Outcome::at(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) throw std::runtime_error(fmt::format("no result \"{}\"; stderr: {}", name, err));
  return found->second;
}

JobFolder::JobFolder() {
  std::string pattern = (fs::temp_directory_path() / "oracle-job-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  path_ = pattern;
  json_ = {{"dtype", "float64"},
           {"threads", 1},
           {"graph", {{"values", json::array()}, {"regions", json::array()}}},
           {"steps", 1},
           {"optimizer", {{"name", "sgd"}, {"learning_rate", 0.1}, {"momentum", 0.0}}},
           {"lr_scheduler", {{"name", "constant"}, {"max_steps", 10}}},
           {"seed", 1337}};
  region("main");
}

JobFolder::~JobFolder() {
  fs::remove_all(path_);
}

int JobFolder::value(const std::string& name, const Shape& shape, const std::string& role,
                     const std::string& dtype, int slots) {
  json& values = json_["graph"]["values"];
  const int id = static_cast<int>(values.size());
  values.push_back(
      {{"id", id}, {"name", name}, {"dtype", dtype}, {"shape", shape}, {"slots", slots}, {"role", role}});
  shapes_[id] = shape;
  return id;
}

int JobFolder::parameter(const std::string& name, const Shape& shape, const Numbers& data, int slots) {
  const std::size_t each = data.size() / slots;
  for (int slot = 0; slot < slots; ++slot)
    floats_[fmt::format("{}.{}", name, slot)] = {
        shape, Numbers(data.begin() + each * slot, data.begin() + each * (slot + 1))};
  return value(name, shape, "parameter", "f32", slots);
}

int JobFolder::input(const std::string& name, const Shape& shape, const Numbers& data) {
  const int id = value(name, shape, "input");
  input_at(id, 0, 0, data);
  return id;
}

int JobFolder::integer_input(const std::string& name, const Shape& shape, const std::vector<int>& data) {
  integers_[name + ".s0.m0"] = {shape, data};
  return value(name, shape, "input", "i32");
}

int JobFolder::activation(const std::string& name, const Shape& shape, int slots) {
  return value(name, shape, "activation", "f32", slots);
}

void JobFolder::input_at(int id, int step, int micro, const Numbers& data) {
  const std::string name = json_["graph"]["values"][id]["name"];
  floats_[fmt::format("{}.s{}.m{}", name, step, micro)] = {shapes_.at(id), data};
}

void JobFolder::region(const std::string& name, int layers) {
  json_["graph"]["regions"].push_back({{"name", name}, {"layers", layers}, {"nodes", json::array()}});
}

void JobFolder::raw_node(const json& node) {
  json_["graph"]["regions"].back()["nodes"].push_back(node);
}

int JobFolder::node(const std::string& op, const json& attrs, const std::vector<int>& inputs,
                    const Shape& shape) {
  const int id = activation(fmt::format("{}_{}", op, json_["graph"]["values"].size()), shape);
  json refs = json::array();
  for (const int input : inputs) refs.push_back(input == kLeftOut ? json() : fixed_slot(input));
  raw_node({{"op", op}, {"attrs", attrs}, {"inputs", refs}, {"outputs", {fixed_slot(id)}}});
  return id;
}

void JobFolder::sum_as_loss(int id, double factor) {
  const int scale = input("loss_scale", {1}, {factor});
  for (int step = 0; step < 8; ++step)
    for (int micro = 0; micro < 4; ++micro) input_at(scale, step, micro, {factor});
  json_["loss"] = {{"value", node("mean_loss", json::object(), {id, scale}, {})}};
}

void JobFolder::write() const {
  std::ofstream(path_ / "job.json") << json_.dump();
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : floats_) writer.add(name, tensor.shape, tensor.data.data());
  for (const auto& [name, tensor] : integers_) writer.add(name, tensor.shape, tensor.data.data());
  writer.write(path_ / "tensors.safetensors");
}

Outcome JobFolder::run(const std::string& verb, const std::string& options) const {
  const fs::path out = path_ / "stdout", err = path_ / "stderr";
  const std::string command = fmt::format("'{}' {} '{}' {} > '{}' 2> '{}'", HYDRAC_ORACLE_PROGRAM, verb,
                                          path_.string(), options, out.string(), err.string());
  Outcome outcome;
  const int status = std::system(command.c_str());
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = read_text(out);
  outcome.err = read_text(err);
  if (fs::exists(path_ / "result.json")) outcome.status = json::parse(read_text(path_ / "result.json"));
  if (!fs::exists(path_ / "result.safetensors")) return outcome;
  const SafetensorsFile results(path_ / "result.safetensors");
  for (const auto& [name, view] : results.tensors()) {
    EXPECT_EQ(view.dtype, "F64") << name;
    Numbers& numbers = outcome.values[name];
    numbers.resize(view.bytes / sizeof(double));
    std::memcpy(numbers.data(), view.data, view.bytes);
    outcome.shapes[name] = view.shape;
  }
  return outcome;
}

Outcome JobFolder::write_and_run(const std::string& verb) const {
  write();
  return run(verb);
}

}  // namespace hydrac::oracle
