// The two ways in which a run can end early. Both carry a message for the user that says what to change.
#pragma once
#include <stdexcept>

namespace hydrac::runtime {

// The user's files or options are unusable (unreadable data, truncated tokenizer, ...): exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The run itself failed (disk full, loss became NaN, ...): exit code 3.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hydrac::runtime
