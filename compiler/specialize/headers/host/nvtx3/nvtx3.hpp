// NVTX, as far as emitted programs use it.
#pragma once

namespace nvtx3 {

struct message {
  explicit message(const char* text);
};
struct payload {
  explicit payload(int value);
};
struct scoped_range {
  explicit scoped_range(const message& name);
  scoped_range(const message& name, const payload& value);
  ~scoped_range();
};

}  // namespace nvtx3
