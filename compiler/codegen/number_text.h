// Numbers as C++ and CUDA text. Every number in a kernel or an emitted file is printed here.
#pragma once
#include <cstdint>
#include <string>

namespace hydrac::codegen {

// A constant of the argument's type that is the argument, to the bit: a literal where C++ has one, which it
// has not for what is not finite and for the least integers.
std::string number_text(float value);
std::string number_text(double value);
std::string number_text(std::int32_t value);
std::string number_text(std::int64_t value);
std::string number_text(std::uint32_t value);
std::string number_text(std::uint64_t value);  // a count, without the u where it has no need of it

}  // namespace hydrac::codegen
