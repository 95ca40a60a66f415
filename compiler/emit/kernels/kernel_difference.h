// In what one generated kernel differs from another: nothing but constants, and outputs that it leaves out.
// Then both are instances of one template.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hydrac::emit {

using Lines = std::vector<std::string>;

// A line of the larger kernel as the template has it.
struct LineEdit {
  enum class Kind {
    opens,      // it and those up to `closes` are the larger kernel's only
    guarded,    // takes from a parameter that may be left out: `other` is its value then
    exchanged,  // the smaller kernel has `other` here
  } kind = Kind::opens;
  size_t closes = 0;
  std::string other;
  bool operator==(const LineEdit&) const = default;
};

struct DifferentConstant {
  std::string type, name;
  std::string larger, smaller;  // values
};

struct KernelDifference {
  std::vector<DifferentConstant> constants;
  std::map<size_t, std::string> replaced;  // lines of the larger kernel that name a constant's value; "" goes
  std::map<size_t, LineEdit> edits;        // by line of the larger kernel
  size_t shared = 0;                       // lines that both have, comments apart
};

// The difference of two bodies, a statement a line. `missing`: the larger kernel's parameters that the
// smaller one has not. Nothing if they differ in more.
std::optional<KernelDifference> kernel_difference(const Lines& larger, const Lines& smaller,
                                                  const std::vector<std::string>& missing);

// "constexpr int kBlocks = 132;" and the like. The value is that of the larger kernel.
std::optional<DifferentConstant> constant_of(const std::string& line);

bool is_comment(const std::string& line);

// The larger kernel's body as the template's. `flag` is true where all outputs are there.
std::string template_body(const Lines& larger, const std::map<size_t, std::string>& replaced,
                          const std::map<size_t, LineEdit>& edits, const std::string& flag);

}  // namespace hydrac::emit
