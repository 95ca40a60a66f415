#include "codegen/kernel_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/operand_names.h"

namespace hydrac::codegen {

namespace {

using Words = std::vector<std::string>;

bool holds(const Words& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

Words parts_of(const std::string& fused) {
  Words parts;
  for (size_t at = 0; at <= fused.size();) {
    const size_t plus = std::min(fused.find('+', at), fused.size());
    parts.push_back(fused.substr(at, plus - at));
    at = plus + 1;
  }
  return parts;
}

// The contribution of one fused op to the kernel's name. Left out are gradients of parameters next to an
// input's gradient, derivatives next to an activation or its gradient, and copies in another type.
std::string short_form(const std::string& part, const Words& all) {
  const bool has_backward = std::ranges::any_of(all, [](const auto& p) { return p.ends_with("_backward"); });
  const bool is_loss = holds(all, "mean_loss") && (holds(all, "cross_entropy") || holds(all, "mse"));
  if (part == "cast" || part == "mean_loss_backward" || part == "adamw_corrections" || part == "advance_step")
    return "";
  if ((part.ends_with("_weight_gradient") || part == "bias_gradient") && has_backward) return "";
  if (part == "mean_loss" && is_loss) return "loss";
  if (is_loss && (part == "cross_entropy_backward" || part == "mse_backward")) return "and_gradient";
  if (part == "embedding" && holds(all, "position_embedding")) return "embeddings";
  if (part == "position_embedding" && holds(all, "embedding")) return "";
  return part;
}

bool is_statistic(const std::string& name) {
  return name == "mean" || name == "rstd" || name == "lse";
}

// How the kernel differs from the one that has the name already, the most telling first.
Words differences(const KernelPlace& place, const KernelPlace& named) {
  Words result, missing;
  const auto add = [&](const std::string& one) {
    if (!one.empty() && !holds(result, one)) result.push_back(one);
  };
  for (const std::string& name : named.parameters) {
    if (!holds(place.parameters, name)) missing.push_back(name);
  }
  if (!missing.empty() && std::ranges::all_of(missing, is_statistic)) add("without_statistics");
  if (place.function == "generate" && named.function != "generate") add("generate");
  for (const char* part : {"q", "k", "v"}) {  // of "attn.k" or "attn.k_normed.rstd"
    const std::string in_block = place.label.substr(place.label.find('.') + 1);
    if (in_block.substr(0, in_block.find_first_of("._")) == part) add(part);
  }
  if (place.region != named.region) add(place.region.substr(0, place.region.find("_backward")));
  if (place.scope != named.scope) add(place.scope);
  for (const std::string& source : place.sources) {
    if (!holds(named.sources, source)) add(source);
  }
  if (place.function != named.function) add(place.function);
  return result;
}

}  // namespace

std::string kernel_name(const std::string& fused) {
  const Words parts = parts_of(fused);
  Words forms;
  for (const std::string& part : parts) {
    const std::string form = parts.size() == 1 ? part : short_form(part, parts);
    if (!form.empty()) forms.push_back(form);
  }
  if (forms.empty()) forms = parts;
  constexpr size_t most = 4;
  if (forms.size() > most) {
    const size_t more = forms.size() - (most - 1);
    forms.resize(most - 1);
    forms.push_back(fmt::format("and_{}_more", more));
  }
  return identifier(fmt::format("{}", fmt::join(forms, "_")));
}

std::vector<std::string> sources_of(const ir::Graph& graph, const ir::Node& node) {
  Words sources;
  for (ir::Use use : node.inputs) {
    if (use.value == ir::kNoValue) continue;
    const std::string& name = graph.value(use).name;
    const size_t start = name.starts_with("d_") ? 2 : 0, dot = name.find('.');
    if (dot != std::string::npos) sources.push_back(identifier(name.substr(start, dot - start)));
  }
  return sources;
}

std::string KernelTable::unique(const std::string& wanted, const KernelPlace& place) {
  const auto taken = by_name_.find(wanted);
  if (taken == by_name_.end()) return wanted;
  const Words how = differences(place, entries_[taken->second].place);
  Words candidates;
  for (const std::string& one : how) candidates.push_back(wanted + "_" + one);
  for (size_t i = 0; i < how.size(); ++i) {
    for (size_t j = i + 1; j < how.size(); ++j)
      candidates.push_back(fmt::format("{}_{}_{}", wanted, how[i], how[j]));
  }
  for (const std::string& name : candidates) {
    if (!by_name_.contains(name)) return name;
  }
  int number = 2;
  while (by_name_.contains(fmt::format("{}_{}", wanted, number))) ++number;
  return fmt::format("{}_{}", wanted, number);
}

void KernelTable::define(int kernel) {
  const KernelSource& source = entries_[kernel].source;
  program::Kernel& defined = kernels_[kernel];
  defined.comment = source.comment;
  for (const std::string& line : source.sharing) defined.comment += "\n" + line;
  defined.text = to_text(source.text, defined.name);
  defined.parameters = source.text.parameters;
}

int KernelTable::add(program::Kernel kernel, const KernelSource& source, int64_t blocks,
                     const KernelPlace& place) {
  const int position = static_cast<int>(kernels_.size());
  const Key key{to_text(source.text, kNamePlaceholder, {.comments = false, .restricts = false}), kernel.block,
                kernel.blocks_of_rows, kernel.blocks_of_rows.empty() ? blocks : 0, kernel.maps};
  const auto [found, is_new] = by_key_.try_emplace(key, position);
  if (is_new) {
    kernel.name = unique(source.name, place);
    kernel.header = source.header;
    kernel.takes_layer = source.takes_layer;
    kernel.names = names_of(source.text);
    by_name_[kernel.name] = position;
    entries_.push_back({source, place});
    kernels_.push_back(std::move(kernel));
  } else {
    KernelSource& known = entries_[found->second].source;
    for (const std::string& line : source.sharing) {
      if (!holds(known.sharing, line)) known.sharing.push_back(line);
    }
    for (size_t i = 0; i < source.text.parameters.size(); ++i)
      known.text.parameters[i].is_restricted &= source.text.parameters[i].is_restricted;
  }
  define(found->second);
  return found->second;
}

}  // namespace hydrac::codegen
