// What a spec makes: text that differs where two specs make something different. None of it is the spec's own
// text.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace hydrac::test {

// The folder that the specs of these tests are loaded in: corpora, and files that keys may name. Working
// folder as long as it lives.
class Bench {
 public:
  Bench();
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

 private:
  std::string folder_, before_;
};

enum class Shows {
  program,  // kernels, calls, memory, and the values that memory starts with
  batches,  // the tokenizer's vocabulary, training batches of two epochs, validation batches, files that were
            // written
  emitted,  // the source code of the program, without what it says of the spec
  run,      // the files of a training run (of a fake program), its metrics, configuration and sample
  tuning,   // what `hydrac tune` tries apart, because it rounds in another way
  generation,  // as program: that which generates text with a cache
  refusal,     // what is wrong with the spec
};

// Of the spec `yaml` with overrides, in a Bench of its own. Throws where the spec is refused and `shows` says
// otherwise.
std::string evidence(Shows shows, const std::string& yaml, const std::vector<std::string>& overrides);

// The spec as it is printed, and as it is printed once it was loaded from that text; in a Bench likewise.
std::pair<std::string, std::string> printed(const std::string& yaml,
                                            const std::vector<std::string>& overrides);

}  // namespace hydrac::test
