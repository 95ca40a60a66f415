// A libcudnn.so.9 that has nothing but a version.
#include <cstddef>

extern "C" std::size_t cudnnGetVersion() {
  return 91400;
}
