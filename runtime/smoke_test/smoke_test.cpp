// The test of an emitted program: a few optimizer steps on random numbers that are always the same.
//   smoke_test [EXPECTED]            compares losses, norms and every tensor's gradient with the file
//   smoke_test --record EXPECTED     writes the file
// Another machine, library or version of hydrac may differ in the last bits, which the tolerances allow.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "runtime/c_interface/train.h"

namespace {

constexpr int kSteps = 3;
constexpr double kTolerance = 2e-3;  // of losses and norms; sums in bf16 in another order are closer
// Tolerances of a tensor's gradient: a share of its norm, and of the norm of all. The latter is for gradients
// that are zero except for rounding, such as that of a bias that is added to all keys.
constexpr double kOfTensor = 2e-2, kOfAll = 1e-3;

// Recorded numbers, by name: "loss 1", "gradient transformer.wte.weight norm".
using Numbers = std::map<std::string, double>;

int failures = 0;

void expect(bool fine, const std::string& what) {
  if (fine) return;
  std::fprintf(stderr, "failed: %s%s%s\n", what.c_str(), *train_error() != 0 ? ": " : "", train_error());
  ++failures;
}

// Knuth's 64-bit congruential generator; the upper bits.
class Random {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }

 private:
  std::uint64_t state_ = 1;
};

struct Data {
  std::vector<std::int32_t> tokens, targets, documents, positions;
  std::vector<float> features, float_targets;

  explicit Data(const train_sizes& sizes) {
    Random random;
    const std::int64_t all = sizes.micro_batches * sizes.sequences * sizes.positions;
    const auto kinds = static_cast<std::uint32_t>(sizes.vocabulary > 0 ? sizes.vocabulary : 2);
    for (std::int64_t i = 0; i < all; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random.next() % kinds));
      targets.push_back(static_cast<std::int32_t>(random.next() % kinds));
      documents.insert(documents.end(), {0, static_cast<std::int32_t>(sizes.positions)});
      positions.push_back(static_cast<std::int32_t>(i % sizes.positions));
    }
    const auto number = [&] { return static_cast<float>(random.next() % 2001) / 1000.0f - 1.0f; };
    for (std::int64_t i = 0; i < all * sizes.features; ++i) features.push_back(number());
    for (std::int64_t i = 0; i < all * sizes.outputs; ++i) float_targets.push_back(number());
  }

  train_batch batch() const {
    return {tokens.data(),        targets.data(),   features.data(),
            float_targets.data(), documents.data(), positions.data()};
  }
};

std::vector<float> zeros_like(train_program* program, const std::string& name) {
  return std::vector<float>(static_cast<std::size_t>(train_tensor_elements(program, name.c_str())));
}

std::vector<float> read_tensor(train_program* program, const std::string& name) {
  std::vector<float> values = zeros_like(program, name);
  const auto elements = static_cast<std::int64_t>(values.size());
  expect(train_read_tensor(program, name.c_str(), values.data(), elements) == 0, "reading " + name);
  return values;
}

// The first one of which this rank has all: of others ranks have parts.
std::string readable_tensor(train_program* program) {
  std::string name;
  for (std::int64_t i = 0; i < train_tensor_count(program); ++i) {
    name = train_tensor_name(program, i);
    std::vector<float> values = zeros_like(program, name);
    const auto elements = static_cast<std::int64_t>(values.size());
    if (train_read_tensor(program, name.c_str(), values.data(), elements) == 0) break;
  }
  return name;
}

// The norm of each tensor's gradient, and its sum with random signs, which shows elements that changed
// places.
void add_gradients(train_program* program, Numbers& numbers) {
  Random random;
  for (std::int64_t i = 0; i < train_tensor_count(program); ++i) {
    const std::string name = train_tensor_name(program, i);
    std::vector<float> gradient = zeros_like(program, name);
    const auto elements = static_cast<std::int64_t>(gradient.size());
    if (train_read_gradient(program, name.c_str(), gradient.data(), elements) != 0) continue;  // it is frozen
    double squares = 0, sum = 0;
    for (const float value : gradient) {
      const auto x = static_cast<double>(value);
      squares += x * x;
      sum += random.next() % 2 == 0 ? x : -x;
    }
    expect(std::isfinite(squares), "a finite gradient of " + name);
    numbers["gradient " + name + " norm"] = std::sqrt(squares);
    numbers["gradient " + name + " signed_sum"] = sum;
  }
}

void take_steps(train_program* program, const train_batch& batch, Numbers& numbers) {
  for (int step = 1; step <= kSteps; ++step) {
    train_result result = {};
    if (step == 1) {
      expect(train_backward(program, &batch) == 0, "a backward pass");
      add_gradients(program, numbers);
      expect(train_update(program, &result) == 0, "an update");
    } else {
      expect(train_step(program, &batch, &result) == 0, "a step");
    }
    expect(std::isfinite(result.loss) && std::isfinite(result.grad_norm) && result.grad_norm > 0,
           "finite losses and gradients");
    numbers["loss " + std::to_string(step)] = static_cast<double>(result.loss);
    numbers["norm " + std::to_string(step)] = static_cast<double>(result.grad_norm);
    std::printf("step %d loss %.9g grad_norm %.9g\n", step, static_cast<double>(result.loss),
                static_cast<double>(result.grad_norm));
  }
}

// Each line is a name, a tab and a number.
Numbers read_numbers(std::ifstream& file) {
  Numbers numbers;
  std::string name, number;
  while (std::getline(file, name, '\t') && std::getline(file, number))
    numbers[name] = std::strtod(number.c_str(), nullptr);
  return numbers;
}

double tolerance(const std::string& name, const Numbers& expected) {
  if (!name.starts_with("gradient ")) return kTolerance * std::fabs(expected.at(name));
  const auto norm = expected.find(name.substr(0, name.rfind(' ')) + " norm"), all = expected.find("norm 1");
  return (norm == expected.end() ? 0 : kOfTensor * norm->second) +
         (all == expected.end() ? 0 : kOfAll * all->second);
}

void compare(const Numbers& numbers, const std::string& path) {
  std::ifstream file(path);
  if (!file) return;  // nothing was recorded
  const Numbers expected = read_numbers(file);
  for (const auto& [name, number] : numbers) {
    if (!expected.contains(name)) expect(false, path + " lacks " + name + ": record it anew");
  }
  for (const auto& [name, wanted] : expected) {
    const auto found = numbers.find(name);
    if (found == numbers.end()) {
      expect(false, path + " has " + name + ", which the program lacks: record it anew");
      continue;
    }
    char text[100];
    std::snprintf(text, sizeof text, " is %.6g and was %.6g when it was recorded", found->second, wanted);
    expect(std::fabs(found->second - wanted) <= tolerance(name, expected), name + text);
  }
}

void record(const Numbers& numbers, const std::string& path) {
  std::error_code failed;  // shows below
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path(), failed);
  std::ofstream file(path);
  file.precision(9);
  for (const auto& [name, number] : numbers) file << name << '\t' << number << '\n';
  expect(static_cast<bool>(file.flush()), "writing " + path);
}

Numbers run(train_program* program, const train_sizes& sizes) {
  const Data data(sizes);
  const train_batch batch = data.batch();
  float loss = 0;
  expect(train_evaluate(program, &batch, &loss) == 0 && std::isfinite(loss), "a finite loss before training");

  Numbers numbers;
  const std::string name = readable_tensor(program);
  const std::vector<float> before = read_tensor(program, name);
  take_steps(program, batch, numbers);
  expect(read_tensor(program, name) != before, "steps change " + name);
  const auto elements = static_cast<std::int64_t>(before.size());
  expect(train_write_tensor(program, name.c_str(), before.data(), elements) == 0 &&
             read_tensor(program, name) == before,
         "what is written is read again");
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  const bool records = argc == 3 && std::strcmp(argv[1], "--record") == 0;
  train_program* program = train_create();
  expect(program != nullptr, "creating the program");
  if (program != nullptr) {
    train_sizes sizes = {};
    expect(train_get_sizes(program, &sizes) == 0, "sizes");
    const Numbers numbers = run(program, sizes);
    if (argc > 1 && sizes.rank == 0) records ? record(numbers, argv[2]) : compare(numbers, argv[1]);
  }
  train_destroy(program);
  if (failures == 0) std::printf("fine\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
