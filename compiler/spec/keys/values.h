// The C++ types of spec keys that are neither numbers nor plain enums.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diag/location.h"
#include "functions/function.h"
#include "spec/keys/enums.h"

namespace hydrac::spec {

// Written as one string or as a list of strings.
using StringList = std::vector<std::string>;

using Betas = std::array<double, 2>;

using Numbers = std::vector<double>;

// A number of sequences. 0 stands for the word auto until the plan has chosen one (driver/fit.h).
struct BatchSize {
  int64_t value = 0;

  BatchSize(int64_t sequences = 0) : value(sequences) {}
  operator int64_t() const { return value; }
  bool automatic() const { return value == 0; }
};

// A learning rate. With the word auto, a range test before training finds it (runtime/train/range_test.h);
// `value` is then the optimizer's default, for steps that are no training run (bench, tune, verify).
struct LearningRate {
  double value = 0;
  bool automatic = false;

  LearningRate(double rate = 0) : value(rate) {}
  operator double() const { return value; }
  bool operator==(const LearningRate&) const = default;
  bool operator==(double rate) const { return !automatic && value == rate; }
};

// The share of something that lies elsewhere: false is none of it, true all, and a number above 0 and below 1
// says.
struct Share {
  double value = 0;

  Share(double share = 0) : value(share) {}
  operator double() const { return value; }
  bool any() const { return value > 0; }
};

// Processor cores by their numbers, in the order in which they were written, none twice. Empty stands for the
// word none: every core that the process may use.
struct CoreList {
  std::vector<int> numbers;

  bool operator==(const CoreList&) const = default;
};

// Values that the backward pass computes again instead of keeping. `none`, `block` and `automatic` are
// written as words (none, block, auto); `list` as a list of the parts below.
struct Recompute {
  enum class Mode { none, block, automatic, list };
  Mode mode = Mode::none;
  bool norm = false;     // norms' outputs
  bool act = false;      // the mlp's activation
  bool attn = false;     // the attention block
  bool mlp = false;      // the mlp block
  bool qk_norm = false;  // normed and rotated queries and keys

  bool operator==(const Recompute&) const = default;
};

// Data by a name of its own: a part of a mixture, or a set that validates.
struct Source {
  std::string name;
  std::vector<std::string> path;
  double weight = 1;  // of a mixture
  double epochs = 0;

  bool operator==(const Source&) const = default;
};
using Sources = std::vector<Source>;

// Values by names of the user's own, in the order written, each as JSON.
struct NamedValue {
  std::string name, json;

  bool operator==(const NamedValue&) const = default;
};
using NamedValues = std::vector<NamedValue>;

// A function in a C++ file, written as a map: {cpp: ops/quick_gelu.h, function: quick_gelu}. Resolved specs
// carry the file's text too, so that they need no other file.
struct CppFunction {
  std::string cpp;       // the file, as written; relative to the file that wrote it
  std::string function;  // a C identifier
  std::string text;      // of the file
  functions::Function lifted;
  diag::Location cpp_where, function_where;

  // The place where it was written does not count, and what is computed follows from the text.
  bool operator==(const CppFunction& other) const {
    return cpp == other.cpp && function == other.function && text == other.text;
  }
};

// A word of an enum, or a function in its place. Compares and converts as the word.
template <class E>
struct WordOrFunction {
  using Word = E;
  E word{};
  std::optional<CppFunction> function;  // then `word` means nothing

  WordOrFunction() = default;
  WordOrFunction(E w) : word(w) {}
  bool operator==(const WordOrFunction& other) const {
    return function == other.function && (function || word == other.word);
  }
};
template <class T>
inline constexpr bool is_word_or_function = false;
template <class E>
inline constexpr bool is_word_or_function<WordOrFunction<E>> = true;

using HiddenAct = WordOrFunction<Activation>;
using LossFunction = WordOrFunction<Loss>;
using LearningRateCurve = WordOrFunction<Schedule>;

}  // namespace hydrac::spec
