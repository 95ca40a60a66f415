#include "cli/generation/random_texts.h"

#include "runtime/data/hash.h"

namespace hydrac::cli {

std::vector<std::vector<int32_t>> random_prompts(int64_t count, int64_t tokens, int64_t vocabulary) {
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t t = 0; t < tokens; ++t)
      prompts[static_cast<size_t>(i)].push_back(static_cast<int32_t>(
          runtime::mix64(static_cast<uint64_t>(i * tokens + t)) % static_cast<uint64_t>(vocabulary)));
  }
  return prompts;
}

}  // namespace hydrac::cli
