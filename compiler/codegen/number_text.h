// Numbers as C++ and CUDA text. Every number in a kernel or an emitted file is printed here.
#pragma once
#include <cstdint>
#include <string>

namespace hydrac::codegen {

// A constant expression of the argument's type with the same bits: a literal where C++ has one. It has none
// for numbers that are not finite, and for the least integers.
std::string number_text(float value);
std::string number_text(double value);
std::string number_text(std::int32_t value);
std::string number_text(std::int64_t value);
std::string number_text(std::uint32_t value);
std::string number_text(std::uint64_t value);  // a count, without the u where it has no need of it

}  // namespace hydrac::codegen
