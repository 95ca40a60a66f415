#include "models/freeze.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "diag/render.h"
#include "diag/suggest.h"
#include "models/adapter.h"
#include "models/parameters.h"

namespace hydrac::models {

namespace {

using diag::Kind;

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_one(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, name); });
}

// Names of the tensors that hold a part of the slot.
std::vector<std::string> tensors_of(const ir::Value& parameter, int slot) {
  std::vector<std::string> names;
  for (const ir::CheckpointPart& part : parameter.parameter->checkpoint) {
    if (part.first_slot <= slot && slot <= part.last_slot)
      names.push_back(tensor_name(parameter, part, slot));
  }
  return names;
}

class FreezeCheck {
 public:
  FreezeCheck(const spec::Spec& spec, diag::Diagnostics& diagnostics)
      : spec_(spec), patterns_(spec.train.freeze), diagnostics_(diagnostics) {
    declare_parameters(graph_, spec);
  }

  void run() {
    bool trains = false;
    for (const ir::Value& value : graph_.values) {
      trains |= value.trains();
      if (!value.parameter) continue;
      for (int slot = 0; slot < value.slots; ++slot) {
        const std::vector<std::string> names = tensors_of(value, slot);
        for (const std::string& name : names) names_.push_back(name);
        if (!part_is_reported_) check_whole(names);
      }
    }
    for (const std::string& pattern : patterns_) check_pattern(pattern);
    if (!trains)
      report(Kind::freeze_everything, "train.freeze names every parameter, so that nothing trains",
             "leave out what is to be trained");
  }

 private:
  void report(Kind kind, std::string message, std::string suggestion) {
    diagnostics_.report(kind, spec_.where("train.freeze"), std::move(message), std::move(suggestion));
  }

  // Tensors of one matrix have one gradient.
  void check_whole(const std::vector<std::string>& names) {
    std::string in, out;
    for (const std::string& name : names) (matches_one(patterns_, name) ? in : out) = name;
    if (in.empty() || out.empty()) return;
    part_is_reported_ = true;
    report(Kind::freeze_part,
           fmt::format("train.freeze names {} and not {}, and the two are parts of one matrix", in, out),
           "freeze both, or neither");
  }

  void check_pattern(const std::string& pattern) {
    if (std::ranges::any_of(names_, [&](const std::string& name) { return matches(pattern, name); })) return;
    std::string help;
    if (spec_.model.tie_word_embeddings && matches(pattern, "lm_head.weight"))
      help = fmt::format("the head's matrix is the token embedding, {}", names_.front());
    else if (const std::string meant = diag::nearest(pattern, names_); !meant.empty())
      help = fmt::format("did you mean {}?", meant);
    else
      help = nearest_beginning(pattern);
    report(Kind::freeze_matches_nothing, fmt::format("no parameter is named {}", diag::printable(pattern)),
           help);
  }

  // What the longest beginning of the pattern that begins a name would match.
  std::string nearest_beginning(const std::string& pattern) const {
    for (size_t length = pattern.size(); length-- > 1;) {
      const std::string shorter = pattern.substr(0, length) + "*";
      const auto found =
          std::ranges::find_if(names_, [&](const std::string& name) { return matches(shorter, name); });
      if (found != names_.end()) return fmt::format("{} would match {}", diag::printable(shorter), *found);
    }
    return fmt::format("names are {} to {}; * stands for any characters", names_.front(), names_.back());
  }

  const spec::Spec& spec_;
  const std::vector<std::string>& patterns_;
  diag::Diagnostics& diagnostics_;
  ir::Graph graph_;
  std::vector<std::string> names_;
  bool part_is_reported_ = false;
};

}  // namespace

std::string tensor_name(const ir::Value& parameter, const ir::CheckpointPart& part, int slot) {
  std::string name = part.name;
  if (const size_t at = name.find("{}"); at != std::string::npos)
    name.replace(at, 2,
                 std::to_string(parameter.parameter->first_layer + slot * parameter.parameter->layer_step));
  return name;
}

bool is_frozen(const spec::Spec& spec, const ir::Value& parameter, int slot) {
  if (has_adapters(spec)) return true;
  const std::vector<std::string>& patterns = spec.train.freeze;
  return !patterns.empty() && std::ranges::all_of(tensors_of(parameter, slot), [&](const std::string& name) {
    return matches_one(patterns, name);
  });
}

void check_freeze(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  if (!spec.train.freeze.empty()) FreezeCheck(spec, diagnostics).run();
}

}  // namespace hydrac::models
