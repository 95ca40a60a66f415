// A training loop of one's own around a program that hydrac built, through its C interface (train.h):
//   hydrac build spec.yaml -o program
//   g++ -std=c++20 own_loop.cpp -Iprogram -Lprogram/build -ltrain -Wl,-rpath,$PWD/program/build -o own_loop
//   ./own_loop text.txt 100 runs/own
// The bytes of the file are the tokens, one window behind the other.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "train.h"

namespace {

void require(bool fine) {
  if (fine) return;
  std::fprintf(stderr, "own_loop: %s\n", train_error());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: own_loop TEXT STEPS FOLDER\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<unsigned char> text{std::istreambuf_iterator<char>(file), {}};
  train_program* program = train_create();
  require(program != nullptr);
  train_sizes sizes;
  require(train_get_sizes(program, &sizes) == 0);
  const size_t tokens = static_cast<size_t>(sizes.micro_batches * sizes.sequences * sizes.positions);
  const size_t rank = static_cast<size_t>(sizes.rank),
               tokens_of_all = static_cast<size_t>(sizes.ranks) * tokens;
  if (text.size() < tokens_of_all + 1) {
    std::fprintf(stderr, "own_loop: the text has fewer than the %zu bytes of a step\n", tokens_of_all + 1);
    return 2;
  }
  const size_t steps_of_text = (text.size() - 1) / tokens_of_all;
  for (size_t step = 0; step < std::strtoull(argv[2], nullptr, 10); ++step) {
    const unsigned char* from = text.data() + step % steps_of_text * tokens_of_all + rank * tokens;
    const std::vector<int32_t> inputs(from, from + tokens), targets(from + 1, from + tokens + 1);
    train_batch batch = {};
    batch.tokens = inputs.data();
    batch.targets = targets.data();
    train_result result;
    require(train_step(program, &batch, &result) == 0);
    std::printf("step %zu loss %.9g grad_norm %.9g\n", step + 1, static_cast<double>(result.loss),
                static_cast<double>(result.grad_norm));
  }
  for (int64_t i = 0; i < train_tensor_count(program); ++i) {
    const char* name = train_tensor_name(program, i);
    std::vector<float> values(static_cast<size_t>(train_tensor_elements(program, name)));
    require(train_read_tensor(program, name, values.data(), static_cast<int64_t>(values.size())) == 0);
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    std::printf("%s %zu elements, sum of squares %.9g\n", name, values.size(), squares);
  }
  require(train_save(program, argv[3]) == 0);
  train_destroy(program);
}
