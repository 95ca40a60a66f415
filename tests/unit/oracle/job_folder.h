// A small job, built value by value and node by node, written to a folder of its own and run.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hydrac::oracle {

using Shape = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
inline const nlohmann::json kNone = nlohmann::json::object();  // no attributes
constexpr int kLeftOut = -1;                                   // as the id of an input

// What a run of hydrac-oracle left behind.
struct Outcome {
  int exit_code = -1;
  std::string out, err;
  nlohmann::json status;                  // result.json; null when there is none
  std::map<std::string, Numbers> values;  // result.safetensors
  std::map<std::string, Shape> shapes;

  const Numbers& at(
      const std::string& name) const;  // fails with the outcome's error when there is no such tensor
  double scalar(const std::string& name) const { return at(name).at(0); }
};

class JobFolder {
 public:
  JobFolder();
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;

  // Each returns the value's id. `data` is one slot after the other; inputs are those of every step and
  // micro-batch.
  int parameter(const std::string& name, const Shape& shape, const Numbers& data, int slots = 1);
  int input(const std::string& name, const Shape& shape, const Numbers& data);
  int integer_input(const std::string& name, const Shape& shape, const std::vector<int>& data);
  int activation(const std::string& name, const Shape& shape, int slots = 1);
  int value(const std::string& name, const Shape& shape, const std::string& role,
            const std::string& dtype = "f32", int slots = 1);

  // Data of input `id` in one step and micro-batch alone.
  void input_at(int id, int step, int micro, const Numbers& data);

  void region(const std::string& name,
              int layers = 0);  // later nodes go there; at first there is region "main"

  // A node with one output of `shape`, all slots fixed at 0; returns the output's id.
  int node(const std::string& op, const nlohmann::json& attrs, const std::vector<int>& inputs,
           const Shape& shape);
  void raw_node(const nlohmann::json& node);

  // The loss: the sum of value `id`'s elements, times `factor`.
  void sum_as_loss(int id, double factor = 1);

  nlohmann::json& root() { return json_; }
  const std::filesystem::path& path() const { return path_; }
  Numbers& data(const std::string& tensor) { return floats_.at(tensor).data; }

  void write() const;
  // Of what is in the folder; `options` stand behind it on the command line.
  Outcome run(const std::string& verb = "verify", const std::string& options = "") const;
  Outcome write_and_run(const std::string& verb = "verify") const;

 private:
  template <class T>
  struct Tensor {
    Shape shape;
    std::vector<T> data;
  };

  std::filesystem::path path_;
  nlohmann::json json_;
  std::map<std::string, Tensor<double>> floats_;
  std::map<std::string, Tensor<std::int32_t>> integers_;
  std::map<int, Shape> shapes_;
};

nlohmann::json fixed_slot(int id, int offset = 0);
nlohmann::json layer_slot(int id, int offset = 0);

// `count` numbers between -1 and 1 that look random and are the same everywhere.
Numbers wavy(std::size_t count, double seed);

}  // namespace hydrac::oracle
