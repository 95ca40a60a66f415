// Kernels that bind a template to constants, as source files: the template's code for these constants.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "emit/source_file.h"

namespace hydrac::emit {

// Kernels of one header of templates that are specialized together: all read documents, or none does; and all
// are an encoder's alone, which has a mask of its own, or none is.
struct TemplateKernels {
  std::string name;          // of what they share: "attention" for kernels/attention.cuh
  std::vector<int> kernels;  // of the program
};

std::vector<TemplateKernels> template_kernels(const driver::Compiled& compiled);

// The files of a group by their paths: a source for each kernel, with the function that launches it, and a
// header for what several of them use.
std::map<std::string, SourceFile> template_files(const driver::Compiled& compiled,
                                                 const TemplateKernels& group);

}  // namespace hydrac::emit
