#include "runtime/program/layout.h"

#include <stdexcept>

namespace hydrac::runtime {

std::string_view to_string(Function function) {
  switch (function) {
    case Function::micro_step:
      return "micro_step";
    case Function::update:
      return "update";
    case Function::evaluate:
      return "evaluate";
    case Function::generate:
      return "generate";
    case Function::load:
      return "load";
  }
  throw std::logic_error("no function of a program");
}

}  // namespace hydrac::runtime
