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
    case Function::prefill:
      return "prefill";
    case Function::decode:
      return "decode";
    case Function::score:
      return "score";
    case Function::score_base:
      return "score_base";
    case Function::embed:
      return "embed";
    case Function::load:
      return "load";
  }
  throw std::logic_error("no function of a program");
}

std::optional<NamedTensor> gradient_of(const ProgramLayout& layout, const NamedTensor& parameter) {
  if (parameter.nf4) return std::nullopt;
  for (const GradientPlace& place : layout.gradients) {
    const int64_t bytes = dtype_bytes(place.parameter_dtype),
                  first = static_cast<int64_t>(parameter.address) - place.parameters.offset;
    if (first < 0 || first >= place.parameters.elements * bytes) continue;
    NamedTensor gradient = parameter;
    gradient.dtype = place.dtype;
    gradient.shared.clear();  // each rank has its own, all of it
    for (TensorPiece& piece : gradient.pieces)
      piece.address = place.gradients.offset +
                      (piece.address - place.parameters.offset) / bytes * dtype_bytes(place.dtype);
    gradient.address =
        static_cast<uint64_t>(place.gradients.offset + first / bytes * dtype_bytes(place.dtype));
    return gradient;
  }
  return std::nullopt;
}

}  // namespace hydrac::runtime
