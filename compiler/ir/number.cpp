#include "ir/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hydrac::ir {

namespace {

// A double's literal, so that no quotient is one of integers.
std::string digits(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string operand(const Formula& formula) {
  return formula.text.find(' ') == std::string::npos ? formula.text : "(" + formula.text + ")";
}

Number combined(double value, const Number& a, const char* op, const Number& b) {
  Number result(value, {operand(a.formula) + op + operand(b.formula), "", a.formula.of});
  for (const SpecNumber& number : b.formula.of) {
    if (std::ranges::count(result.formula.of, number) == 0) result.formula.of.push_back(number);
  }
  return result;
}

Number named(const SpecNumber& number) {
  return {number.value, {"hyper::" + number.name, "", {number}}};
}

}  // namespace

Number::Number(double number) : value(number), formula{digits(number), "", {}} {}

Number spec_number(const std::string& name, double value, const std::string& meaning) {
  return named({name, value, false, meaning});
}

Number spec_number(const std::string& name, int64_t value, const std::string& meaning) {
  return named({name, static_cast<double>(value), true, meaning});
}

Number operator-(const Number& a, const Number& b) {
  return combined(a.value - b.value, a, " - ", b);
}

Number operator*(const Number& a, const Number& b) {
  return combined(a.value * b.value, a, " * ", b);
}

Number operator/(const Number& a, const Number& b) {
  return combined(a.value / b.value, a, " / ", b);
}

Number truncated(const Number& a) {
  return {std::trunc(a.value),
          {fmt::format("static_cast<std::uint32_t>({})", a.formula.text), "", a.formula.of}};
}

Number log(const Number& a) {
  const double value = std::log(a.value);
  return {value, {digits(value), fmt::format("{} == {}", a.formula.text, digits(a.value)), a.formula.of}};
}

}  // namespace hydrac::ir
