// A kernel's definition before it has a name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/statement.h"
#include "program/program.h"

namespace hydrac::codegen {

// Placeholder of the kernel's name in the code of a KernelText.
inline constexpr const char* kNamePlaceholder = "@KERNEL@";

struct KernelText {
  void take(std::string type, std::string name, const ir::Shape& shape = {}, bool is_restricted = false) {
    parameters.push_back(
        {std::move(type), std::move(name), shape.empty() ? "" : symbols_of(shape), is_restricted});
  }

  Block sizes = {};      // of a namespace before the kernel, NAME_sizes: on a GPU always there
  Block helpers = {};    // definitions between that and the kernel
  Code attributes = {};  // all that stands before its name
  std::vector<program::Parameter> parameters = {};
  Block body = {};
};

// Differences between texts of the same code.
struct TextOptions {
  bool comments = true, restricts = true;
};

// Names that the whole text refers to and does not declare: dimensions.
Names names_of(const KernelText& kernel);

std::string to_text(const KernelText& kernel, std::string_view name = kNamePlaceholder,
                    const TextOptions& options = {});

}  // namespace hydrac::codegen
