#include "spec/hugging_face/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "spec/families/list.h"

namespace hydrac::spec {

std::string Family::tensor(std::string_view ours) const {
  const size_t end = ours.rfind('.');
  for (const ModuleName& module : modules)
    if (module.ours == ours.substr(0, end)) return std::string(module.theirs).append(ours.substr(end));
  throw std::logic_error(fmt::format("{} has no name for {}", model_type, ours));
}

std::span<const Family> families() {
  static const std::vector<Family> all = {
      gpt2(),       qwen3(),    qwen2(),    llama(),       mistral(),  olmo2(),   gemma(),
      gemma2(),     arcee(),    granite(),  smollm3(),     olmo3(),    exaone4(), ministral(),
      gemma3(),     phi3(),     stablelm(), helium(),      glm(),      glm4(),    nemotron(),
      cohere(),     cohere2(),  falcon(),   gpt_bigcode(), gpt_neox(), phi(),     gptj(),
      starcoder2(), ernie4_5(), mixtral(),  qwen3_moe(),   olmoe()};
  return all;
}

const Family& own_family() {
  static const Family own = own_models();
  return own;
}

const Family* find_family(std::string_view model_type) {
  if (model_type == own_family().model_type) return &own_family();
  const auto found = std::ranges::find(families(), model_type, &Family::model_type);
  return found == families().end() ? nullptr : &*found;
}

}  // namespace hydrac::spec
