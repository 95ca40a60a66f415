#include "emit/folder/readme.h"

#include <fmt/format.h>

#include "emit/folder/build_files.h"
#include "emit/folder/manifest.h"
#include "emit/kernels/owned_kernels.h"
#include "emit/on_cpu.h"
#include "emit/source_file.h"
#include "runtime/base/quote.h"
#include "targets/executable/program_layout.h"

namespace hydrac::emit {

namespace {

// {6}: what else a GPU's program has; {7}, {8}: of several ranks, what starts the test, and how a run starts
// (kRanks); {0}: the spec's file, {1}: the command line's overrides, each after a
// space, both quoted for a shell, {2}: what compiles it, {3}: the data.
constexpr const char* kReadme = R"(
One optimizer step is `forward.cpp`, `backward.cpp` and `optimizer.cpp`, each a list of calls from top to bottom. `memory.h` has one field for each tensor,
`kernels/` the kernels under their formulas, `dims.h` the sizes that comments name by letters, `hyper.h` the spec's numbers that kernels compute with, `PLAN.md` the flop, bytes and floor of every call.

## Build

CMake 3.25, {2} and hydrac's runtime are needed. The runtime is a CMake package (`hydrac-runtime`), or comes along in `runtime/` with `hydrac emit --vendor-runtime`.

    cmake -S . -B build && cmake --build build --parallel

`-DSANITIZE=ON` adds the sanitizers of the host compiler. `cmake --install build` installs `train`, `libtrain.so` and `train.h`.

## Test

    ctest --test-dir build --output-on-failure
    {7}build/smoke_test --record test/expected.txt

The test takes three steps on fixed random numbers. The second command keeps the losses, the gradient norms and, of every tensor, the first gradient's norm and a
checksum; from then on the test compares with them.

## Run

    build/train --data {3} --output runs/first
    build/train --data {3} --output runs/first --resume
    build/train --data {3} --output runs/smoke --steps 2 --check-kernels

The last one looks for infinities after every call and names the kernel, tensor and key of the spec. `build/train --help` lists the options{6}.
{8}
`build/libtrain.so` has the same program for a loop of your own, in C, C++ or any language that calls C: `train.h` says how.

## Regenerate

    hydrac emit {0} -o FOLDER{1}
    hydrac diff {0} FOLDER{1}

The second command exits with 1 where the folder is not what the spec asks for: a check for pull requests. Change the spec, not the files: `{4}` has a hash of each
file, and `hydrac emit` refuses to overwrite an edited one without `--force`. On a merge conflict in this folder, merge the spec and run
`hydrac emit ... --force`.

A team can own a kernel: a file under `kernels/` with the line `{5}` is left as it is. hydrac checks that it still defines the functions that the
program calls (`kernels/kernels.h`), with the same types of parameters. It follows the spec where it names the constants of `dims.h` and `hyper.h`.
`hydrac emit ... --hooks` adds `hooks.h` and a file of the team's own functions that a step calls, with tensors by name and metrics of their own.

The kernels' text derives from hydrac's templates, which are licensed under Apache-2.0.
)";

// For a program of several ranks. {0}: how many, {1}: the data, {2}: what each does.
constexpr const char* kRanks = R"(
A run has {0} ranks, processes that each {2}. `build/train` starts the others itself; torchrun, mpirun or
srun may do it instead:

    torchrun --nproc-per-node {0} --no-python build/train --data {1} --output runs/first
    mpirun -np {0} build/train --data {1} --output runs/first
    srun -n {0} build/train --data {1} --output runs/first

They do so on several machines too (torchrun --nnodes, srun -N). Rank 0 has the console and the run's folder; the others write `rank-1.log` and so on there. A loop of your own over `train.h` is started
by a launcher only: `test/ranks.sh`, which the test uses, is the simplest.
)";

// For a program whose replies are rewarded.
constexpr const char* kRewards = R"(
A program of yours says what replies are worth: it reads prompts and replies as lines of JSON and prints a number for each reply. Every run needs it, a word of
its command each time: `--reward python3 --reward reward.py`.
)";

// For a program with an encoder of replies.
constexpr const char* kEncoder = R"(
Replies are embedded by an encoder of sentences. A run reads its tokenizer and weights from the folder that `settings.cpp` names, or from another one: `--embed DIR`. Its JSON files must say what
`settings.cpp` lists.
)";

// A word that a shell would take for an option is named as a file.
std::string spec_word(const std::string& file) {
  return runtime::shell_quoted(file.starts_with('-') ? "./" + file : file);
}

std::string override_words(const Origin& origin) {
  std::string words;
  for (const std::string& override : origin.overrides) words += " " + runtime::shell_quoted(override);
  return words;
}

std::string work_of_rank(const spec::Spec& spec) {
  const int64_t sharing = spec.parallel.tensor, groups = spec.parallel.data;
  const std::string share = "compute their share of a step and sum their gradients";
  if (sharing == 1) return share;
  const std::string parts = fmt::format("have 1/{} of every layer", sharing);
  return groups == 1 ? parts : fmt::format("{}; {} groups of {} {}", parts, groups, sharing, share);
}

}  // namespace

std::string readme(const driver::Compiled& compiled, DataKind data, const Origin& origin) {
  const std::string files = data == DataKind::series   ? "series.csv"
                            : data == DataKind::shards ? "'shards/*.bin'"
                                                       : "text.txt";
  const int64_t ranks = spec::rank_count(compiled.spec);
  std::string run;  // what else there is to say of it
  if (compiled.spec.objective.name == spec::ObjectiveName::grpo) run += kRewards;
  if (spec::encoder_of_replies(compiled.spec)) run += kEncoder;
  if (ranks > 1) run += fmt::format(fmt::runtime(kRanks), ranks, files, work_of_rank(compiled.spec));
  std::string text = "<!-- " + provenance(origin, "") + "-->\n";
  text += fmt::format("# {}: a training program for {}\n\n{} parameters.\n", compiled.spec.name,
                      compiled.spec.target == "cpu" ? "the CPU" : compiled.spec.target,
                      targets::parameter_count(compiled));
  return text + fmt::format(fmt::runtime(kReadme), spec_word(origin.spec), override_words(origin),
                            on_cpu(compiled) ? "g++ or Clang" : "the CUDA toolkit", files, kManifestFile,
                            kKeepLine,
                            on_cpu(compiled) ? "" : ", such as `--no-graph` for debuggers and profilers",
                            ranks > 1 ? fmt::format("sh {} {} ", kRanksScript, ranks) : "", run);
}

std::string git_attributes(const Origin& origin) {
  return provenance(origin, "# ") + "* linguist-generated=true\ncalls.inc -diff\nidentity.inc -diff\n" +
         std::string(kManifestFile) + " -diff\n";
}

std::string clang_format(const Origin& origin) {
  return provenance(origin, "# ") + R"(BasedOnStyle: Google
ColumnLimit: 110
DerivePointerAlignment: false
PointerAlignment: Left
AllowShortFunctionsOnASingleLine: Inline
MaxEmptyLinesToKeep: 1
BreakStringLiterals: false
SortIncludes: Never
)";
}

}  // namespace hydrac::emit
