#include "emit/kernels/kernel_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>

#include "emit/kernels/kernel_difference.h"
#include "emit/kernels/kernels.h"
#include "ir/words.h"

namespace hydrac::emit {

using program::Kernel;
using program::Parameter;

namespace {

constexpr const char* kName = "KERNEL";

// A kernel's text in parts, with kName for its name.
struct KernelParts {
  std::vector<Parameter> parameters;
  Lines sizes;      // the constants in the namespace before it
  Lines signature;  // up to "{"
  Lines body;       // without the last "}"
  size_t statements() const {
    return body.size() - static_cast<size_t>(std::ranges::count_if(body, is_comment));
  }
};

Lines kernel_lines(const std::string& text) {
  Lines lines;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);) lines.push_back(line);
  return lines;
}

// Templates of hydrac, epilogues and what defines more than itself have none.
std::optional<KernelParts> kernel_parts(const Kernel& kernel) {
  if (!kernel.header.empty() || !kernel.maps.empty()) return std::nullopt;
  const std::string sizes = kernel.name + "_sizes";
  std::string text =
      ir::with_words(kernel.text, {{kernel.name, kName}, {sizes, std::string(kName) + "_sizes"}});
  const size_t open = text.find(") {\n");
  if (open == std::string::npos || !text.ends_with("}\n")) return std::nullopt;
  KernelParts parts;
  parts.parameters = kernel.parameters;
  const std::string ends = fmt::format("}}  // namespace {}_sizes\n\n", kName);
  size_t begin = 0;
  if (const size_t end = text.find(ends); end != std::string::npos) {
    parts.sizes = kernel_lines(text.substr(0, end));
    begin = end + ends.size();
  }
  const size_t signature = text.find('\n', text.find(") {", begin)) + 1;
  parts.signature = kernel_lines(text.substr(begin, signature - begin));
  parts.body = kernel_lines(text.substr(signature, text.size() - 2 - signature));
  return parts;
}

// If the smaller kernel is called with pointers that may alias, the template promises nothing for either.
Lines common_signature(Lines larger, const Lines& smaller) {
  constexpr std::string_view promise = "__restrict__ ";
  const auto promises = [&](const std::string& line) { return line.find(promise) != std::string::npos; };
  for (std::string& line : larger) {
    if (!promises(line)) continue;
    std::string without = line;
    without.erase(without.find(promise), promise.size());
    const std::string name = without.substr(0, without.find_first_of(",)"));
    const bool clashes = std::ranges::any_of(smaller, [&](const std::string& other) {
      return !promises(other) && other.substr(0, other.find_first_of(",)")) == name;
    });
    if (clashes) line = without;
  }
  return larger;
}

// The larger kernel's parameters that the smaller one has not, all of them pointers; nothing where it has
// others.
std::optional<std::vector<std::string>> missing_parameters(const std::vector<Parameter>& larger,
                                                           const std::vector<Parameter>& smaller) {
  std::vector<std::string> missing;
  size_t next = 0;
  for (const Parameter& parameter : larger) {
    if (next < smaller.size() && smaller[next].name == parameter.name &&
        smaller[next].type == parameter.type) {
      ++next;
    } else if (parameter.type.ends_with("*")) {
      missing.push_back(parameter.name);
    } else {
      return std::nullopt;
    }
  }
  if (next != smaller.size()) return std::nullopt;
  return missing;
}

// That the flag is named after.
std::string first_output(const std::vector<Parameter>& parameters, const std::vector<std::string>& missing) {
  for (const Parameter& parameter : parameters) {
    if (!parameter.type.starts_with("const ") && std::ranges::count(missing, parameter.name) > 0)
      return parameter.name;
  }
  return missing.front();
}

// Constants of the namespaces in which two kernels differ: they become parameters if their launches name none
// of them.
std::optional<KernelDifference> size_difference(const KernelParts& larger, const KernelParts& smaller,
                                                const Kernel& kernel) {
  auto difference = kernel_difference(larger.sizes, smaller.sizes, {});
  if (!difference) return std::nullopt;
  for (const DifferentConstant& constant : difference->constants) {
    const auto names = [&](const std::string& text) { return ir::has_word(text, constant.name); };
    const bool is_launched = names(kernel.blocks_of_rows) || constant.name == "kThreads" ||
                             constant.name == "kSharedBytes" || constant.name == "kBlocks" ||
                             std::ranges::count_if(larger.sizes, names) > 1;
    if (is_launched) return std::nullopt;
  }
  return difference;
}

struct KernelRelation {
  KernelDifference sizes, body;
  std::vector<std::string> missing;
};

std::optional<KernelRelation> relation(const Kernel& a, const KernelParts& larger, const Kernel& b,
                                       const KernelParts& smaller) {
  if (a.block != b.block || a.takes_layer != b.takes_layer || a.blocks_of_rows != b.blocks_of_rows ||
      larger.signature.front() != smaller.signature.front())
    return std::nullopt;
  const auto missing = missing_parameters(larger.parameters, smaller.parameters);
  if (!missing) return std::nullopt;
  auto sizes = size_difference(larger, smaller, a);
  if (!sizes) return std::nullopt;
  auto body = kernel_difference(larger.body, smaller.body, *missing);
  constexpr size_t least = 12;  // statements that are worth a template, and three fifths of the larger kernel
  if (!body || body->shared < least || body->shared * 5 < larger.statements() * 3) return std::nullopt;
  return KernelRelation{std::move(*sizes), std::move(*body), *missing};
}

// A family while kernels join it.
class FamilyBuilder {
 public:
  FamilyBuilder(int kernel, const Kernel& first, const KernelParts& parts)
      : first_(first), parts_(parts), signature_(parts.signature) {
    family_.variants.push_back({kernel, {}, {}});
  }

  // One pattern of outputs that are left out is as many as a template can have and be read.
  void join(int kernel, const Kernel& other, const KernelParts& parts) {
    auto found = relation(first_, parts_, other, parts);
    if (!found) return;
    if (!found->body.edits.empty()) {
      if (!edits_.empty() && edits_ != found->body.edits) return;
      edits_ = found->body.edits;
      family_.flag = "has_" + first_output(parts_.parameters, found->missing);
    }
    for (const KernelDifference* part : {&found->sizes, &found->body}) {
      for (const DifferentConstant& c : part->constants) constants_.try_emplace(c.name, c);
    }
    sizes_.merge(found->sizes.replaced);
    body_.merge(found->body.replaced);
    signature_ = common_signature(signature_, parts.signature);
    family_.variants.push_back({kernel, {}, found->missing});
    relations_.push_back(std::move(*found));
  }

  std::optional<KernelFamily> take() {
    if (relations_.empty()) return std::nullopt;
    std::vector<std::string> parameters;
    for (const auto& [name, constant] : constants_)
      parameters.push_back(fmt::format("{} {}", constant.type, name));
    if (!family_.flag.empty()) parameters.push_back("bool " + family_.flag);
    for (size_t v = 0; v < family_.variants.size(); ++v)
      family_.variants[v].arguments = arguments(v == 0 ? nullptr : &relations_[v - 1]);
    std::string text;
    if (!parts_.sizes.empty())
      text =
          template_body(parts_.sizes, sizes_, {}, "") + fmt::format("}}  // namespace {}_sizes\n\n", kName);
    text += fmt::format("template <{}>\n{}\n", fmt::join(parameters, ", "), fmt::join(signature_, "\n")) +
            template_body(parts_.body, body_, edits_, family_.flag) + "}\n";
    family_.text =
        ir::with_words(text, {{kName, first_.name}, {std::string(kName) + "_sizes", first_.name + "_sizes"}});
    return std::move(family_);
  }

 private:
  std::vector<std::string> arguments(const KernelRelation* relation) const {
    std::vector<std::string> list;
    for (const auto& [name, constant] : constants_) {
      std::string value = constant.larger;
      for (const KernelDifference* part :
           {relation ? &relation->sizes : nullptr, relation ? &relation->body : nullptr}) {
        if (!part) continue;
        for (const DifferentConstant& c : part->constants) {
          if (c.name == name) value = c.smaller;
        }
      }
      list.push_back(fmt::format("/*{}=*/{}", name, value));
    }
    if (!family_.flag.empty()) {
      const bool has_all = !relation || relation->body.edits.empty();
      list.push_back(fmt::format("/*{}=*/{}", family_.flag, has_all));
    }
    return list;
  }

  const Kernel& first_;
  const KernelParts& parts_;
  Lines signature_;
  KernelFamily family_;
  std::vector<KernelRelation> relations_;  // of the variants behind the first
  std::map<std::string, DifferentConstant> constants_;
  std::map<size_t, std::string> sizes_, body_;  // lines that became parameters
  std::map<size_t, LineEdit> edits_;
};

}  // namespace

std::vector<KernelFamily> kernel_families(const program::Program& program) {
  const auto count = static_cast<int>(program.kernels.size());
  std::vector<std::optional<KernelParts>> parts;
  for (const Kernel& kernel : program.kernels) parts.push_back(kernel_parts(kernel));
  std::vector<int> order(program.kernels.size());
  std::iota(order.begin(), order.end(), 0);
  const auto statements = [&](int k) { return parts[static_cast<size_t>(k)]->statements(); };
  std::erase_if(order, [&](int k) { return !parts[static_cast<size_t>(k)]; });
  std::ranges::stable_sort(order, std::ranges::greater{}, statements);

  std::vector<KernelFamily> families;
  std::vector<bool> is_taken(static_cast<size_t>(count), false);
  for (const int first : order) {
    if (is_taken[static_cast<size_t>(first)]) continue;
    FamilyBuilder builder(first, program.kernels[static_cast<size_t>(first)],
                          *parts[static_cast<size_t>(first)]);
    for (const int other : order) {
      if (other != first && !is_taken[static_cast<size_t>(other)] && statements(other) <= statements(first))
        builder.join(other, program.kernels[static_cast<size_t>(other)], *parts[static_cast<size_t>(other)]);
    }
    if (auto family = builder.take()) {
      for (const KernelVariant& variant : family->variants)
        is_taken[static_cast<size_t>(variant.kernel)] = true;
      families.push_back(std::move(*family));
    }
  }
  return families;
}

FamilyMember member_of(const std::vector<KernelFamily>& families, int kernel) {
  for (const KernelFamily& family : families) {
    for (const KernelVariant& variant : family.variants) {
      if (variant.kernel == kernel) return {&family, &variant};
    }
  }
  return {};
}

}  // namespace hydrac::emit
