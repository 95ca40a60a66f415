// Takes a few optimizer steps on random numbers that are always the same and looks at what comes out.
//   smoke_test [EXPECTED]            losses and gradient norms must be those of the file, where there is one
//   smoke_test --record EXPECTED     writes the file
// Another machine, library or version of hydrac may differ in the last bits, which the tolerance allows.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "train.h"

namespace {

constexpr int kSteps = 3;
constexpr double kTolerance = 2e-3;  // of what is expected; sums in bf16 in another order are closer

int failures = 0;

void expect(bool fine, const std::string& what) {
  if (fine) return;
  std::fprintf(stderr, "failed: %s%s%s\n", what.c_str(), *train_error() != 0 ? ": " : "", train_error());
  ++failures;
}

// Knuth's 64-bit congruential generator; the upper bits.
std::uint32_t next_random() {
  static std::uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<std::uint32_t>(state >> 33);
}

struct Data {
  std::vector<std::int32_t> tokens, targets, documents, positions;
  std::vector<float> features, float_targets;

  explicit Data(const train_sizes& sizes) {
    const std::int64_t all = sizes.micro_batches * sizes.sequences * sizes.positions;
    const auto kinds = static_cast<std::uint32_t>(sizes.vocabulary > 0 ? sizes.vocabulary : 2);
    for (std::int64_t i = 0; i < all; ++i) {
      tokens.push_back(static_cast<std::int32_t>(next_random() % kinds));
      targets.push_back(static_cast<std::int32_t>(next_random() % kinds));
      documents.insert(documents.end(), {0, static_cast<std::int32_t>(sizes.positions)});
      positions.push_back(static_cast<std::int32_t>(i % sizes.positions));
    }
    const auto number = [] { return static_cast<float>(next_random() % 2001) / 1000.0f - 1.0f; };
    for (std::int64_t i = 0; i < all * sizes.features; ++i) features.push_back(number());
    for (std::int64_t i = 0; i < all * sizes.outputs; ++i) float_targets.push_back(number());
  }

  train_batch batch() const {
    return {tokens.data(),        targets.data(),   features.data(),
            float_targets.data(), documents.data(), positions.data()};
  }
};

bool is_near(double value, double expected) {
  return std::fabs(value - expected) <= kTolerance * std::fabs(expected);
}

void compare(const std::vector<train_result>& results, const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return;  // nothing was recorded
  for (const train_result& result : results) {
    double loss = 0, norm = 0;
    expect(std::fscanf(file, "%lf %lf", &loss, &norm) == 2, std::string(path) + " has a line for each step");
    char text[200];
    std::snprintf(text, sizeof text, "loss %.6g is near %.6g, the gradients' norm %.6g near %.6g",
                  static_cast<double>(result.loss), loss, static_cast<double>(result.grad_norm), norm);
    expect(is_near(static_cast<double>(result.loss), loss) &&
               is_near(static_cast<double>(result.grad_norm), norm),
           text);
  }
  std::fclose(file);
}

void record(const std::vector<train_result>& results, const char* path) {
  std::FILE* file = std::fopen(path, "w");
  expect(file != nullptr, std::string("writing ") + path);
  if (file == nullptr) return;
  for (const train_result& result : results)
    std::fprintf(file, "%.9g %.9g\n", static_cast<double>(result.loss),
                 static_cast<double>(result.grad_norm));
  std::fclose(file);
}

void run(train_program* program, const char* expected, bool records) {
  train_sizes sizes;
  expect(train_get_sizes(program, &sizes) == 0, "sizes");
  const Data data(sizes);
  const train_batch batch = data.batch();
  float loss = 0;
  expect(train_evaluate(program, &batch, &loss) == 0 && std::isfinite(loss), "a finite loss before training");
  if (sizes.vocabulary > 0)
    expect(std::fabs(loss - std::log(static_cast<float>(sizes.vocabulary))) < 1.0f,
           "the loss of a language model that knows nothing is near the logarithm of its vocabulary");

  const std::string name = train_tensor_name(program, 0);
  std::vector<float> before(static_cast<std::size_t>(train_tensor_elements(program, name.c_str()))),
      after = before;
  const auto elements = static_cast<std::int64_t>(before.size());
  expect(train_read_tensor(program, name.c_str(), before.data(), elements) == 0, "reading a tensor");
  std::vector<train_result> results;
  for (int step = 0; step < kSteps; ++step) {
    train_result result = {};
    expect(train_step(program, &batch, &result) == 0, "a step");
    expect(std::isfinite(result.loss) && std::isfinite(result.grad_norm) && result.grad_norm > 0,
           "finite losses and gradients");
    std::printf("step %d loss %.9g grad_norm %.9g\n", step + 1, static_cast<double>(result.loss),
                static_cast<double>(result.grad_norm));
    results.push_back(result);
  }
  expect(train_read_tensor(program, name.c_str(), after.data(), elements) == 0 && before != after,
         "steps change " + name);
  expect(train_write_tensor(program, name.c_str(), before.data(), elements) == 0 &&
             train_read_tensor(program, name.c_str(), after.data(), elements) == 0 && before == after,
         "what is written is read again");
  if (expected != nullptr) records ? record(results, expected) : compare(results, expected);
}

}  // namespace

int main(int argc, char** argv) {
  const bool records = argc == 3 && std::strcmp(argv[1], "--record") == 0;
  train_program* program = train_create();
  expect(program != nullptr, "creating the program");
  if (program != nullptr) run(program, argc > 1 ? argv[argc - 1] : nullptr, records);
  train_destroy(program);
  if (failures == 0) std::printf("fine\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
