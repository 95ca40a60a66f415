#include "tests/unit/support/source_dir.h"

namespace hydrac::test {

std::string source_dir() {
  return HYDRAC_SOURCE_DIR;
}

}  // namespace hydrac::test
