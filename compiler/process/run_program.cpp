#include "process/run_program.h"

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace hydrac {

Ended run_program(std::vector<std::string> words, Says says) {
  runtime::ChildSetup setup{.input = STDIN_FILENO};
  if (says == Says::only_errors) setup.output = runtime::kNowhere;
  if (says == Says::to_caller || says == Says::all_to_caller) setup.output = runtime::kPipe;
  if (says == Says::all_to_caller) setup.errors = runtime::kPipe;
  runtime::ChildProcess child(words, setup);
  const int error = child.error();
  if (error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE)
    throw runtime::RunError("cannot start " + words[0] + ": " + std::strerror(error));
  if (error != 0) return {{.code = 127}, std::strerror(error)};
  std::string said = child.output() < 0 ? "" : runtime::read_to_end(child.output());
  return {child.wait(), std::move(said)};
}

}  // namespace hydrac
