#include "runtime/app/exit_code.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "runtime/error.h"

namespace hydrac::runtime {

int exit_code_of(std::string_view program, const std::function<int()>& work) {
  try {
    return work();
  } catch (const InputError& error) {
    fmt::print(stderr, "{}: error: {}\n", program, error.what());
    return kExitBadInput;
  } catch (const RunError& error) {
    fmt::print(stderr, "{}: the run failed: {}\n", program, error.what());
    return kExitRunFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: internal error, please report it with the spec: {}\n", program, error.what());
    return kExitRunFailed;
  }
}

}  // namespace hydrac::runtime
