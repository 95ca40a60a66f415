// Kernels of a program that are written once: a template whose parameters are the constants in which they
// differ, and a flag where some leave outputs of the largest one out.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace hydrac::emit {

// A kernel as an instance of the template.
struct KernelVariant {
  int kernel = -1;
  std::vector<std::string> arguments;  // "/*kSite=*/131072"
  std::vector<std::string> missing;    // parameters of the template that it has not
};

struct KernelFamily {
  std::string text;                     // the largest kernel's, as the template's
  std::string flag;                     // "has_copy"; empty where all have the same outputs
  std::vector<KernelVariant> variants;  // the largest one first: the template has its name and file
};

// Those of two and more. A kernel is in one at most.
std::vector<KernelFamily> kernel_families(const program::Program& program);

// The family that a kernel is in, and its place there.
struct FamilyMember {
  const KernelFamily* family = nullptr;
  const KernelVariant* variant = nullptr;
  bool is_first() const { return variant == &family->variants.front(); }
};
FamilyMember member_of(const std::vector<KernelFamily>& families, int kernel);

}  // namespace hydrac::emit
