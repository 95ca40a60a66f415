// Thrown when a job cannot be done: the message is what `result.json` and stderr say.
#pragma once
#include <stdexcept>

namespace hydrac::oracle {

struct JobError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hydrac::oracle
