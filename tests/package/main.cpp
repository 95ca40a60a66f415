// An emitted program's main, outside hydrac's own build: what the package must be enough for.
#include "runtime/app/train_main.h"
#include "runtime/cpu/idle_threads.h"
#include "tiny_program.h"
#ifdef TINY_TEXT
#include "runtime/text/text_corpus.h"
constexpr auto kOpenCorpus = hydrac::runtime::open_text;
#else
constexpr auto kOpenCorpus = hydrac::runtime::open_shards;
#endif

using namespace hydrac;

int main(int argc, char** argv) {
  runtime::let_idle_threads_sleep(argv);
  runtime::TrainSettings settings;
  settings.name = "tiny";
  settings.train.run_dir = "runs/tiny";
  settings.train.max_steps = 4;
  settings.data.path = {"tokens.bin"};
  settings.data.tokenizer = "byte";
  settings.data.sizes.vocab_size = test::kV;
  settings.data.batch_size = test::kB;
  settings.data.sequence_len = test::kT;
  return runtime::train_main(argc, argv, settings, kOpenCorpus, [](const runtime::RecordedChoices&) {
    return std::make_unique<test::TinyProgram>();
  });
}
