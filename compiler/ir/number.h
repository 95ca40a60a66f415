// Numbers of the spec in kernels. Generated code names the key's constant, hyper::weight_decay, instead of
// repeating its digits, so a kernel that someone keeps follows a changed spec.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrac::ir {

// A constant of namespace hyper, declared once for all kernels: a double, or an std::int64_t.
struct SpecNumber {
  std::string name;
  double value = 0;
  bool is_integer = false;
  std::string meaning;  // the key, or what its value is made of
  auto operator<=>(const SpecNumber&) const = default;
};

// How C++ says a number by those of the spec.
struct Formula {
  std::string text;       // "1.0 - hyper::beta1"; empty: digits
  std::string condition;  // what must hold for the text, where that is digits: "hyper::beta1 == 0.9"
  std::vector<SpecNumber> of;
  auto operator<=>(const Formula&) const = default;
};

// A number and its formula, computed together so that they cannot differ.
struct Number {
  Number(double number);
  Number(double number, Formula said) : value(number), formula(std::move(said)) {}

  double value;
  Formula formula;
};

Number spec_number(const std::string& name, double value, const std::string& meaning);
Number spec_number(const std::string& name, int64_t value, const std::string& meaning);
Number operator-(const Number& a, const Number& b);
Number operator*(const Number& a, const Number& b);
Number operator/(const Number& a, const Number& b);  // one of them is no integer
Number truncated(const Number& a);                   // to an unsigned integer
// Digits, which the spec's number may not change without: C++ computes no logarithm in a constant.
Number log(const Number& a);

}  // namespace hydrac::ir
