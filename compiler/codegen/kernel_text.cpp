#include "codegen/kernel_text.h"

namespace hydrac::codegen {

namespace {

// One a line, its shape behind it; the parentheses and the brace of the function's body with them.
std::string parameters_text(const std::vector<program::Parameter>& parameters, const TextOptions& options) {
  if (parameters.empty()) return "() {\n";
  std::string text = "(\n";
  for (size_t i = 0; i < parameters.size(); ++i) {
    const program::Parameter& parameter = parameters[i];
    const bool is_restricted = parameter.is_restricted && options.restricts;
    text += fmt::format("    {} {}{}{}", parameter.type, is_restricted ? "__restrict__ " : "", parameter.name,
                        i + 1 == parameters.size() ? ") {" : ",");
    if (options.comments && !parameter.shape.empty()) text += "  // " + parameter.shape;
    text += "\n";
  }
  return text;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

Names names_of(const KernelText& kernel) {
  Names names = kernel.attributes.names;
  for (Block part : {kernel.body, kernel.helpers, kernel.sizes}) names = part.drop_unused(std::move(names));
  return names;
}

std::string to_text(const KernelText& kernel, std::string_view name, const TextOptions& options) {
  std::string text;
  if (!kernel.sizes.empty())
    text += fmt::format("namespace {0}_sizes {{\n{1}}}  // namespace {0}_sizes\n\n", kNamePlaceholder,
                        kernel.sizes.text(0, options.comments));
  if (!kernel.helpers.empty()) text += kernel.helpers.text(0, options.comments) + "\n";
  text += kernel.attributes.text + kNamePlaceholder + parameters_text(kernel.parameters, options) +
          kernel.body.text(1, options.comments) + "}\n";
  return replaced(std::move(text), kNamePlaceholder, name);
}

}  // namespace hydrac::codegen
