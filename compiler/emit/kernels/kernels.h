// The kernels of a program as source files: which file each one lies in, and on a GPU the host functions that
// launch them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/dimensions.h"
#include "driver/compile.h"
#include "emit/kernels/kernel_families.h"

namespace hydrac::emit {

// True if calls differ in their rows: then the function that launches the kernel takes `rows`.
bool takes_rows(const program::Program& program, int kernel);

// True if a kernel's template becomes source of the program: attention's. The others (matmuls, the
// embedding's gradient) are headers of the runtime that a kernel instantiates: nothing in them depends on the
// model but sizes.
bool is_specialized(const program::Kernel& kernel);

// Kernels by the file that holds them, "block" for kernels/block.cu: that of the part of the program which
// calls them first. One that is made of a template is in a file of its own, or in the template's. A family's
// kernels follow on its first one.
std::map<std::string, std::vector<int>> kernel_files(const program::Program& program,
                                                     const std::vector<KernelFamily>& families);

// kernels/kernels.h: a declaration of each, under its comment.
std::string kernel_declarations(const driver::Compiled& compiled, const std::vector<KernelFamily>& families);
// The body of kernels/FILE.cu, or of kernels/FILE.cpp for the cpu.
std::string kernel_definitions(const driver::Compiled& compiled, const std::vector<KernelFamily>& families,
                               const std::vector<int>& kernels);

// One kernel as it stands in these bodies, under its comment. On a GPU it has `_kernel` behind its name.
std::string commented_definition(const program::Kernel& kernel, bool cpu);
// The host function that launches a kernel; `member` of a family, or not.
std::string launcher(const driver::Compiled& compiled, int kernel, const FamilyMember& member);
// Names of the runtime that this function uses.
std::string launch_using(const program::Kernel& kernel);

// `text` with every `what` become `with`.
std::string replaced(std::string text, const std::string& what, const std::string& with);

// The member of Run that is the plan of an attention by cuDNN: "attention", "generation_attention".
std::string attention_name(const driver::Compiled& compiled, const program::AttentionShape& attention);

}  // namespace hydrac::emit
